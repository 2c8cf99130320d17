#pragma once

// Jobs as a test says they are, behind a lock as a scheduler has one.

#include <map>
#include <mutex>
#include <utility>

#include "core/base/error.h"
#include "core/sched/supervisor.h"

namespace adaptdl {

class FakeJobs : public SupervisorBackend {
 public:
  struct Job {
    std::optional<std::string> token;
    std::map<int64_t, std::vector<std::string>> addresses;  // by generation
    std::vector<SchedulingHints> hints;
    std::vector<std::pair<int64_t, int>> leads;  // generation, rank
  };

  // Calls `action` with all jobs, by "namespace/name", and the lock held.
  template <typename Action>
  auto with(Action action) {
    const std::lock_guard lock(mutex_);
    return action(jobs_);
  }
  // From now on, find() throws; "" ends that.
  void break_with(const std::string& error) {
    const std::lock_guard lock(mutex_);
    error_ = error;
  }
  int looks() {  // calls of find() so far
    const std::lock_guard lock(mutex_);
    return looks_;
  }

  std::optional<SupervisedJob> find(const std::string& job_namespace,
                                    const std::string& name) override {
    const std::lock_guard lock(mutex_);
    ++looks_;
    if (!error_.empty()) fail("{}", error_);
    const auto job = jobs_.find(job_namespace + "/" + name);
    if (job == jobs_.end()) return std::nullopt;
    return SupervisedJob{job->second.token};
  }
  std::optional<std::vector<std::string>> addresses(const std::string& job_namespace,
                                                    const std::string& name,
                                                    int64_t group) override {
    const std::lock_guard lock(mutex_);
    const Job& job = jobs_.at(job_namespace + "/" + name);
    const auto found = job.addresses.find(group);
    if (found == job.addresses.end()) return std::nullopt;
    return found->second;
  }
  void hints(const std::string& job_namespace, const std::string& name,
             const SchedulingHints& hints) override {
    const std::lock_guard lock(mutex_);
    jobs_.at(job_namespace + "/" + name).hints.push_back(hints);
  }
  void leads(const std::string& job_namespace, const std::string& name, int64_t group,
             int rank) override {
    const std::lock_guard lock(mutex_);
    jobs_.at(job_namespace + "/" + name).leads.emplace_back(group, rank);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Job> jobs_;
  std::string error_;
  int looks_ = 0;
};

}  // namespace adaptdl
