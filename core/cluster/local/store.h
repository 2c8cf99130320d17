#pragma once

// The local service's jobs on disk. A kill -9 or a power cut at any instant loses nothing that a
// client was told. Only the service writes; commands read directly, also while no service runs.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/cluster/local/sqlite.h"

namespace adaptdl::local {

// Times are seconds of the wall clock since 1970.
struct JobRecord {
  int64_t id = 0;       // grows with each submission; 0: not stored yet
  std::string name;     // unique in the store
  std::string spec;     // JobSpec, as JSON
  std::string token;    // the job's part of the supervisor's URL
  std::string phase;    // phase_name(), or Suspended, Cancelled
  std::string reason;   // one word or CamelCase, as in conditions; "" if there is none
  std::string message;  // a sentence for people
  std::string why;      // the policy's reason for the present allocation
  double submitted_s = 0;
  std::optional<double> started_s;  // first replica
  std::optional<double> ended_s;
  int replicas = 0;                        // of its allocation
  std::vector<int> slots;                  // slots that it holds, or may still hold
  int restarts = 0;                        // changes of its allocation after the first
  int starts = 0;                          // runners started
  int failures = 0;                        // of runners, in a row
  double service_s = 0;                    // slot seconds held
  int min_replicas = 0, max_replicas = 1;  // as scaled
  bool suspended = false, cancelled = false;
  std::string hints;  // the newest, as JSON; "" if none
  std::optional<int64_t> exit_code;
  std::optional<double> start_cost_s;  // how long it took last to use new slots

  bool ended() const { return ended_s.has_value(); }
};

struct EventRecord {
  int64_t id = 0;
  std::string job;
  double time_s = 0;
  std::string kind;     // Submitted, Scheduled, Started, Rescaled, ...
  std::string message;  // a sentence
  bool warning = false;
};

inline constexpr int kKeptEvents = 1000;  // of a job

// One thread at a time. Every function throws Error; a write that throws has changed nothing.
class JobStore {
 public:
  static constexpr int kSchema = 1;

  // `write` creates the database. Both modes refuse one of a newer version, saying what to do.
  JobStore(const std::string& path, Database::Mode mode);

  // Whether a write is on disk when it returns. A power cut may take back what was written with
  // Sync::later, but only the newest such writes: a later Sync::now includes the earlier ones.
  enum class Sync { now, later };

  // `event`: in the same transaction; null if there is none. add() and remove() are durable. add()
  // throws Error with the name if it is taken.
  void add(JobRecord& job, const EventRecord* event = nullptr);  // sets its id
  void update(const JobRecord& job, Sync sync = Sync::now, const EventRecord* event = nullptr);
  void remove(const std::string& name);  // with its events

  std::optional<JobRecord> find(const std::string& name);
  // Ordered by submission. `each` may throw to end early.
  void unfinished(const std::function<void(JobRecord&)>& each);
  void all(const std::function<void(JobRecord&)>& each);
  // As all(), but without spec, token, message, why, and the hints of jobs without replicas: for
  // lists of many jobs.
  void all_briefly(const std::function<void(JobRecord&)>& each);
  // The newest `most` jobs that succeeded, oldest first.
  void succeeded(int most, const std::function<void(JobRecord&)>& each);
  std::vector<std::string> names(const std::string& prefix, int most);

  // Keeps only the newest `keep` events of a job. Sync::later.
  void add_event(const EventRecord& event, int keep = kKeptEvents);
  // Events later than `after` (an id), oldest first; of every job if `job` is empty.
  std::vector<EventRecord> events(const std::string& job, int64_t after, int most);

  // Single values: the supervisor's port and the like. Setting is durable.
  std::optional<std::string> value(const std::string& key);
  void set_value(const std::string& key, const std::string& value);

 private:
  void write(Sync sync, const std::function<void()>& statements);  // one transaction
  void insert(const EventRecord& event, int keep);
  bool has_start_cost();
  void select(const char* columns, const char* condition,
              const std::function<void(JobRecord&)>& each);

  Database database_;
  const char* start_cost_ = "start_cost_s";  // column; "NULL" if the database lacks it
};

}  // namespace adaptdl::local
