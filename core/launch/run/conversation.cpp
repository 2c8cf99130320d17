#include "core/launch/run/conversation.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/formats/json.h"

namespace adaptdl::launch {

void Conversation::on_message(Replica& replica, const nlohmann::json& message) {
  auto& [view, replicas, stream, hung, stragglers, slow_links, failures, end, report, mirror] =
      subjects_;
  const TimePoint now = Monotonic::now();
  const MemberId id = replica.id;
  const auto& type = message.at("type").get_ref<const std::string&>();
  const auto generation = [&] { return json_get<uint64_t>(message, "generation", type); };
  if (type == "event") {
    const nlohmann::json& event = message.at("event");
    hung.progressed(event.value("event", ""));
    stream.event(id, event);
    if (mirror != nullptr && event.value("event", "") == "checkpoint") mirror->look();
  } else if (type == "hello") {
    on_hello(replica, message);
  } else if (type == "connected") {
    said_connected(view, id, generation());
    links_.connected(message.value("hosts", nlohmann::json::array()));
  } else if (type == "switched") {
    stream.switched(generation(), json_get<int64_t>(message, "step", type));
    said_switched(view, id, generation(), now);
    stream.advance(view);
  } else if (type == "lost") {
    if (message.contains("unreachable")) {
      said_cut(view, id, json_get<MemberId>(message, "unreachable", type), generation(), now);
      on_unreachable(message);
    }
    said_lost(view, id, generation(), message.value("connecting", false), now);
    stream.advance(view);
  } else if (type == "waiting") {
    replica.waits_in = message.at("waiting").get<bool>() ? generation() : 0;
    hung.watch().restart();
  } else if (type == "passes") {
    replica.samples = json_get<int64_t>(message, "samples", type);
  } else if (type == "saving") {
    said_saving(view, id, message.at("saving").get<bool>(), now);
  } else if (type == "pace") {
    stragglers.pace(message);
  } else if (type == "links") {
    slow_links.links(id, message);
  } else if (type == "gpu") {
    on_gpu(id, message);
  } else if (type == "copied") {
    on_copied(message);
  } else if (type == "hints") {
    on_hints(message);
  } else if (type == "leaving") {
    said_leaving(view, id, now);
  } else if (type == "bye") {
    on_bye(replica, message);
  } else if (type == "fatal") {
    on_fatal(replica, message);
  }
  // Ignore unknown types: later versions may send them.
}

void Conversation::on_hello(Replica& replica, const nlohmann::json& message) {
  const int protocol = json_get<int>(message, "protocol", "hello");
  if (protocol > kProtocol) {
    on_fatal(replica, {{"message", fmt::format("{}: made for a newer adaptdl (worker protocol {}, "
                                               "this one supports {}); use that version",
                                               options_.program, protocol, kProtocol)}});
    return;
  }
  if (options_.evaluate && !message.value("evaluates", false)) {
    on_fatal(replica,
             {{"message", fmt::format("{}: made for an earlier adaptdl, which could only train; "
                                      "rebuild it to evaluate it",
                                      options_.program)}});
    return;
  }
  replica.said_hello = true;
  replica.endpoint = message.at("endpoint");
  replica.accelerator = message.value("accelerator", "");
  if (Member* member = subjects_.view.find(replica.id)) member->accelerator = replica.accelerator;
  said_hello(subjects_.view, replica.id, Monotonic::now());
}

void Conversation::on_bye(Replica& replica, const nlohmann::json& message) {
  View& view = subjects_.view;
  replica.said_bye = true;
  const std::string result = message.value("result", "");
  const bool first = !view.current.members.empty() && view.current.members.front() == replica.id;
  if (first && message.contains("summary") && message["summary"].is_object()) {
    summary_ = message["summary"];
  }
  // Older programs omit it; they exit with 1 if the final checkpoint cannot be written.
  if (first && result != "left") checkpointed_ = message.value("checkpoint", result == "stopped");
  replica.in_main = options_.own_main && result == "finished";
  replica.led = replica.in_main && first;
  said_bye(view, replica.id, result == "finished", Monotonic::now());
  subjects_.stream.advance(view);
}

void Conversation::on_unreachable(const nlohmann::json& message) {
  const std::string reason = bounded(message.at("reason").get<std::string>());
  links_.unreachable(reason);
  subjects_.failures.no_links(reason);
}

// Of each host once that it has the first one, and each failure that no other one precedes.
void Conversation::on_copied(const nlohmann::json& message) {
  const std::string host = bounded(message.at("host").get<std::string>());
  const std::string error = bounded(message.at("error").get<std::string>());
  if (!error.empty()) {
    copying_hosts_.erase(host);
    subjects_.report.talk(fmt::format("host {} writes no copy of the checkpoint: {}", host, error));
  } else if (copying_hosts_.insert(host).second) {
    subjects_.report.talk(fmt::format(
        "host {} has a copy of the checkpoint of step {}, and gets one of each newer one", host,
        json_get<int64_t>(message, "step", "copied")));
  }
}

// Of those that train: the GPU of a spare is idle.
void Conversation::on_gpu(MemberId member, const nlohmann::json& message) {
  const Member* known = subjects_.view.find(member);
  if (known == nullptr || known->state != MemberState::active) return;
  const auto text = [&](const char* key) {
    return bounded(json_get<std::string>(message, key, "gpu"));
  };
  subjects_.report.gpu(
      {.member = member,
       .host = subjects_.replicas.host_of(member),
       .gpu = {.name = text("name"),
               .uuid = text("id"),
               .memory_bytes = json_get<uint64_t>(message, "memory_bytes", "gpu")},
       .load = {.memory_used_bytes = json_find<uint64_t>(message, "memory_used_bytes", "gpu"),
                .busy_percent = json_find<int>(message, "busy_percent", "gpu"),
                .temperature_c = json_find<int>(message, "temperature_c", "gpu"),
                .power_w = json_find<double>(message, "power_w", "gpu")}});
}

void Conversation::on_hints(const nlohmann::json& message) {
  try {
    std::vector<std::string> ignored;
    hints_ = hints_from_json(message.at("hints"), "hints", ignored);
    if (options_.on_hints) options_.on_hints(hints());
  } catch (const Error&) {  // from another version: keep the previous ones
  }
}

// A replica knows only its own time; the launcher has seen every rescale of the run.
nlohmann::json Conversation::hints() const {
  if (!hints_) return nullptr;
  SchedulingHints hints = *hints_;
  if (!hints.rescale_cost_s) hints.rescale_cost_s = subjects_.stream.rescale_cost_s();
  return to_json(hints);
}

void Conversation::on_fatal(Replica& replica, const nlohmann::json& message) {
  const View& view = subjects_.view;
  const std::string sentence = bounded(message.value("message", "cannot train"));
  if (replica.in_main) {
    replica.fatal = sentence;
    return;
  }
  const Member* member = view.find(replica.id);
  const bool newcomer =
      member != nullptr && member->state != MemberState::active && view.trained() > 0;
  const int64_t step = json_get_or<int64_t>(message, "step", "fatal", 0);
  const bool again = step > 0 && step == failed_step_ && replica.id != failed_member_;
  const bool alone = !message.value("others_too", true) || (step > 0 && !again);
  if (newcomer || alone) {
    if (step > 0) {
      failed_step_ = step;
      failed_member_ = replica.id;
      failed_with_ = sentence;
    }
    replica.fatal = sentence;  // the other replicas continue
    replica.process->kill();
    return;
  }
  if (subjects_.end.is("failed")) return;  // all replicas send the same; report it once
  subjects_.end.begin(
      {.result = "failed",
       .exit = std::max(1, json_get_or<int>(message, "exit", "fatal", 1)),
       .reason = again ? fmt::format("two replicas failed in the same step. Replica {}: {}. "
                                     "Replica {}: {}",
                                     failed_member_, failed_with_, replica.id, sentence)
                       : sentence});
}

void Conversation::on_closed(Replica& replica) {
  auto& [view, replicas, stream, hung, stragglers, slow_links, failures, end, report, mirror] =
      subjects_;
  replica.failed = !replica.said_bye && !replica.expected_end && !end.ending();
  Member* member = view.find(replica.id);
  if (member == nullptr || member->state == MemberState::gone) return;
  replica.state_at_death = member->state;
  if (end.members_matter()) {
    died(view, replica.id, Monotonic::now());
  } else {
    member->state = MemberState::gone;
  }
  stream.advance(view);
}

void Conversation::on_exit(Replica& replica, const ExitStatus& status) {
  const std::string lost = replica.process->lost();
  if (replica.led && !replica.expected_end && (!status.success() || !lost.empty())) {
    const std::string how = !lost.empty()            ? lost
                            : !replica.fatal.empty() ? replica.fatal
                                                     : status.describe();
    const std::string why = "after its training: " + how;
    subjects_.failures.add(replica.id, why, MemberState::active);
    subjects_.end.main_ended("failed", lost.empty() ? status.shell_code() : 1,
                             "the program failed " + why);
  }
  if (replica.failed) {
    subjects_.failures.add(replica.id,
                           replica.fatal.empty() ? replica.process->lost() : replica.fatal, status,
                           replica.state_at_death);
  }
  reaped(subjects_.view, replica.id);
}

// A stopped process is not dead, but all others wait for it, unless it has not joined them; the
// user should know which one it is.
void Conversation::on_stop(Replica& replica, bool stopped) {
  Member* member = subjects_.view.find(replica.id);
  if (member == nullptr || member->stopped == stopped) return;
  member->stopped = stopped;
  subjects_.hung.disturbed();
  subjects_.report.talk(
      stopped ? fmt::format("replica {} was stopped{} (process {})", replica.id,
                            member->state == MemberState::active ? "; training waits for it" : "",
                            replica.process->pid())
              : fmt::format("replica {} continues", replica.id));
}

}  // namespace adaptdl::launch
