// The control socket's requests, and what is recorded of the run.

#include <unistd.h>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/launch/launcher.h"
#include "core/launch/slots.h"

namespace adaptdl::launch {

nlohmann::json Launcher::on_request(const nlohmann::json& request) {
  const auto kind = json_get<std::string>(request, "request", "request");
  if (kind == "status") return status();
  if (ending_) fail("the run is ending ({})", ending_->result);
  if (kind == "scale") return scale(request);
  if (kind == "cancel") {
    const bool checkpoint = json_get_or<bool>(request, "checkpoint", "cancel", true);
    end({.result = "cancelled",
         .exit = static_cast<int>(ExitCode::terminated),
         .repair = checkpoint,
         .checkpoint = checkpoint});
    return nlohmann::json::object();
  }
  fail("unknown request {}", kind);
}

nlohmann::json Launcher::scale(const nlohmann::json& request) {
  const int wanted = json_get<int>(request, "replicas", "scale");
  const auto slots = json_find<std::vector<int>>(request, "slots", "scale");
  if (slots && options_.slots.empty()) {
    fail("this run shares all cores; it was not started with slots of its own");
  }
  if (slots && slots->empty()) fail("a run cannot go on without any slot");
  check_scale(wanted, slots.value_or(rendezvous_.slots), options_.slots_per_replica);
  if (slots && options_.gpus > 0) check_gpus(*slots, options_.gpus);
  const int before = view_.target;
  if (slots) rendezvous_.slots = *slots;
  set_target(wanted, "scale");
  return {{"from", before}, {"to", wanted}};
}

// The replicas know of their own time only; the launcher has seen every rescale of the run.
nlohmann::json Launcher::hints() const {
  if (!hints_) return nullptr;
  SchedulingHints hints = *hints_;
  if (!hints.rescale_cost_s) hints.rescale_cost_s = stream_.rescale_cost_s();
  return to_json(hints);
}

nlohmann::json Launcher::status() const {
  nlohmann::json members = nlohmann::json::array();
  static constexpr const char* kStates[] = {"starting", "ready", "active", "gone"};
  for (const auto& [id, replica] : replicas_) {
    const Member* member = view_.find(id);
    if (member == nullptr) continue;
    members.push_back({{"member", id},
                       {"pid", replica->process->pid()},
                       {"state", member->leaving   ? "leaving"
                                 : member->stopped ? "stopped"
                                                   : kStates[static_cast<int>(member->state)]}});
  }
  return {{"name", options_.name},
          {"pid", getpid()},
          {"program", options_.program},
          {"state", state_},
          {"reason", ending_ ? ending_->result : reason_},
          {"generation", view_.current.number},
          {"replicas", trained()},
          {"members", std::move(members)},
          {"target", view_.target},
          {"min", rendezvous_.min},
          {"max", rendezvous_.max},
          {"slots", options_.slots.empty() ? nlohmann::json() : nlohmann::json(held_slots())},
          {"hints", hints()},
          {"step", stream_.last_step()},
          {"epoch", stream_.newest("epoch")},
          {"loss", stream_.newest("loss")},
          {"started", started_},
          {"seconds", stream_.elapsed_s()},
          {"checkpoint_dir", options_.checkpoint_dir},
          {"log_dir", options_.log_dir},
          {"output_dir", options_.output_dir}};
}

void Launcher::record(const std::string& state) {
  state_ = state;
  folder_.update({{"state", state},
                  {"pid", getpid()},
                  {"started", started_},
                  {"changed", rfc3339(std::chrono::system_clock::now())},
                  {"step", stream_.last_step()},
                  {"checkpoint_dir", options_.checkpoint_dir},
                  {"log_dir", options_.log_dir},
                  {"output_dir", options_.output_dir},
                  {"control_socket", options_.control_socket}});
  if (folder_.problem() == recorded_problem_) return;
  recorded_problem_ = folder_.problem();
  output_.talk("cannot keep the record of this run: " + recorded_problem_);
}

}  // namespace adaptdl::launch
