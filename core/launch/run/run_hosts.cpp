#include "core/launch/run/run_hosts.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/launch/hosts/host_slots.h"

namespace adaptdl::launch {
namespace {

constexpr std::chrono::seconds kLookElsewhere{1};
constexpr std::chrono::milliseconds kConfirmPause{100}, kConfirmPausePerHost{2};
constexpr std::chrono::seconds kLastWrite{1};

std::string addresses(const Quorum::Hosts& hosts) {
  std::vector<std::string> all;
  for (const Roster::Host& host : hosts) all.push_back(host.address);
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace

RunHosts::RunHosts(const RunOptions& options, View& view, RendezvousOptions& rendezvous,
                   ReplicaSet& replicas, RunReport& report)
    : options_(options),
      view_(view),
      rendezvous_(rendezvous),
      replicas_(replicas),
      report_(report),
      most_(options.replicas.initial) {}

void RunHosts::ask_for(int replicas, const char* cause) {
  asked_for_ = replicas;
  request_target(view_, replicas, cause, rendezvous_);
}

void RunHosts::use_slots() {
  const int slots = std::max(1, static_cast<int>(rendezvous_.slots.size()));
  most_ = std::max(most_, slots - options_.spares);
  request_target(view_, std::min(slots, asked_for_.value_or(most_)), "hosts", rendezvous_);
}

void RunHosts::use_slots(const Generation& last) {
  most_ = std::max(most_, static_cast<int>(last.members.size()));
  use_slots();
}

bool RunHosts::waits(std::string& reason) {
  if (!options_.hosts || !view_.members.empty()) return false;
  if (!waits_for_hosts(replicas_.hosts(), options_.hosts->least, replicas_.hosts_port(), reason,
                       report_)) {
    return false;
  }
  view_.forming_since = Monotonic::now();
  return true;
}

std::optional<TimePoint> RunHosts::lacks(std::string& reason) {
  if (!options_.hosts) return std::nullopt;
  AgentServer& agents = replicas_.agents();
  const auto leave = [&](const char* why) {
    report_.talk(why);
    agents.leave_to_others();
    throw LedElsewhere(why);
  };
  if (agents.overtaken()) leave("another host has led the run since");
  if (agents.may_train()) return std::nullopt;
  if (agents.may_train_soon()) return TimePoint::max();
  if (agents.takes_over()) {
    agents.leave_to_others();
    fail("cannot lead the run: lost hosts before all knew of it");
  }
  const std::string why = fmt::format(
      "{}; waiting for them. Should they be down, `adaptdl scale {} N` goes on without them",
      agents.comes_again()
          ? fmt::format("{} cannot be reached, and may have gone on without this host",
                        addresses(agents.lost()))
          : "lost so many hosts at once that they may go on without this one",
      options_.name);
  if (reason != why) report_.talk(why);
  reason = why;
  if (Monotonic::now() >= look_elsewhere_at_) {
    if (agents.led_elsewhere()) leave("another host leads the run now");
    look_elsewhere_at_ = Monotonic::now() + kLookElsewhere;
  }
  return look_elsewhere_at_;
}

void RunHosts::part_cut() {
  if (!options_.hosts) return;
  const std::vector<AgentServer::Host> hosts = replicas_.agents().all_hosts();
  const auto number = [&](const Member& member) {
    const auto holds = [&](const auto& host) {
      return std::ranges::count(host.slots, member.slots.front()) != 0;
    };
    const auto found = std::ranges::find_if(hosts, holds);
    return found == hosts.end() ? -1 : found->slots.front();
  };
  const TimePoint now = Monotonic::now();
  const std::vector<int> out = cut_.leave_out(view_, now, number);
  const std::vector<int> again = cut_.pause_over(now);
  for (const AgentServer::Host& host : hosts) {
    const int first = host.slots.front();
    if (std::ranges::count(out, first) != 0) {
      report_.talk(
          fmt::format("host {} takes no part for {:.0f} s: it and others do not reach each "
                      "other, though all of them reach this launcher",
                      host.name, cut_.pause(first).count()));
      for (const int slot : host.slots) std::erase(rendezvous_.slots, slot);
      for (const Member& member : std::vector<Member>(view_.members)) {
        if (number(member) == first) parted(view_, member.id, now);
      }
    } else if (std::ranges::count(again, first) != 0) {
      report_.talk(fmt::format("host {} is tried again", host.name));
      rendezvous_.slots.insert(rendezvous_.slots.end(), host.slots.begin(), host.slots.end());
    }
  }
  if (!out.empty() || !again.empty()) use_slots();
}

TimePoint RunHosts::deadline(bool parts) const {
  const TimePoint cut = parts ? cut_.deadline(view_) : TimePoint::max();
  return unconfirmed_ ? std::min(cut, confirm_at_) : cut;
}

void RunHosts::confirm_events(const EventStream& stream) {
  if (!options_.hosts) return;
  AgentServer& agents = replicas_.agents();
  unconfirmed_ = agents.keep_events() || stream.told() != agents.told();
  const TimePoint now = Monotonic::now();
  if (!unconfirmed_ || now < confirm_at_) return;
  confirm_at_ = now + std::max(kConfirmPause, kConfirmPausePerHost * replicas_.hosts());
  if (stream.holds_any() || !report_.all_passed_on(now)) return;
  agents.events_passed_on(stream.told());
  unconfirmed_ = false;
}

void RunHosts::hand_over(const EventStream& stream) {
  AgentServer& agents = replicas_.agents();
  if (stream.holds_any() || !report_.all_passed_on(Monotonic::now() + kLastWrite)) {
    return agents.leave_to_others();
  }
  agents.hand_over(stream.told());
}

}  // namespace adaptdl::launch
