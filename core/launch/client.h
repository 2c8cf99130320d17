#pragma once

// Requests to runs from outside: lists the runs, and sends a request to one. Requests and answers
// are one line of JSON each over the run's control socket.
//
//   {"request": "status"} -> {ok, name, pid, program, state, reason, generation, replicas, spares,
//                             members, stragglers, slow_links, target, min, max, finished, slots,
//                             restartable, hints, step, epoch, loss, progress, progress_total,
//                             seconds_left, batch, samples_per_s, goodput, gpu_busy_percent,
//                             gpu_temperature_c, gpu_power_w, gpu_memory_used_bytes, started,
//                             seconds, checkpoint_dir, log_dir, output_dir}
//     hints: what the job has measured, as in core/job/hints.h; null until it reports them
//     progress to gpu_memory_used_bytes: as in io/run_progress.h, null until known
//     seconds: since this launcher started (with a fraction); `started` is that time, RFC 3339
//     finished: whether its training is, and the program's own main() goes on; `replicas` are those
//     that are still there, and it cannot be scaled
//     slots: those of the living replicas; null if the run was started without slots
//     stragglers: replicas that are much slower than the others now: [{member, host, sample_s,
//     others_sample_s, factor, waited}] as in the event `straggler`
//     slow_links: networks that are much slower than the others now: [{member, host, peer,
//     peer_host, bytes_per_s, others_bytes_per_s, factor, waited}] as in the event `slow_link`
//     spares: those that are ready; `replicas` does not count them
//     restartable: whether a command has exited with 143 when it was asked to stop; else null
//   {"request": "scale", "replicas": N} -> {ok, from, to}
//     may carry "slots": [ids], the run's slots from now on. New replicas get free ones; replicas
//     on other slots leave as soon as another replica can take over the state. May carry
//     "supervisor": URL, the address of the supervisor for a command's next starts
//   {"request": "cancel", "checkpoint": true|false} -> {ok, checkpoint}
//     checkpoint: whether it writes one before it ends
// A refusal: {"ok": false, "error": "a sentence"}.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/clock.h"

namespace adaptdl::launch {

// Version of the protocol above; grows when an older client would misunderstand it.
inline constexpr int kControlProtocol = 1;

struct RunInfo {
  std::string name;
  bool live = false;
  // Of a live run: its answer to "status", or null if it did not answer in time. Otherwise its last
  // record, whose "state" may still say running: then the launcher was killed.
  nlohmann::json status;
};

// All runs that this user has, or had, on this machine, by name. Removes the sockets of dead runs.
std::vector<RunInfo> list_runs(Seconds timeout = Seconds(1));

// Names of live runs, as is_live(): fast, for shell completion.
std::vector<std::string> live_run_names();

// Whether a launcher of that name exists; it may be stopped or ending.
bool is_live(const std::string& name);

// Sends a request to the live run of that name. Throws Error if the run is not live (the message
// lists the live runs), does not answer in time, or refuses (its message).
nlohmann::json request(const std::string& name, const nlohmann::json& request,
                       Seconds timeout = Seconds(5));

// As request(), but to the socket at `path`. `who`: its owner, for messages.
nlohmann::json request_at(const std::string& path, const nlohmann::json& request, Seconds timeout,
                          const std::string& who);

// The record of a live or ended run; null if there is none of that name.
nlohmann::json read_record(const std::string& name);

}  // namespace adaptdl::launch
