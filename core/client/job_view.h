#pragma once

// What commands show of a job, the same for all clusters.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/formats/json.h"

namespace adaptdl::client {

// A job at present. Times are wall-clock seconds since 1970.
struct JobView {
  std::string name;
  std::string name_space;  // "" where the cluster has none
  std::string phase;       // a phase_name(), or Suspended, Cancelled
  std::string reason;      // one word or CamelCase; "" if there is none
  std::string message;     // a sentence for people
  std::string trouble;     // the reason again if the user has to act; else ""
  std::string why;         // the policy's reason for its present allocation
  double submitted_s = 0;
  std::optional<double> started_s;  // of the first replica
  std::optional<double> ended_s;
  int replicas = 0;                // of its allocation
  std::vector<int> slots;          // the slots of this machine that it holds
  std::vector<std::string> nodes;  // of its replicas, by rank
  int restarts = 0;                // changes of its allocation after the first
  int failures = 0;                // in a row
  double service_s = 0;            // slot or GPU seconds held
  int min_replicas = 0;
  std::optional<int> max_replicas;  // nothing: no maximum
  bool suspended = false, cancelled = false;
  std::string hints;  // JSON, newest; "" if none
  std::optional<int64_t> exit_code;
  std::string program;  // what it runs, for people; "" if not requested
  Json status;          // its present or last status: step, epoch, loss; or null

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

// Facts about one job in addition to its view.
struct JobDetails {
  struct Table {
    std::string title;
    std::vector<std::string> head;
    std::vector<std::vector<std::string>> rows;
  };
  std::vector<std::pair<std::string, std::string>> lines;  // KEY: VALUE
  std::vector<Table> tables;
  std::vector<std::pair<std::string, Json>> sections;  // headings, and contents shown as YAML
  Json record = Json::object();                        // further keys of -o json
  std::vector<JobEvent> events;                        // oldest first
};

}  // namespace adaptdl::client
