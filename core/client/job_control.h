#pragma once

// Changes to the jobs of any cluster.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/client/job_view.h"
#include "core/formats/json.h"

namespace adaptdl::client {

class JobRequest;   // job_request.h
struct Submission;  // submission.h

// One thread. Every function throws Error if the cluster is unreachable or refuses. Those that
// change a job return as soon as the cluster has agreed.
class JobControl {
 public:
  virtual ~JobControl() = default;

  // A checked request for this cluster, which must outlive it. Nothing changes until it is sent.
  virtual std::unique_ptr<JobRequest> request(Submission submission) = 0;

  // Returns the new phase, as JSON.
  virtual Json suspend(const std::string& job, bool suspended) = 0;
  virtual Json cancel(const std::string& job) = 0;
  virtual void scale(const std::string& job, int64_t min, int64_t max) = 0;

  // Removes jobs with their files; those that have not ended only with `force`. Calls `told` for
  // each job: with "" once it is gone, or with the reason why it is not. A failure does not stop
  // the others.
  using Told = std::function<void(const JobView& job, const std::string& problem)>;
  virtual void remove(const std::vector<JobView>& jobs, bool force, const Told& told) = 0;
};

}  // namespace adaptdl::client
