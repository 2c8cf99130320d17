#pragma once

// The local cluster as commands see it: requests to the service, and its state, which commands read
// directly.
//
// Requests and answers are one line of JSON each over the service's control socket (mode 0600, this
// user only). A refusal is {"ok": false, "error": "a sentence"}.
//   hello                          -> {version, protocol, pid, started, policy, options, slot_kind,
//                                      slots, slots_free, kinds, url, notice, problem}; kinds:
//                                      [{name, slots, slots_free}], none if slots are alike
//   submit {spec, project|null}    -> {name, message}; spec: JobSpec as JSON. `project`: a folder
//                                      at LocalPaths::incoming() that the caller has filled; it
//                                      becomes the job's. `message`: why the job cannot run on
//                                      this machine, "" if it can.
//   scale {name, min, max}         -> {name, min, max}
//   suspend|resume|cancel {name}   -> {name, phase}
//   delete {name}                  -> {name, folder}; only an ended job. The service renames its
//                                      folder to `folder`, and the caller removes that, since it
//                                      may take long
//   reload                         -> {policy, options}; reads the configuration file again
//   stop                           -> {}; the service ends, jobs keep running
// Every request may carry "protocol"; a service with another protocol refuses it. "until": seconds
// of the machine's monotonic clock after which the caller has given up; a delayed service does not
// carry out a request whose user was told that it failed.

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/base/clock.h"
#include "core/base/fd.h"
#include "core/cluster/local/paths.h"
#include "core/cluster/local/store.h"

namespace adaptdl::local {

inline constexpr int kProtocol = 1;

// Whether a service answers on its socket.
bool service_runs();

// The live service's process, named in its lock, wherever it listens. Nothing if no service runs,
// or if it is of an earlier version, on another machine, or in a container that shares the folder.
struct ServiceProcess {
  pid_t pid = 0;
  Fd pidfd;  // readable once it has ended
};
std::optional<ServiceProcess> service_process();

// Whether a service holds the lock: it is starting or running.
bool service_locked();
// The host of the service that holds the lock, if that is another one, or another container, which
// shares the folder; "" otherwise, or if it is unknown.
std::string service_elsewhere();
// Throws Error that tells the user what to do if there is such a host.
void refuse_elsewhere();

// Throws Error if no service runs (saying what to do), if it does not answer in time, or if it
// refuses.
nlohmann::json request_service(nlohmann::json request, Seconds timeout = Seconds(10));

// The state as the service has written it, read-only; null if there has never been a service.
std::unique_ptr<JobStore> open_store();

// The present status of a job's runner (core/launch/client.h, "status"); nothing if there is no
// runner or it does not answer in time.
std::optional<nlohmann::json> runner_status(const std::string& job, Seconds timeout = Seconds(1));

}  // namespace adaptdl::local
