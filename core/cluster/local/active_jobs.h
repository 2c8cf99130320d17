#pragma once

// The unfinished jobs and their store. What a user is told of a job (its submission, a change, its
// end) survives a power cut from then on; mere progress is in the store, but a power cut may take
// its newest part back. If the disk cannot be written, jobs keep running, and unsaved changes are
// written later.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/cluster/local/active_job.h"
#include "core/cluster/local/store.h"

namespace adaptdl::local {

// One thread.
class ActiveJobs {
 public:
  // Opens the store. Throws Error, for example if a newer version wrote the state.
  explicit ActiveJobs(const std::string& database);

  struct Loaded {
    ActiveJob* job;
    std::string problem;  // why its specification cannot be read; "" if it can
  };
  // Loads what an earlier service left, ordered by submission and without the runners. Call it
  // once, before anything else.
  std::vector<Loaded> load(const Machine& machine);

  // Stores a new job. Throws Error, and adds nothing then.
  ActiveJob& add(ActiveJob job);
  ActiveJob* find(const std::string& name);  // null: unknown, or ended, and the end is stored
  std::map<std::string, ActiveJob>& all() { return jobs_; }
  size_t size() const { return jobs_.size(); }

  // Stores the job's record now, or later if the disk cannot be written.
  void save(ActiveJob& job);
  // Carries out what a user asked for: `act` changes the job's record and state, which are then
  // stored, durably and with an event. If that fails, throws Error, and the job is as before.
  void change(ActiveJob& job, const char* kind, const std::string& message,
              const std::function<void()>& act);
  // Adds an event of the job, for its user and the log.
  void note(const ActiveJob& job, const char* kind, const std::string& message,
            bool warning = false);
  // Ends the job, in the store and as an event. The next call of settle() forgets it.
  void end(ActiveJob& job, const std::string& phase, const std::string& reason,
           const std::string& message, std::optional<int> exit_code);

  // Retries failed writes when they are due, and forgets jobs that have ended.
  void settle();
  // When settle() has a write to retry; TimePoint::max() if it has none.
  TimePoint retry_at() const;
  const std::string& problem() const { return problem_; }  // of the store; "" if it is writable

  // Marks that a round is due: jobs came, went, or can use more replicas.
  void changed() { changed_ = true; }
  bool take_changed() { return std::exchange(changed_, false); }

  // What a job's length probably is, from those that ended well.
  std::optional<double> length_rank(const ActiveJob& job) const;

  // For ended jobs, events and single values.
  JobStore& store() { return store_; }

 private:
  void note_problem(const Error& error);

  JobStore store_;
  std::map<std::string, ActiveJob> jobs_;  // by name
  LengthHistory history_;
  std::string problem_;
  TimePoint retry_at_;
  bool changed_ = false;
};

}  // namespace adaptdl::local
