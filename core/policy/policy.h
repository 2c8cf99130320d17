#pragma once

// (snapshot, seed, budget) -> an allocation for every job, with a reason for its user.
// adaptdl-policy(5) explains each policy to users; here is what code may rely on.

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/policy/snapshot.h"

namespace adaptdl {

// How long a policy may search. Work is counted in steps of the search, so a simulation does not
// depend on the machine's speed. The deadline only ends the search early; only live clusters set
// it.
struct SearchBudget {
  int64_t work = 20'000'000;  // elementary steps, some nanoseconds each
  std::optional<TimePoint> deadline;
};

struct JobDecision {
  NodeList nodes;
  std::string why;  // one sentence about the job ("it waits because ..."), without a full stop
};

struct Decision {
  std::vector<JobDecision> jobs;  // one for each job of the snapshot, in its order
  double objective = 0;           // what the policy maximised (minimised: sia), in its own unit
  // No allocation that the policy considers is better by more than this (>= 0, in the objective's
  // unit); infinite: not known.
  double gap = std::numeric_limits<double>::infinity();
  bool cut_short = false;  // the deadline ended the search; a better answer may exist
};

// The allocation is always feasible (see feasibility.h), the best found within the budget, and
// equal to the present one if no better one is worth a change. Deterministic for equal arguments if
// no deadline ends the search. The policies of core/policy keep no state between calls, and many
// threads may call them. Throws Error only for a snapshot that check_snapshot rejects.
class Policy {
 public:
  virtual ~Policy() = default;
  virtual Decision decide(const Snapshot& snapshot, uint64_t seed, const SearchBudget& budget) = 0;
};

// One option of a policy, used for flags, files, the man page and `adaptdl simulate --help`.
struct PolicyOption {
  std::string_view name;  // as in restart-penalty
  std::string_view unit;  // "" for a plain number; "flag": 0 or 1
  double fallback = 0;
  double low = 0, high = 0;
  std::string_view doc;
};

struct PolicyInfo {
  std::string_view name;
  std::string_view summary;  // one line
  std::vector<PolicyOption> options;
  std::unique_ptr<Policy> (*make)(const std::map<std::string, double>& options);  // all are set
  // False: jobs get the replicas that their user asked for and, in simulations, keep the batch;
  // jobs on several nodes may share nodes (feasibility.h, rule 5).
  bool adapts = true;
};

// Every policy of core/policy; the first is the default.
std::span<const PolicyInfo> policies();
std::string_view default_policy();

// Throws Error with the allowed values for an unknown policy or option, or a value out of range.
// Missing options have their defaults.
std::unique_ptr<Policy> make_policy(std::string_view name,
                                    const std::map<std::string, double>& options = {});

}  // namespace adaptdl
