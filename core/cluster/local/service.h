#pragma once

// The local cluster's service: one thread, one loop, which waits for requests, runners, signals and
// deadlines; has the allocator share the machine out; and moves each job towards what it was given
// (next_step). What it knows is in the store before anybody is told.
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
#include <vector>

#include "core/cluster/cluster.h"
#include "core/cluster/local/config.h"
#include "core/cluster/local/local_job.h"
#include "core/cluster/local/machine.h"
#include "core/cluster/local/paths.h"
#include "core/cluster/local/slots.h"
#include "core/cluster/local/store.h"
#include "core/cluster/local/supervised_jobs.h"
#include "core/launch/control.h"
#include "core/launch/signals.h"
#include "core/sched/allocator.h"

namespace adaptdl::local {

inline constexpr const char* kUnschedulable = "Unschedulable";  // a reason; its job never fits

struct ServiceOptions {
  LocalPaths paths;
  std::string adaptdl;  // path of this program, for runners
  std::string version;
  std::string config;                            // path; read again on SIGHUP
  std::optional<std::string> policy;             // over the configuration's
  std::map<std::string, double> policy_options;  // likewise; only with `policy`
  std::optional<int> slots;                      // likewise
};

class Service : public Cluster {
 public:
  // Takes the lock, opens the store, finds the jobs that run. Throws Error: another service runs,
  // the configuration is wrong, the state is a newer version's.
  explicit Service(const ServiceOptions& options);

  // Until SIGINT, SIGTERM or a stop request; jobs go on. SIGHUP reads the configuration again.
  void run();

  const std::string& url() const { return url_; }

 private:
  // service.cpp: the loop
  template <typename Act>
  void for_each_job(const Act& act);
  void wait();
  void take_signals();
  void take_runners();
  void take_posted_hints();
  void ask_runners();
  void round_if_due();
  void advance_all();
  void listen();
  void configure();
  void adopt();

  // service_jobs.cpp: what happens to one job
  void advance(LocalJob& job);
  void start(LocalJob& job, int slots);
  void write_runner_file(const LocalJob& job);
  void scale(LocalJob& job, const JobStep& step);
  void ask(LocalJob& job, LocalJob::Query kind);
  void take_answer(LocalJob& job);
  void take_status(LocalJob& job, const nlohmann::json& status);
  void runner_ended(LocalJob& job, pid_t pid, std::optional<int> code);
  void take_hints(LocalJob& job, const nlohmann::json& hints);
  void end(LocalJob& job, std::string_view phase, const std::string& reason,
           const std::string& message, std::optional<int> exit_code);
  void count_service(LocalJob& job);
  void save(LocalJob& job);
  void note(const LocalJob& job, const char* kind, const std::string& message,
            bool warning = false);
  void happened();

  // service_requests.cpp
  nlohmann::json on_request(const nlohmann::json& request);
  nlohmann::json hello() const;
  nlohmann::json submit(const nlohmann::json& request);
  nlohmann::json scale_job(const nlohmann::json& request);
  nlohmann::json remove(const nlohmann::json& request);
  LocalJob& find(const nlohmann::json& request);

  // service_cluster.cpp: the machine, and the scheduler's view
  void fit_to_machine();
  bool note_shortage(LocalJob& job);
  int most_replicas(const LocalJob& job) const;
  double now_s() override;
  std::vector<ClusterNode> nodes() override;
  std::vector<ClusterJob> jobs() override;
  void allocate(const std::string& job, const std::vector<std::string>& nodes,
                const std::string& why) override;
  void explain(const std::string& job, const std::string& why) override;

  const ServiceOptions options_;
  const Fd lock_;
  JobStore store_;
  launch::SignalCatcher signals_;
  Machine machine_;
  SlotLedger slots_;
  ServiceConfig config_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<Allocator> allocator_;
  std::map<std::string, LocalJob> jobs_;  // unfinished, by name
  SupervisedJobs supervised_;
  std::unique_ptr<launch::ControlServer> control_;
  std::string url_;
  std::string started_;  // RFC 3339
  std::string problem_;  // of the store; "" if it can be written
  TimePoint retry_store_;
  bool stop_ = false;
};

}  // namespace adaptdl::local
