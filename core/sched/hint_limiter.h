#pragma once

// Limits how often a job's hints are applied, since each time costs a write to the API server or to
// the store: kBurst times at once, and then once every kInterval. Of hints that come faster only
// the newest are kept, and applied when the limit allows. Programs send hints every 10 or 30 s, so
// the limit concerns only faulty and malicious ones. One thread.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/token_bucket.h"
#include "core/job/hints.h"

namespace adaptdl {

// Hints as a job sent them.
struct SentHints {
  std::string job_namespace, name;
  std::optional<std::string> token;  // the sender's
  SchedulingHints hints;
};

class HintLimiter {
 public:
  static constexpr double kBurst = 5;
  static constexpr Seconds kInterval{10.0};

  // Returns the hints if they may be applied now; otherwise keeps them instead of the job's earlier
  // ones.
  std::optional<SentHints> put(SentHints sent, TimePoint now);
  // The kept hints that may be applied now. Forgets jobs that have sent nothing for a while: memory
  // is bounded by the number of jobs that send. Call it about once a second unless idle().
  std::vector<SentHints> take(TimePoint now);
  bool idle() const { return jobs_.empty(); }  // nothing is kept

 private:
  struct Job {
    TokenBucket bucket;
    std::optional<SentHints> newest;
  };
  std::map<std::string, Job> jobs_;  // by NAMESPACE/NAME
};

}  // namespace adaptdl
