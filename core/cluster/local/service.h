#pragma once

// The local cluster's service: one thread, one loop. It waits for requests, runners, signals and
// deadlines, has the allocator schedule the machine (Scheduling), and moves each job towards its
// allocation (JobDriver). A change is in the store before anybody is told (ActiveJobs).
//
// Invariants
//  1. A job has at most one live runner; its run.lock ensures this even across services.
//  2. A slot is granted to one job at a time, also across a restart of the service.
//  3. A job whose submission was accepted runs to its end, or is shown as failed with a reason.
//  4. A store that cannot be written (a full disk) stops no job; unsaved changes are written later,
//     and new submissions are refused meanwhile.

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/base/fd.h"
#include "core/base/signals.h"
#include "core/cluster/local/active_jobs.h"
#include "core/cluster/local/job_driver.h"
#include "core/cluster/local/job_requests.h"
#include "core/cluster/local/local_cluster.h"
#include "core/cluster/local/local_supervisor.h"
#include "core/cluster/local/machine.h"
#include "core/cluster/local/paths.h"
#include "core/cluster/local/scheduling.h"
#include "core/cluster/local/slot_ledger.h"
#include "core/formats/json.h"
#include "core/launch/io/control.h"

namespace adaptdl::local {

struct ServiceOptions {
  LocalPaths paths;
  std::string adaptdl;  // path of this program, for runners
  std::string version;
  std::string config;               // path; read again on SIGHUP
  SchedulingFlags scheduling;       // override the configuration
  std::optional<SlotCounts> slots;  // overrides the configuration
};

class Service {
 public:
  // Takes the lock, opens the store, finds the running jobs. Throws Error if another service runs,
  // the configuration is invalid, or a newer version wrote the state.
  explicit Service(const ServiceOptions& options);

  // Runs until SIGINT, SIGTERM or a stop request; jobs keep running. SIGHUP reads the configuration
  // again.
  void run();

 private:
  bool knows(const std::string& job);
  void sweep();
  void serve_programs();
  void listen();
  void wait();
  void note_changes();
  void take_signals();
  void reload();
  void round_if_due();
  void advance();
  Json on_request(const Json& request);
  Json hello() const;

  const ServiceOptions options_;
  const Fd lock_;
  SignalCatcher signals_;
  const Machine machine_;
  SlotLedger slots_;
  ActiveJobs jobs_;
  LocalSupervisor supervisor_;
  LocalCluster cluster_;
  Scheduling scheduling_;
  JobDriver driver_;
  JobRequests requests_;
  std::unique_ptr<launch::ControlServer> control_;
  const std::string started_;  // RFC 3339
  bool stop_ = false;
  bool to_sweep_ = false;  // what interrupted submissions and deletions have left
};

}  // namespace adaptdl::local
