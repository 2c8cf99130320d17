#pragma once

// The local jobs as the supervisor's thread sees them, and its HTTP server. The service's thread
// reports changes to it and takes the hints that have come.

#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/launch/command/command_environment.h"
#include "core/sched/supervisor.h"

namespace adaptdl::local {

// All jobs are in the namespace "default", on 127.0.0.1.
class LocalSupervisor : public SupervisorBackend {
 public:
  LocalSupervisor();
  ~LocalSupervisor() override;  // only after the last call

  // Listens on 127.0.0.1, at `port` if it is free, else at another one, if possible below those
  // that the system assigns by itself: it might assign the port of a service that is away. Call it
  // once.
  void serve(uint16_t port);
  uint16_t port() const;
  std::string url() const;  // http://127.0.0.1:PORT

  void add(const std::string& job, const std::string& token);
  void live(const std::string& job, int replicas);  // replicas may discover each other
  void gone(const std::string& job);                // the job has no replicas
  void remove(const std::string& job);

  int fd() const { return wake_.get(); }  // readable when hints have come
  // By job: the newest since the last call, so that a delayed service keeps one of each job.
  std::map<std::string, nlohmann::json> take_hints();

 private:
  struct Job {
    std::string token;
    int replicas = 0;
  };

  void listen_at(uint16_t port);

  std::optional<SupervisedJob> find(const std::string& job_namespace,
                                    const std::string& name) override;
  std::optional<std::vector<std::string>> addresses(const std::string& job_namespace,
                                                    const std::string& name,
                                                    int64_t group) override;
  void hints(const std::string& job_namespace, const std::string& name,
             const SchedulingHints& hints) override;

  mutable std::mutex mutex_;
  std::map<std::string, Job> jobs_;
  std::map<std::string, nlohmann::json> hints_;
  Fd wake_;
  launch::ReservedPort reserved_;
  std::unique_ptr<Supervisor> supervisor_;
};

}  // namespace adaptdl::local
