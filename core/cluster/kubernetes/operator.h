#pragma once

// The operator: what runs in a cluster so that its jobs are scheduled. Controller, allocator,
// supervisor, webhook, metrics; of several, the one that holds the lease decides, and all answer
// programs.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/cluster/kubernetes/jobs/controller.h"
#include "core/cluster/kubernetes/nodes/node_expander.h"
#include "core/kube/client.h"

namespace adaptdl::kubernetes {

// What a process does of it all.
struct OperatorParts {
  // Done by whoever holds the lease alone.
  bool controller = true;  // makes of jobs what their allocation and their pods ask for
  bool allocator = true;   // shares the nodes among jobs
  bool expander = true;    // asks for nodes, if OperatorOptions::expander allows any
  // Done by each.
  bool supervisor = true;  // answers programs
  bool webhook = true;     // answers the API server, if OperatorOptions::webhook_port says where
  bool metrics = true;     // /metrics beside /livez and /readyz, which are always there

  bool decides() const { return controller || allocator || expander; }
  // Of the first that decides, in the order above: so two processes never do the same part, but for
  // a part that stands first in the one and behind another in the other.
  const char* lease() const;
};

struct OperatorOptions {
  OperatorParts parts;
  std::string name_space;  // its own: of the lease and the key
  std::string identity;    // unique among operators, such as the pod's name
  std::string policy;
  std::map<std::string, double> policy_options;
  double interval_s = 60;      // between rounds when nothing happens
  std::string supervisor_url;  // as jobs reach it; "": this process, at 127.0.0.1, if it has one
  std::string address = "0.0.0.0";
  uint16_t supervisor_port = 8080, metrics_port = 9091;  // 0: any free one
  PodSettings pods;                                      // without supervisor_url
  ExpanderOptions expander;                              // without name_space
  std::optional<uint16_t> webhook_port;                  // 0: any free one; none: no webhook
  double certificate_life_s = 90 * 86400;                // of the webhook's certificates
};

class Operator {
 public:
  // Serves when it returns; decides once run() is called and the lease is had. Borrows all. `stop`
  // is the cancellation of `client`, too: requests under way end, as if this process were killed.
  Operator(kube::Client& client, OperatorOptions options, const Cancellation& stop);
  ~Operator();
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;

  // Until `stop`; then the lease is given back. Throws Error when the lease was lost: another one
  // leads then, and this process had better start anew.
  void run();

  std::string supervisor_url() const;
  std::string metrics_url() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace adaptdl::kubernetes
