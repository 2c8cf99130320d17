#pragma once

// (snapshot, seed, budget) -> an allocation for every job, with a reason that its user can read.
// adaptdl-policy(5) explains each policy to people; here is what code may rely on.

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

// How long a policy may search. Work is counted in steps of the search, so that a simulation does
// not depend on the machine's speed; the deadline only cuts short, and only live clusters set one.
struct SearchBudget {
  int64_t work = 20'000'000;  // elementary steps, some nanoseconds each
  std::optional<TimePoint> deadline;
};

struct JobDecision {
  NodeList nodes;
  std::string why;  // one sentence without a full stop
};

struct Decision {
  std::vector<JobDecision> jobs;  // one for each of the snapshot's, in its order
  double objective = 0;           // what the policy maximised (minimised: sia), in its own unit
  bool cut_short = false;         // the deadline ended the search; a better answer may exist
};

// The allocation is always feasible (see feasibility.h), the best found by the budget's end, and
// equals the present one where nothing better is worth a change. Deterministic for equal arguments
// when no deadline cuts in. Those of core/policy keep nothing between calls and may be called from
// many threads. Throws Error only for a snapshot that check_snapshot refuses.
class Policy {
 public:
  virtual ~Policy() = default;
  virtual Decision decide(const Snapshot& snapshot, uint64_t seed, const SearchBudget& budget) = 0;
};

// One option of a policy. Feeds flags, files, the man page and `adaptdl simulate --help`.
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
  // False: jobs keep the replicas and the batch that their user asked for, and may share nodes.
  bool adapts = true;
};

// Every policy of core/policy; the first is the default.
std::span<const PolicyInfo> policies();
std::string_view default_policy();

// Throws Error naming what is known for an unknown policy or option and a value out of range.
// Options that are not given take their default.
std::unique_ptr<Policy> make_policy(std::string_view name,
                                    const std::map<std::string, double>& options = {});

}  // namespace adaptdl
