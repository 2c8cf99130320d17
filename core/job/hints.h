#pragma once

// AdaptDL's scheduling hints: what a training job tells its scheduler every 30 s, as JSON. It is
// sent by programs of other people, so nothing in it is taken on trust. Pure functions, any thread.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/json.h"
#include "core/goodput/job_hints.h"

namespace adaptdl {

// As on the wire, under the names of the fields' meanings. Nothing where the job sent null or left
// the field out: it does not know yet, or it does not apply.
struct SchedulingHints {
  std::optional<int64_t> initial_batch;           // initBatchSize, samples, >= 1
  std::optional<int64_t> atomic_min, atomic_max;  // localBszBounds, samples, 1 <= min <= max
  std::optional<int64_t> global_batch;            // globalBatchSize: the present total, >= 1
  std::optional<int64_t> max_batch;               // maxBatchSize, >= initial; none: not adaptive
  std::optional<int> max_profiled_replicas;       // maxProfiledReplicas, >= 0
  bool accumulation = false;                      // gradientAccumulation
  std::optional<GradParams> grad;                 // gradParams {norm, var}
  std::optional<PerfParams> perf;                 // perfParams {alpha_c, ..., gamma}
  std::map<std::string, double> train_metrics;    // trainMetrics: loss and the like, finite
  std::optional<double> remaining_progress;       // remainingProgress, scale-invariant iterations
  std::optional<double> rescale_cost_s;           // rescaleCost

  bool operator==(const SchedulingHints&) const = default;
};

// Throws Error "WHERE: FIELD ..." that says what is allowed, for what is no JSON object, a field of
// a wrong type, a number that is not finite, negative or absurd (a batch of 10^15 samples), and
// sizes that do not fit together. Python's NaN and Infinity, which are no JSON, are named the same
// way. `ignored` gets the names of fields that are not known.
SchedulingHints parse_hints(std::string_view text, const std::string& where,
                            std::vector<std::string>& ignored);
SchedulingHints hints_from_json(const Json& object, const std::string& where,
                                std::vector<std::string>& ignored);

// All of AdaptDL's fields, null for what is not known, and ours where they are known. Reads back
// as the same hints.
Json to_json(const SchedulingHints& hints);

// What a scheduler makes of them. A job without maxBatchSize keeps its initial batch.
JobHints job_hints(const SchedulingHints& hints);

}  // namespace adaptdl
