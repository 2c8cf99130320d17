#pragma once

// Talking to runs from outside: who is there, and requests to one. Requests and answers are one
// line of JSON each over the run's control socket.
//
//   {"request": "status"} -> {ok, name, pid, program, state, reason, generation, replicas, members,
//                             target, min, max, slots, hints, step, epoch, loss, started,
//                             checkpoint_dir, log_dir, output_dir}
//     hints: what the job knows of itself, as in core/job/hints.h; null until it does
//     slots: those that living replicas still have; null if none are anybody's own
//   {"request": "scale", "replicas": N} -> {ok, from, to}
//     may carry "slots": [ids], what the run has from now on: newcomers get free ones, and replicas
//     on others leave, as soon as somebody is there to whom they can leave the state
//   {"request": "cancel", "checkpoint": true|false} -> {ok}
// Refused: {"ok": false, "error": "a sentence"}.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/clock.h"

namespace adaptdl::launch {

// Number of what is spoken here; grows when an older client would misunderstand.
inline constexpr int kControlProtocol = 1;

struct RunInfo {
  std::string name;
  bool live = false;
  // A live one: the answer to "status", or null if it did not answer in time. Else its record, as
  // the run left it (its "state" may still say running: then it was killed).
  nlohmann::json status;
};

// All runs that this user has, or had, on this machine, by name. Removes sockets of dead ones.
std::vector<RunInfo> list_runs(Seconds timeout = Seconds(1));

// Names of live runs, as fast as can be (for shell completion); may include one that just died.
std::vector<std::string> live_run_names();

// Whether a launcher of that name is there (it may be stopped, or ending).
bool is_live(const std::string& name);

// Sends a request to the live run of that name. Throws Error: no such run lives (the sentence says
// which do), it does not answer in time, or it refuses (its sentence).
nlohmann::json request(const std::string& name, const nlohmann::json& request,
                       Seconds timeout = Seconds(5));

// As request(), to the socket at `path`; `who` answers there, for the sentences.
nlohmann::json request_at(const std::string& path, const nlohmann::json& request, Seconds timeout,
                          const std::string& who);

// The record of a run that lives or lived; null if there is none of that name.
nlohmann::json read_record(const std::string& name);

}  // namespace adaptdl::launch
