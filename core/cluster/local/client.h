#pragma once

// The local cluster as commands see it: requests to the service, and its state read beside it.
//
// Requests and answers are one line of JSON each over the service's control socket (mode 0600, this
// user only); refused: {"ok": false, "error": "a sentence"}.
//   hello                          -> {version, protocol, pid, started, policy, options, slot_kind,
//                                      slots, slots_free, url, problem}
//   submit {spec, project|null}    -> {name, message}; spec: JobSpec as JSON. `project`: a folder
//                                      that the caller has filled, its path LocalPaths::incoming();
//                                      it becomes the job's. `message`: why the job cannot run as
//                                      the machine is, "" if it can.
//   scale {name, min, max}         -> {name, min, max}
//   suspend|resume|cancel {name}   -> {name, phase}
//   delete {name}                  -> {name, folder}; a job that has ended; its folder is renamed
//                                      to `folder`, for the caller to remove: that may take long
//   reload                         -> {policy, options}; reads the configuration file again
//   stop                           -> {}; the service ends, jobs go on
// Every request may carry "protocol"; a service of another one refuses it with a sentence. "until":
// seconds of the machine's monotonic clock after which nobody waits for the answer; a service that
// was held up does not carry out what its user has been told to have failed.

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

// Whether a service answers at its socket.
bool service_runs();

// The live service's process, which its lock names, wherever it listens. Nothing if none runs, or
// one of an earlier version, or on another machine or in a container that shares the folder.
struct ServiceProcess {
  pid_t pid = 0;
  Fd pidfd;  // readable once it has ended
};
std::optional<ServiceProcess> service_process();

// Whether some service holds the lock: it is starting, or running.
bool service_locked();

// Throws Error: none runs (with what to do), it does not answer in time, or it refuses.
nlohmann::json request_service(nlohmann::json request, Seconds timeout = Seconds(10));

// The state as the service has written it, to be read; null if there has never been a service.
std::unique_ptr<JobStore> open_store();

// What a job's runner says of itself now (core/launch/client.h, "status"), or nothing if none runs
// or it does not answer in time.
std::optional<nlohmann::json> runner_status(const std::string& job, Seconds timeout = Seconds(1));

}  // namespace adaptdl::local
