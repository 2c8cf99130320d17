#pragma once

// The jobs that have not ended, and their store. What is known of a job is on disk before anybody
// is told; where the disk takes nothing, jobs go on, and what is unsaved is written when it can be.

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/cluster/local/active_job.h"
#include "core/cluster/local/store.h"

namespace adaptdl::local {

// One thread.
class ActiveJobs {
 public:
  // Opens the store. Throws Error: its state is a newer version's, say.
  explicit ActiveJobs(const std::string& database);

  struct Loaded {
    ActiveJob* job;
    std::string problem;  // why its specification cannot be read; "" if it was
  };
  // What an earlier service left, by submission, and without the runners. Once, before anything
  // else.
  std::vector<Loaded> load(const Machine& machine);

  // Stores a new job; if that fails there is none. Throws Error.
  ActiveJob& add(ActiveJob job);
  ActiveJob* find(const std::string& name);  // null: there is none, or it has ended
  std::map<std::string, ActiveJob>& all() { return jobs_; }
  size_t size() const { return jobs_.size(); }

  // Stores its record, sooner or later.
  void save(ActiveJob& job);
  // An event of the job, for its user and the log.
  void note(const ActiveJob& job, const char* kind, const std::string& message,
            bool warning = false);
  // Its end, as stored and noted. It is forgotten by the next call of settle().
  void end(ActiveJob& job, const std::string& phase, const std::string& reason,
           const std::string& message, std::optional<int> exit_code);

  // Tries again what could not be stored, once it is time, and forgets jobs that have ended.
  void settle();
  // When settle() has something to try again; TimePoint::max() if it has not.
  TimePoint retry_at() const;
  const std::string& problem() const { return problem_; }  // of the store; "" if it can be written

  // Whether the scheduler is to look again: jobs came, went, or may be given more.
  void changed() { changed_ = true; }
  bool take_changed() { return std::exchange(changed_, false); }

  // Jobs that have ended, events and single values.
  JobStore& store() { return store_; }

 private:
  JobStore store_;
  std::map<std::string, ActiveJob> jobs_;  // by name
  std::string problem_;
  TimePoint retry_at_;
  bool changed_ = false;
};

}  // namespace adaptdl::local
