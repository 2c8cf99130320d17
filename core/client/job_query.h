#pragma once

// Queries for the jobs of any cluster: this machine's (local/query.h) or a Kubernetes cluster's
// (kubernetes/query.h). Nothing here changes a job.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/nvml.h"
#include "core/client/job_view.h"
#include "core/client/log_follower.h"
#include "core/launch/client.h"

namespace adaptdl::client {

// Reads events as they come. One thread.
class EventReader {
 public:
  virtual ~EventReader() = default;
  // New events, oldest first; the first call returns all that are kept.
  virtual std::vector<JobEvent> next() = 0;
};

// What a job measured at one step or look.
struct CurvePoint {
  double time_s = 0;  // wall-clock seconds since 1970
  std::optional<double> step, loss, goodput;
};

// Reads a job's measurements as they come. One thread.
class CurveReader {
 public:
  virtual ~CurveReader() = default;
  // New points, oldest first; the first call returns all that are kept. Never throws for a file
  // that is missing or damaged.
  virtual std::vector<CurvePoint> next() = 0;
};

struct LogOptions {
  std::string name;  // of a job or run
  bool follow = false;
  bool prefix = false;  // "[NAME/ID] " instead of "[replica ID] ", also of a single replica
  std::optional<int64_t> replica;
  std::optional<int64_t> tail;   // lines of each replica
  std::optional<Seconds> since;  // back from now
};

// Reads what replicas print, as it comes. One thread.
class LogReader {
 public:
  virtual ~LogReader() = default;
  // Passes on new lines; returns whether there were any. `all`: nothing will follow, so incomplete
  // lines are passed on, too.
  virtual bool next(const LogLine& take, bool all) = 0;
  virtual bool may_grow() = 0;
  virtual size_t replicas() const = 0;  // seen so far
};

// The jobs that each() and watch() list: --all-namespaces and --selector, for commands that have
// these flags. Not supported on this machine.
struct JobScope {
  bool all_namespaces = false;
  std::string selector;  // of labels, in Kubernetes syntax; "": any
};

// One thread. Every function throws Error if the cluster is unreachable or refuses.
class JobQuery {
 public:
  // How much of a job is read: brief is enough for a row of `ls`; wide adds its program; full adds
  // the hints and sentences.
  enum class Detail { brief, wide, full };
  using EachJob = std::function<void(const JobView&)>;
  using EachRun = std::function<void(const launch::RunInfo&)>;

  virtual ~JobQuery() = default;

  virtual std::string title() const = 0;  // "local, this machine"
  virtual std::string headline() = 0;     // the cluster and how busy it is, in one line
  // This machine's GPUs, as far as its driver tells; of other clusters none.
  virtual std::vector<std::pair<Gpu, GpuLoad>> gpus() { return {}; }
  // The message of `ls` if there is nothing to list.
  virtual std::string nothing(bool ended_runs_too) const = 0;

  // Every job, in order of submission.
  virtual void each(Detail detail, const EachJob& job) = 0;
  virtual void each_unfinished(const EachJob& job) = 0;
  // Runs of `adaptdl run`, including ended ones; only on this machine.
  virtual void each_run(const EachRun& run) = 0;
  // Runs forever: passes on all jobs and runs first, then at least those that have changed; calls
  // `round` after each batch.
  virtual void watch(Detail detail, const EachJob& job, const EachRun& run,
                     const std::function<void()>& round) = 0;

  // All fields of the view. Throws Error, with a suggestion, if the job is not found.
  virtual JobView find(const std::string& name) = 0;
  // May be called several times a second; nothing if the job does not exist (any more).
  virtual std::optional<JobView> look(const std::string& name) = 0;
  // Whether the name is a run's: a live run, or an ended one if no job has the name. Throws Error
  // if neither a job nor a run has it.
  virtual bool is_run(const std::string& name) = 0;
  // Names of jobs (newest first) and live runs, at most about `most`.
  virtual std::vector<std::string> names(const std::string& prefix, int most) = 0;
  // The same without runs.
  virtual std::vector<std::string> job_names(const std::string& prefix, int most) = 0;

  virtual JobDetails details(const JobView& job) = 0;
  // Of one job, or of all if `job` is empty. `follow`: the caller will call next() again.
  virtual std::unique_ptr<EventReader> events(const std::string& job, bool follow) = 0;
  // Of the job's training so far; null if the cluster keeps none.
  virtual std::unique_ptr<CurveReader> curve(const std::string& job) = 0;
  virtual std::unique_ptr<LogReader> logs(const LogOptions& options) = 0;
};

}  // namespace adaptdl::client
