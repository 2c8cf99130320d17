#include "runtime/standalone/roster.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/launch/io/protocol.h"

namespace adaptdl::standalone {
namespace {

using nlohmann::json;

constexpr int kMostBreakdowns = 20;
constexpr int kTerminated = static_cast<int>(ExitCode::terminated);
constexpr int kFailed = static_cast<int>(ExitCode::error);

int64_t integer_of(const json& message, const char* key) {
  const auto found = message.find(key);
  if (found == message.end() || !found->is_number_integer()) return -1;
  return found->get<int64_t>();
}

std::string text_of(const json& message, const char* key) {
  const auto found = message.find(key);
  return found != message.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

json join_message(const Place& place, const std::string& purpose) {
  return {{"type", "join"},     {"protocol", launch::kProtocol}, {"purpose", purpose},
          {"rank", place.rank}, {"replicas", place.replicas},    {"restarts", place.restarts},
          {"job", place.job_id}};
}

Roster::Roster(Place place, std::string purpose, std::string secret, TimePoint now)
    : place_(std::move(place)),
      purpose_(std::move(purpose)),
      secret_(std::move(secret)),
      patience_(now + std::chrono::duration_cast<Monotonic::duration>(Seconds(place_.patience_s))),
      watch_(place_.hang_timeout_s) {}

Roster::Admission Roster::admit(const json& join) {
  const auto refused = [](const std::string& reason) {
    return Admission{-1, {{"type", "refused"}, {"reason", reason}}};
  };
  if (text_of(join, "type") != "join") return refused("this is no replica's first message");
  const json ours = join_message(place_, purpose_);
  if (integer_of(join, "protocol") != launch::kProtocol) {
    return refused(
        fmt::format("rank 0 speaks protocol {}, this replica {}: build all replicas "
                    "against the same adaptdl",
                    launch::kProtocol, integer_of(join, "protocol")));
  }
  for (const auto& [key, variable] : {std::pair("replicas", "ADAPTDL_NUM_REPLICAS"),
                                      std::pair("restarts", "ADAPTDL_NUM_RESTARTS")}) {
    if (integer_of(join, key) == ours.at(key)) continue;
    return refused(fmt::format("{} is {} here and {} on rank 0", variable, integer_of(join, key),
                               ours.at(key).get<int64_t>()));
  }
  if (text_of(join, "job") != place_.job_id) {
    return refused(fmt::format("rank 0 belongs to another job, \"{}\"", place_.job_id));
  }
  if (text_of(join, "purpose") != purpose_) {
    return refused("the replicas run different programs: one trains, the other does not");
  }
  const int64_t rank = integer_of(join, "rank");
  if (rank < 0 || rank >= place_.replicas) {
    return refused(fmt::format("there is no rank {} of {}", rank, place_.replicas));
  }
  if (generation_ > 0 || stopped_) return refused("the replicas have begun without this one");
  const int member = static_cast<int>(rank);
  if (members_.contains(member)) {
    return refused(fmt::format("there is another replica with ADAPTDL_REPLICA_RANK={}", rank));
  }
  members_[member];
  return {member,
          {{"type", "welcome"},
           {"protocol", launch::kProtocol},
           {"member", member},
           {"secret", secret_},
           {"settings", json::object()}}};
}

std::vector<int> Roster::present() const {
  std::vector<int> all;
  for (const auto& [member, state] : members_) {
    if (!state.ended) all.push_back(member);
  }
  return all;
}

std::vector<int> Roster::missing() const {
  std::vector<int> all;
  for (int rank = 0; rank < place_.replicas; ++rank) {
    if (!members_.contains(rank)) all.push_back(rank);
  }
  return all;
}

bool Roster::all_but_first_ended() const {
  return std::ranges::all_of(members_,
                             [](const auto& item) { return item.first == 0 || item.second.ended; });
}

Roster::Outbox Roster::generation(const std::string& cause) {
  broken_.reset();
  watch_.restart();
  ++generation_;
  for (auto& [member, state] : members_) state.waits = false;
  json list = json::array();
  for (const int member : present()) {
    const json& hello = members_[member].hello;
    list.push_back({{"member", member},
                    {"endpoint", hello.at("endpoint")},
                    {"accelerator", hello.value("accelerator", "")}});
  }
  Outbox out;
  for (const int member : present()) {
    out.emplace_back(member, json{{"type", "generation"},
                                  {"generation", generation_},
                                  {"immediate", true},
                                  {"members", list},
                                  {"cause", cause},
                                  {"threads", 0},
                                  {"atomic_limit", 0}});
  }
  return out;
}

Roster::Outbox Roster::stop(bool checkpoint, int exit, const std::string& cause) {
  stopped_ = true;
  Outbox out;
  // Rank 0 last: its process may end at once, and with it whoever sends this.
  for (const int member : present()) {
    out.emplace_back(member, json{{"type", "stop"},
                                  {"mode", checkpoint ? "checkpoint" : "now"},
                                  {"exit", exit},
                                  {"cause", cause}});
  }
  std::reverse(out.begin(), out.end());
  return out;
}

Roster::Outbox Roster::died(int member, const std::string& how) {
  members_.at(member).ended = true;
  if (member == 0) {
    first_lost_ = true;
    return {};
  }
  if (generation_ == 0) {
    if (stopped_) return {};
    return stop(false, kFailed, fmt::format("replica {} {} before training began", member, how));
  }
  if (present().empty()) return {};
  const std::string cause = fmt::format("replica {} {}", member, how);
  Outbox out = generation(cause);
  if (stopped_) return out;
  Outbox more = stop(true, kTerminated, cause + ", and nobody replaces it here");
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

Roster::Outbox Roster::closed(int member) {
  if (members_.at(member).ended) return {};
  return died(member, "has died");
}

Roster::Outbox Roster::received(int member, const json& message, TimePoint now) {
  const auto type = message.at("type").get<std::string>();
  Member& sender = members_.at(member);
  if (sender.ended) return {};
  if (type == "hello") {
    sender.hello = message;
    sender.hello.at("endpoint");
    const bool ready = std::ranges::all_of(
        members_, [](const auto& item) { return !item.second.hello.is_null(); });
    return ready && missing().empty() && generation_ == 0 && !stopped_
               ? generation("all replicas are there")
               : Outbox{};
  }
  if (type == "leaving") {
    if (stopped_) return {};
    return stop(generation_ > 0, kTerminated,
                fmt::format("replica {} got {}", member, text_of(message, "reason")));
  }
  if (type == "lost") {
    if (message.at("generation").get<uint64_t>() == generation_ && !broken_) {
      broken_ = now;
      reason_ = text_of(message, "reason");
    }
    return {};
  }
  if (type == "waiting") {
    sender.waits = message.at("generation").get<uint64_t>() == generation_ &&
                   message.at("waiting").get<bool>();
    return {};
  }
  if (type == "saving") {
    sender.saves = message.at("saving").get<bool>();
    return {};
  }
  if (type == "event") {
    const json& event = message.at("event");
    if (text_of(event, "event") == "step") {
      breakdowns_ = 0;
      watch_.step_took(Seconds(event.value("step_s", 0.0)));
    }
    return {};
  }
  if (type == "bye") {
    sender.ended = true;
    return {};
  }
  if (type == "fatal") {
    const bool alone = message.contains("step") || !message.value("others_too", true);
    if (alone) return died(member, "has failed: " + text_of(message, "message"));
    sender.ended = true;
    if (stopped_) return {};
    return stop(false, static_cast<int>(std::max<int64_t>(integer_of(message, "exit"), kFailed)),
                fmt::format("replica {} has failed: {}", member, text_of(message, "message")));
  }
  return {};
}

Roster::Outbox Roster::end_hung(TimePoint now) {
  std::vector<int> busy;
  bool saves = false;
  const std::vector<int> all = present();
  for (const int member : all) {
    if (!members_[member].waits) busy.push_back(member);
    saves = saves || members_[member].saves;
  }
  const bool held_up =
      generation_ > 0 && watch_.on() && !saves && !busy.empty() && busy.size() < all.size();
  watch_.waiting(now, held_up);
  if (!held_up || watch_.waited() < watch_.patience()) return {};
  const std::string how = fmt::format("made no progress for {} while others waited for it",
                                      format_duration(std::round(watch_.waited().count())));
  watch_.restart();
  Outbox out;
  for (const int member : busy) {
    out.emplace_back(member, json{{"type", "stop"},
                                  {"mode", "now"},
                                  {"exit", kFailed},
                                  {"cause", "it " + how + " (ADAPTDL_HANG_TIMEOUT)"}});
    if (member == 0) return out;  // its end is the end of whoever sends this; the others notice it
    for (auto& message : died(member, how)) out.push_back(std::move(message));
  }
  return out;
}

Roster::Outbox Roster::elapsed(TimePoint now) {
  if (Outbox out = end_hung(now); !out.empty()) return out;
  if (generation_ == 0 && !stopped_ && !missing().empty() && now >= patience_) {
    return stop(false, kFailed,
                fmt::format("timed out after {}: no replica with rank {} has come to rank 0; start "
                            "all replicas with the same ADAPTDL_MASTER_ADDR and "
                            "ADAPTDL_MASTER_PORT, or raise ADAPTDL_JOIN_TIMEOUT",
                            format_duration(place_.patience_s), fmt::join(missing(), ", ")));
  }
  if (!broken_ || now < *broken_ + kGrace) return {};
  if (++breakdowns_ <= kMostBreakdowns) return generation(reason_);
  broken_.reset();
  return stop(false, kFailed,
              fmt::format("the replicas lost each other {} times without a step: {}", breakdowns_,
                          reason_));
}

TimePoint Roster::deadline() const {
  if (broken_) return *broken_ + kGrace;
  if (watch_.counting()) return watch_.next_look();
  if (generation_ == 0 && !stopped_ && !missing().empty()) return patience_;
  return TimePoint::max();
}

}  // namespace adaptdl::standalone
