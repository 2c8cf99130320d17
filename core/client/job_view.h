#pragma once

// What commands show of a job, the same for any cluster.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/formats/json.h"

namespace adaptdl::client {

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

}  // namespace adaptdl::client
