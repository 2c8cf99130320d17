#pragma once

// AdaptDL's scheduling hints: what a training job sends to its scheduler every 30 s, as JSON.
// Users' programs send them, so every value is checked. Pure functions, any thread.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/json.h"
#include "core/goodput/job_hints.h"

namespace adaptdl {

// What a job knows of itself on one kind of accelerator (JobHints::kinds).
struct AcceleratorHints {
  std::optional<PerfParams> perf;     // perfParams
  std::optional<int64_t> atomic_max;  // maxLocalBsz, samples, >= 1

  bool operator==(const AcceleratorHints&) const = default;
};

// The fields as on the wire. A field is empty if the job sent null or omitted it: the job does not
// know the value yet, or it does not apply.
struct SchedulingHints {
  std::optional<int64_t> initial_batch;           // initBatchSize, samples, >= 1
  std::optional<int64_t> atomic_min, atomic_max;  // localBszBounds, samples, 1 <= min <= max
  std::optional<int64_t> global_batch;            // globalBatchSize: the present total, >= 1
  std::optional<int64_t> max_batch;               // maxBatchSize, >= initial; none: not adaptive
  std::optional<int> max_profiled_replicas;       // maxProfiledReplicas, >= 0
  bool accumulation = false;                      // gradientAccumulation
  bool halves_alone = false;                      // halvesAlone: BatchBounds::halves_alone
  std::optional<GradParams> grad;                 // gradParams {norm, var}
  std::optional<PerfParams> perf;                 // perfParams {alpha_c, ..., gamma}
  std::string accelerator;                        // accelerator: the kind that perf is of; ""
  std::map<std::string, AcceleratorHints> accelerators;  // accelerators, by kind
  std::map<std::string, double> train_metrics;  // trainMetrics: finite; ours: loss, validLoss,
                                                // localBatch, stepSeconds, syncSeconds
  std::optional<double> remaining_progress;     // remainingProgress, scale-invariant iterations
  std::optional<double> rescale_cost_s;         // rescaleCost

  bool operator==(const SchedulingHints&) const = default;
};

inline constexpr size_t kMaxHintsBytes = 64u << 10;  // of their text; a job's have some 100 bytes

// Throws Error "WHERE: FIELD ..." with the allowed values if the text is not a JSON object, a field
// has a wrong type, a number is not finite, negative or absurd (a batch of 10^15 samples), or sizes
// contradict each other. Python's NaN and Infinity, which are not JSON, give the same error.
// `ignored` gets the names of unknown fields.
SchedulingHints parse_hints(std::string_view text, const std::string& where,
                            std::vector<std::string>& ignored);
SchedulingHints hints_from_json(const Json& object, const std::string& where,
                                std::vector<std::string>& ignored);

// All of AdaptDL's fields, null if unknown, and ours if known. Reads back as the same hints.
Json to_json(const SchedulingHints& hints);

// What a scheduler keeps of the hints that a job has told. AdaptDL's Python programs know nothing
// of kinds: their perf is of `kind`, that of the nodes where they run, if that is known. What the
// job told earlier (`before`) of other kinds stays.
SchedulingHints with_kinds(SchedulingHints told, const std::optional<std::string>& kind,
                           const SchedulingHints& before);

// The names of kinds of accelerators, each once, sorted and joined by "+": the kind of replicas
// that are on these. "" among them, or no name: "", unknown.
std::string joined_kinds(const std::vector<std::string>& names);

// The hints as policies use them. A job without maxBatchSize keeps its initial batch.
JobHints job_hints(const SchedulingHints& hints);

// What a restart costs a program that does not tell it, in seconds: estimated from the time between
// a start and the first report that follows. Python AdaptDL reports every 30 s from its first step
// on, so later reports say nothing new: the smallest estimate so far holds. `before`: that one. A
// first report after half an hour is taken for a later one, as if earlier ones had been lost.
std::optional<double> estimated_restart_cost(double reported_after_s,
                                             const std::optional<double>& before);

}  // namespace adaptdl
