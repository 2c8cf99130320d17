#pragma once

// Looking at the jobs of any cluster: this machine's (local/query.h) or a Kubernetes cluster's
// (kubernetes/query.h). Nothing here changes a job.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/client/job_view.h"
#include "core/client/log_follower.h"
#include "core/launch/client.h"

namespace adaptdl::client {

// Events as they come. One thread.
class EventReader {
 public:
  virtual ~EventReader() = default;
  // Those that were not told yet, oldest first; at first all that are kept.
  virtual std::vector<JobEvent> next() = 0;
};

struct LogOptions {
  std::string name;  // of a job or run
  bool follow = false;
  bool prefix = false;  // "[NAME/ID] " instead of "[replica ID] ", also of a single replica
  std::optional<int64_t> replica;
  std::optional<int64_t> tail;   // lines of each replica
  std::optional<Seconds> since;  // back from now
};

// What replicas print, as it comes. One thread.
class LogReader {
 public:
  virtual ~LogReader() = default;
  // What was not told yet; true if there was anything. `all`: nothing will be added any more, and
  // incomplete lines are told, too.
  virtual bool next(const LogLine& take, bool all) = 0;
  virtual bool may_grow() = 0;
  virtual size_t replicas() const = 0;  // seen so far
};

// Which jobs each() and watch() tell of: --all-namespaces and --selector, of commands that have
// them. On this machine there is no choice.
struct JobScope {
  bool all_namespaces = false;
  std::string selector;  // of labels, as Kubernetes has them; "": any
};

// One thread. Every function throws Error where the cluster cannot be reached, or refuses.
class JobQuery {
 public:
  // How much of a job is read: brief is enough for a row of `ls`, wide adds its program, full the
  // hints and sentences.
  enum class Detail { brief, wide, full };
  using EachJob = std::function<void(const JobView&)>;
  using EachRun = std::function<void(const launch::RunInfo&)>;

  virtual ~JobQuery() = default;

  virtual std::string title() const = 0;  // "local, this machine"
  virtual std::string headline() = 0;     // the cluster and how busy it is, in one line
  // The sentence of `ls` when there is nothing to list.
  virtual std::string nothing(bool ended_runs_too) const = 0;

  // Every job, by submission.
  virtual void each(Detail detail, const EachJob& job) = 0;
  virtual void each_unfinished(const EachJob& job) = 0;
  // Runs of `adaptdl run`, ended ones too; none but on this machine.
  virtual void each_run(const EachRun& run) = 0;
  // For ever: jobs and runs, all at first, then at least those that have changed; `round` after
  // each lot.
  virtual void watch(Detail detail, const EachJob& job, const EachRun& run,
                     const std::function<void()>& round) = 0;

  // All that a view has. Throws Error, with what was probably meant, if there is no such job.
  virtual JobView find(const std::string& name) = 0;
  // May be asked several times a second; nothing if there is none (any more).
  virtual std::optional<JobView> look(const std::string& name) = 0;
  // The name is a run's: a live one, or one that has ended if there is no such job. Throws Error if
  // it is neither's.
  virtual bool is_run(const std::string& name) = 0;
  // Names of jobs (newest first) and live runs, about `most`.
  virtual std::vector<std::string> names(const std::string& prefix, int most) = 0;

  virtual JobDetails details(const JobView& job) = 0;
  // Of one job, or of all if `job` is empty. `follow`: next() will be called again.
  virtual std::unique_ptr<EventReader> events(const std::string& job, bool follow) = 0;
  virtual std::unique_ptr<LogReader> logs(const LogOptions& options) = 0;
};

}  // namespace adaptdl::client
