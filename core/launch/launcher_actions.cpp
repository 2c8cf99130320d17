// What the launcher does.

#include <algorithm>
#include <cmath>
#include <unistd.h>

#include "core/base/error.h"
#include "core/launch/launcher.h"
#include "core/launch/slots.h"

namespace adaptdl::launch {

namespace {

// Time for the other replicas to say what they have to when one of them ends the run.
constexpr std::chrono::seconds kFailurePatience{2};

bool holds(const std::vector<MemberId>& ids, MemberId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

int Launcher::trained() const {
  return static_cast<int>(
      std::count_if(view_.members.begin(), view_.members.end(), [this](const Member& member) {
        return member.state == MemberState::active && !member.said_bye &&
               holds(view_.current.members, member.id);
      }));
}

void Launcher::carry_out(const Decision& decision) {
  switch (decision.action) {
    case Action::wait:
      break;
    case Action::start:
      start_replicas(decision);
      break;
    case Action::announce:
      announce(decision);
      break;
    case Action::dismiss:
      for (const MemberId id : decision.dismissed) {
        Replica* replica = find(id);
        if (replica == nullptr) continue;
        if (decision.failure) {
          report_failure(id, decision.reason, nullptr, view_.find(id)->state);
        }
        kill(*replica);
      }
      break;
    case Action::hand_over:
      output_.talk(decision.reason + "; going through a checkpoint");
      for (const MemberId id : view_.current.members) {
        Replica* replica = find(id);
        if (replica == nullptr || !replica->open) continue;
        replica->channel.post({{"type", "stop"}, {"mode", "checkpoint"}, {"exit", 143}});
      }
      break;
    case Action::restart:
      if (view_.formed)
        output_.talk(decision.reason + "; starting again from the newest checkpoint");
      noted_members_ = view_.current.members.size();
      checkpointed_ = false;  // what was handed over through it goes on
      break;
    case Action::give_up:
      end({.result = "failed",
           .exit = 1,
           .reason = last_failure_.empty() ? decision.reason
                                           : fmt::format("{}; {}", last_failure_, decision.reason),
           .repair = true,
           .checkpoint = true,
           .last_words = true});
      break;
  }
}

std::vector<int> Launcher::held_slots() const {
  std::vector<int> held;
  for (const auto& [id, replica] : replicas_) {
    held.insert(held.end(), replica->slots.begin(), replica->slots.end());
  }
  std::sort(held.begin(), held.end());
  return held;
}

void Launcher::start_replicas(const Decision& decision) {
  for (int i = 0; i < decision.count; ++i) {
    const MemberId id = next_id_++;
    const std::vector<int> slots = slots_of(decision.slots, i, options_.slots_per_replica);
    started(view_, id, Monotonic::now(), slots);
    try {
      const int threads = starter_.threads_for(view_.target);
      const bool fresh = options_.fresh && !view_.formed;
      const bool here = !agents_ || slots.front() == options_.slots.front();
      replicas_[id] = here
                          ? starter_.start(id, slots, threads, fresh)
                          : agents_->start(id, slots.front(), starter_.welcome(id, threads, fresh));
    } catch (const Error& error) {
      died(view_, id, Monotonic::now());
      report_failure(id, error.what(), nullptr, MemberState::starting);
      last_words_ = {error.what()};
      reaped(view_, id);
      return;
    }
  }
}

void Launcher::announce(const Decision& decision) {
  const Generation& generation = decision.generation;
  nlohmann::json members = nlohmann::json::array();
  for (const MemberId id : generation.members) {
    members.push_back({{"member", id}, {"endpoint", find(id)->endpoint}});
  }
  const nlohmann::json message = {
      {"type", "generation"},
      {"generation", generation.number},
      {"immediate", generation.immediate},
      {"members", std::move(members)},
      {"cause", generation.cause},
      {"threads", starter_.threads_for(static_cast<int>(generation.members.size()))}};
  std::vector<MemberId> told = generation.members;
  told.insert(told.end(), decision.leavers.begin(), decision.leavers.end());
  for (const MemberId id : told) {
    Replica* replica = find(id);
    if (replica != nullptr && replica->open) replica->channel.post(message);
  }
}

void Launcher::kill(Replica& replica) {
  replica.expected_end = true;
  replica.process->kill();
}

void Launcher::kill_all() {
  for (auto& [id, replica] : replicas_) kill(*replica);
  if (ending_) {
    ending_->repair = false;
    ending_->kill_at = TimePoint::max();
  }
}

void Launcher::end(Ending ending) {
  const TimePoint now = Monotonic::now();
  view_.stopping = true;
  const bool finished = ending.result == "finished";
  const bool together = finished || (ending.checkpoint && trained() > 0);
  const auto grace = std::chrono::duration_cast<Monotonic::duration>(Seconds(options_.grace_s));
  if (!together && trained() == 0) ending.checkpoint = false;
  const bool talked = ending_.has_value();
  ending_ = std::move(ending);
  ending_->kill_at = now + (together ? grace : kFailurePatience);
  if (!ending_->checkpoint) ending_->repair = false;
  if (!finished && !talked) record("stopping");
  for (auto& [id, replica] : replicas_) {
    const bool member = holds(view_.current.members, id) ||
                        (view_.pending && holds(view_.generation(*view_.pending)->members, id));
    if (!member && !replica->said_bye) {
      kill(*replica);
    } else if (ending_->checkpoint && replica->open) {
      replica->channel.post({{"type", "stop"}, {"mode", "checkpoint"}, {"exit", ending_->exit}});
    }
  }
  if (!together && ending_->result != "failed") kill_all();
}

void Launcher::set_target(int target, const std::string& cause) {
  // What the user wishes now counts for more than the bounds he gave at the start.
  rendezvous_.min = std::min(rendezvous_.min, target);
  rendezvous_.max = std::max(rendezvous_.max, target);
  launch::set_target(view_, target, cause, rendezvous_);
}

void Launcher::emit_start() {
  stream_.emit({{"event", "start"},
                {"format", kEventFormat},
                {"name", options_.name},
                {"run_id", starter_.run_id()},
                {"program", options_.program},
                {"pid", getpid()},
                {"started", started_},
                {"replicas", options_.replicas.initial},
                {"min", options_.replicas.min},
                {"max", options_.replicas.max},
                {"threads", starter_.threads_for(options_.replicas.initial)},
                {"gpus", options_.gpus},
                {"checkpoint_dir", options_.checkpoint_dir},
                {"output_dir", options_.output_dir},
                {"log_dir", options_.log_dir}});
}

// Each host has one slot, and a replica there as long as it does.
void Launcher::host_joined(int slot, const std::string& host) {
  output_.talk(fmt::format("host {} has joined (slot {})", host, slot));
  rendezvous_.slots.push_back(slot);
  if (!ending_) set_target(static_cast<int>(rendezvous_.slots.size()), "scale");
}

void Launcher::host_left(int slot, const std::string& host, const std::string& why) {
  output_.talk(fmt::format("host {} (slot {}) {}", host, slot, why));
  std::erase(rendezvous_.slots, slot);
  if (!ending_) set_target(static_cast<int>(rendezvous_.slots.size()), "scale");
}

int Launcher::finish() {
  if (agents_) agents_->end(ending_->exit);
  stream_.advance(view_, true);
  if (ending_->last_words && !last_words_.empty()) {
    ending_->reason += fmt::format(". The last words of the replica that failed last:\n  {}",
                                   fmt::join(last_words_, "\n  "));
  }
  if (!ending_->reason.empty()) output_.talk(ending_->reason);
  const bool stopped = ending_->result == "stopped" || ending_->result == "cancelled";
  if (stopped && !checkpointed_) {
    output_.talk(
        "stopped without another checkpoint; the same command goes on from the newest one");
  }
  nlohmann::json event =
      stream_.worker_end().is_object() ? stream_.worker_end() : nlohmann::json::object();
  event.update(summary_);
  event.update(
      {{"event", "end"},
       {"result", ending_->result},
       {"exit_code", ending_->exit},
       {"reason", ending_->reason.empty() ? nlohmann::json() : nlohmann::json(ending_->reason)},
       {"checkpoint", checkpointed_},
       {"steps", stream_.last_step()},
       {"seconds", std::round(stream_.elapsed_s() * 1e6) / 1e6},
       {"rescales", stream_.rescales()},
       {"lost_s", std::round(stream_.lost_s() * 1e6) / 1e6},
       {"dropped_events", output_.dropped()}});
  const int exit = ending_->exit;
  nlohmann::json facts = event;
  facts.erase("event");
  const char* cause = memory_ran_out_ ? "OutOfMemory" : "ReplicaFailed";
  facts["cause"] = ending_->result == "failed" ? nlohmann::json(cause) : nlohmann::json();
  folder_.update(facts);
  record(ending_->result);
  stream_.emit(std::move(event));
  return exit;
}

}  // namespace adaptdl::launch
