#pragma once

// What commands know of any cluster's jobs. This machine's cluster (local_jobs.h) and Kubernetes
// (kubernetes_jobs.h) stand behind the same few functions, so that a command is written once.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/job_copy.h"
#include "cli/log_follower.h"
#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/launch/client.h"

namespace adaptdl::cli {

class Arguments;
class JobRequest;  // job_request.h
struct ClusterChoice;

// A job as of now. Times are seconds of the wall clock since 1970.
struct JobView {
  std::string name;
  std::string name_space;  // "" where the cluster has none
  std::string phase;       // a phase_name(), or Suspended, Cancelled
  std::string reason;      // one word or CamelCase; "" if there is none
  std::string message;     // a sentence for people
  std::string trouble;     // the reason once more, if somebody has to do something; else ""
  std::string why;         // the policy's reason for its present allocation
  double submitted_s = 0;
  std::optional<double> started_s;  // first replica
  std::optional<double> ended_s;
  int replicas = 0;                // that its allocation has
  std::vector<int> slots;          // that it holds, of this machine
  std::vector<std::string> nodes;  // that its replicas are on, by rank
  int restarts = 0;                // changes of its allocation after the first
  int failures = 0;                // in a row
  double service_s = 0;            // slot or GPU seconds held
  int min_replicas = 0;
  std::optional<int> max_replicas;  // nothing: as many as there is room for
  bool suspended = false, cancelled = false;
  std::string hints;  // JSON, newest; "" if none
  std::optional<int64_t> exit_code;
  std::string program;  // what it runs, for people; "" if not asked for
  Json status;          // what it says of itself now or said last: step, epoch, loss; or null

  bool ended() const { return ended_s.has_value(); }
};

struct JobEvent {
  int64_t id = 0;  // grows with time
  std::string job;
  double time_s = 0;
  std::string kind;     // Submitted, Scheduled, Started, Rescaled, ...
  std::string message;  // a sentence
  bool warning = false;
};

// What is known of one job beside its view.
struct JobDetails {
  struct Table {
    std::string title;
    std::vector<std::string> head;
    std::vector<std::vector<std::string>> rows;
  };
  std::vector<std::pair<std::string, std::string>> lines;  // KEY: VALUE
  std::vector<Table> tables;
  std::vector<std::pair<std::string, Json>> sections;  // headings, and what is shown as YAML
  Json record = Json::object();                        // further keys of -o json
  std::vector<JobEvent> events;                        // oldest first
};

// Events as they come. One thread.
class EventReader {
 public:
  virtual ~EventReader() = default;
  // Those that were not told yet, oldest first; at first all that are kept.
  virtual std::vector<JobEvent> next() = 0;
};

struct ExecRequest {
  std::string job;
  std::vector<std::string> words;  // the program and its arguments
  std::optional<int64_t> replica;  // beside which; none: the cluster chooses
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

// One thread. Every function throws Error where the cluster cannot be reached, or refuses.
class ClusterJobs {
 public:
  // How much of a job is read: brief is enough for a row of `ls`, wide adds its program, full the
  // hints and sentences.
  enum class Detail { brief, wide, full };
  using EachJob = std::function<void(const JobView&)>;
  using EachRun = std::function<void(const launch::RunInfo&)>;

  virtual ~ClusterJobs() = default;

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

  // What `adaptdl submit` was told, checked. Outlived by the cluster and the arguments.
  virtual std::unique_ptr<JobRequest> request(const Arguments& arguments) = 0;

  virtual JobDetails details(const JobView& job) = 0;
  // Of one job, or of all if `job` is empty. `follow`: next() will be called again.
  virtual std::unique_ptr<EventReader> events(const std::string& job, bool follow) = 0;
  virtual std::unique_ptr<LogReader> logs(const LogOptions& options) = 0;

  // Runs a command where the job runs, with our standard input and outputs, and returns its exit
  // code: 127 if there is no such program, 126 if it cannot be executed. On this machine it takes
  // the place of this process.
  virtual int exec(const ExecRequest& request) = 0;

  // Copies files of the job to here, or back: to `to`, or into it, if that is a folder. Modes and
  // times are kept. `path` begins in the job's own folder. Throws UsageError for one that leads out
  // of it.
  virtual CopyResult copy_from(const std::string& job, const std::string& path,
                               const std::string& to) = 0;
  virtual CopyResult copy_to(const std::string& from, const std::string& job,
                             const std::string& path) = 0;

  // These return as soon as the cluster has agreed; the phase is the one then, as JSON.
  virtual Json suspend(const std::string& job, bool suspended) = 0;
  virtual Json cancel(const std::string& job) = 0;
  virtual void scale(const std::string& job, int64_t min, int64_t max) = 0;

  // Removes jobs with their files; those that have not ended only by `force`. `told` hears of each
  // job that is gone, with "", or why it is not: others go all the same.
  virtual void remove(
      const std::vector<JobView>& jobs, bool force,
      const std::function<void(const JobView&, const std::string& problem)>& told) = 0;
};

// Which jobs each() and watch() tell of: --all-namespaces and --selector, of commands that have
// them. On this machine there is no choice.
struct JobScope {
  bool all_namespaces = false;
  std::string selector;  // of labels, as Kubernetes has them; "": any
};

// The cluster that the command is about (cluster_choice.h). Nothing is asked of it yet. Throws
// UsageError for a JobScope of this machine's.
std::unique_ptr<ClusterJobs> open_cluster(const Arguments& arguments);
std::unique_ptr<ClusterJobs> open_cluster(const ClusterChoice& choice, bool verbose);

}  // namespace adaptdl::cli
