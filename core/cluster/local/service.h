#pragma once

// The local cluster's service: one thread, one loop, which waits for requests, runners, signals and
// deadlines; has the allocator share the machine out (Scheduling); and moves each job towards what
// it was given (JobDriver). What it knows is in the store before anybody is told (ActiveJobs).
//
// Invariants
//  1. A job has at most one live runner; its run.lock says so even when this service does not know.
//  2. A slot is granted to one job at a time, also across a restart of the service.
//  3. A job whose submission was answered is run to its end, or shown as failed with a reason.
//  4. A store that cannot be written (a full disk) stops no job; what is unsaved is written when it
//     can be, and new submissions are refused meanwhile.

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
  std::string config;          // path; read again on SIGHUP
  SchedulingFlags scheduling;  // over the configuration's
  std::optional<int> slots;    // likewise
};

class Service {
 public:
  // Takes the lock, opens the store, finds the jobs that run. Throws Error: another service runs,
  // the configuration is wrong, the state is a newer version's.
  explicit Service(const ServiceOptions& options);

  // Until SIGINT, SIGTERM or a stop request; jobs go on. SIGHUP reads the configuration again.
  void run();

 private:
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
};

}  // namespace adaptdl::local
