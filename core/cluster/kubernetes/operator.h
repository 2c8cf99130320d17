#pragma once

// The operator, which schedules the jobs of a cluster: controller, allocator, supervisor, webhook,
// metrics. Of several operators only the leader decides; all answer programs.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/cluster/kubernetes/jobs/controller.h"
#include "core/cluster/kubernetes/nodes/node_expander.h"
#include "core/kube/client.h"

namespace adaptdl::kubernetes {

// The components that a process runs.
struct OperatorParts {
  // Only the leader runs these.
  bool controller = true;  // reconciles jobs with their allocation and pods
  bool allocator = true;   // allocates nodes to jobs
  bool expander = true;    // requests nodes, if OperatorOptions::expander allows any
  // Every operator runs these.
  bool supervisor = true;  // answers programs
  bool webhook = true;     // answers the API server, if OperatorOptions::webhook_port is set
  bool metrics = true;     // /metrics; /livez and /readyz are always there

  bool decides() const { return controller || allocator || expander; }
  // The lease of the first deciding component, in the order above. So two processes do not run the
  // same component at once, unless it is the first in one process but not in the other.
  const char* lease() const;
};

struct OperatorOptions {
  OperatorParts parts;
  std::string name_space;                   // the operator's own, with the lease and the key
  std::vector<std::string> job_namespaces;  // whose jobs it runs; empty: all
  std::string identity;                     // unique among operators, such as the pod's name
  std::string policy;
  std::map<std::string, double> policy_options;
  double interval_s = 60;             // between rounds when nothing happens
  std::string accelerator_label;      // read_node()'s
  std::string supervisor_url;         // for jobs; "": this process's, at 127.0.0.1, if it has one
  std::string secure_supervisor_url;  // the same over HTTPS
  std::string address = "*";
  uint16_t supervisor_port = 8080, metrics_port = 9091;   // 0: any free one
  std::optional<uint16_t> secure_supervisor_port;         // 0: any free one; none: no HTTPS
  PodSettings pods;                                       // without the supervisor's URLs
  ExpanderOptions expander;                               // without name_space
  std::optional<uint16_t> webhook_port;                   // 0: any free one; none: no webhook
  double certificate_life_s = 90 * 86400;                 // of servers' certificates
  std::optional<std::string> webhook_client_authorities;  // WebhookOptions::client_authorities
};

class Operator {
 public:
  // Serves when the constructor returns; decides once run() has the lease. Borrows all. `stop` also
  // cancels `client`: its requests end, as if this process were killed.
  Operator(kube::Client& client, OperatorOptions options, const Cancellation& stop);
  ~Operator();
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;

  // Runs until `stop`, then releases the lease. Throws Error if the lease was lost: another
  // operator leads then, and this process should restart.
  void run();

  std::string supervisor_url() const;
  std::string secure_supervisor_url() const;  // "": there is none
  std::string metrics_url() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace adaptdl::kubernetes
