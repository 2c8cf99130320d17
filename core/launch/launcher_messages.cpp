// What replicas say, and how they end.

#include <algorithm>
#include <sys/wait.h>

#include "core/base/error.h"
#include "core/launch/launcher.h"

namespace adaptdl::launch {

namespace {

constexpr int kLastLines = 20;
constexpr size_t kMaxSentence = 4000;

std::string bounded(std::string text) {
  if (text.size() > kMaxSentence) text = text.substr(0, kMaxSentence) + " ...";
  return text;
}

}  // namespace

bool Launcher::drain(Replica& replica) {
  try {
    const bool open =
        replica.channel.drain([&](const nlohmann::json& message) { on_message(replica, message); });
    return open;
  } catch (const std::exception& error) {
    // Not ours, or gone mad: nothing it says can be trusted any more.
    output_.talk(fmt::format("replica {}: {}; killing it", replica.id, bounded(error.what())));
    replica.process->kill();
    return false;
  }
}

void Launcher::on_message(Replica& replica, const nlohmann::json& message) {
  const TimePoint now = Monotonic::now();
  const MemberId id = replica.id;
  const auto& type = message.at("type").get_ref<const std::string&>();
  const auto generation = [&] { return message.at("generation").get<uint64_t>(); };
  if (type == "event") {
    stream_.event(id, message.at("event"));
  } else if (type == "hello") {
    const int protocol = message.at("protocol").get<int>();
    if (protocol > kProtocol) {
      on_fatal(
          replica,
          {{"message",
            fmt::format("{}: made for a newer adaptdl (worker protocol {}, this one speaks {}); "
                        "run it with that one",
                        options_.program, protocol, kProtocol)}});
      return;
    }
    replica.said_hello = true;
    replica.endpoint = message.at("endpoint");
    said_hello(view_, id, now);
  } else if (type == "connected") {
    said_connected(view_, id, generation());
  } else if (type == "switched") {
    stream_.switched(generation(), message.at("step").get<int64_t>());
    said_switched(view_, id, generation(), now);
    note_generation();
    stream_.advance(view_);
  } else if (type == "lost") {
    said_lost(view_, id, generation(), message.value("connecting", false), now);
    note_generation();
  } else if (type == "waiting") {
    replica.waits_in = message.at("waiting").get<bool>() ? generation() : 0;
    watch_.restart();
  } else if (type == "hints") {
    on_hints(message);
  } else if (type == "leaving") {
    said_leaving(view_, id, now);
  } else if (type == "bye") {
    replica.said_bye = true;
    const std::string result = message.value("result", "");
    const bool first = !view_.current.members.empty() && view_.current.members.front() == id;
    if (first && message.contains("summary") && message["summary"].is_object()) {
      summary_ = message["summary"];
    }
    // Older programs do not say; they end with 1 if the checkpoint of a stop cannot be written.
    if (first && result != "left") checkpointed_ = message.value("checkpoint", result == "stopped");
    said_bye(view_, id, result == "finished", now);
    stream_.advance(view_);
  } else if (type == "fatal") {
    on_fatal(replica, message);
  }
  // Unknown types are for later versions.
}

void Launcher::on_hints(const nlohmann::json& message) {
  try {
    std::vector<std::string> ignored;
    hints_ = hints_from_json(message.at("hints"), "hints", ignored);
    if (options_.on_hints) options_.on_hints(hints());
  } catch (const Error&) {  // of another version: those before stand
  }
}

void Launcher::on_fatal(Replica& replica, const nlohmann::json& message) {
  const std::string sentence = bounded(message.value("message", "cannot train"));
  const Member* member = view_.find(replica.id);
  const bool newcomer = member != nullptr && member->state != MemberState::active && trained() > 0;
  if (newcomer) {
    replica.fatal = sentence;  // those who train go on
    replica.process->kill();
    return;
  }
  if (ending_ && ending_->result == "failed") return;  // all say the same; once is enough
  end({.result = "failed", .exit = std::max(1, message.value("exit", 1)), .reason = sentence});
}

// Its channel ended, or it is reaped: whichever is first.
void Launcher::on_death(Replica& replica) {
  if (!replica.open) return;
  replica.open = false;
  replica.ended_at = Monotonic::now();
  replica.failed = !replica.said_bye && !replica.expected_end && !ending_;
  Member* member = view_.find(replica.id);
  if (member == nullptr || member->state == MemberState::gone) return;
  replica.state_at_death = member->state;
  if (ending_ && !ending_->repair) {
    member->state = MemberState::gone;
  } else {
    died(view_, replica.id, Monotonic::now());
  }
  stream_.advance(view_);
}

void Launcher::on_exit(Replica& replica, const ExitStatus& status) {
  on_death(replica);
  if (replica.failed) {
    std::string reason = replica.fatal.empty() ? replica.process->lost() : replica.fatal;
    memory_ran_out_ = reason.empty() && oom_.explains(status);
    if (reason.empty()) reason = memory_ran_out_ ? "killed: memory ran out" : status.describe();
    report_failure(replica.id, reason, &status, replica.state_at_death);
  }
  reaped(view_, replica.id);
}

std::string Launcher::what_next(MemberState before) const {
  const int left = trained();
  if (view_.breakdowns > options_.max_restarts) return "too often without a finished step between";
  const bool another = view_.failed_newcomers <= options_.max_restarts;
  if (left > 0) {
    const std::string go_on = fmt::format("{} of {} train on", left, view_.target);
    if (!another) return go_on + " without another";
    const bool wanted = left < view_.target && !view_.stopping;
    return wanted ? go_on + ", another is started" : go_on;
  }
  if (before == MemberState::active) return "all start again from the newest checkpoint";
  return another ? "another is started" : "failed too often";
}

void Launcher::report_failure(MemberId id, const std::string& reason, const ExitStatus* status,
                              MemberState before) {
  // Its output is there as soon as the log thread has read it; nothing is held up for long.
  last_failure_ = fmt::format("replica {}: {}", id, reason);
  last_words_ = logs_.tail(id, kLastLines, Monotonic::now() + std::chrono::milliseconds(100));
  nlohmann::json event = {{"event", "failure"}, {"member", id},         {"reason", reason},
                          {"signal", nullptr},  {"exit_code", nullptr}, {"next", what_next(before)},
                          {"log", last_words_}};
  if (status != nullptr) event[status->signaled ? "signal" : "exit_code"] = status->value;
  stream_.emit(std::move(event));
}

void Launcher::on_step(int64_t step) {
  step_finished(view_);
  if (const auto& took = stream_.newest("step_s"); took.is_number()) {
    watch_.step_took(Seconds(took.get<double>()));
  }
  while (next_replicas_at_ < options_.replicas_at.size() &&
         step >= options_.replicas_at[next_replicas_at_].first) {
    set_target(options_.replicas_at[next_replicas_at_].second, "replicas-at");
    ++next_replicas_at_;
  }
}

}  // namespace adaptdl::launch
