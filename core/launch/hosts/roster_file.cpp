#include "core/launch/hosts/roster_file.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <thread>
#include <utility>

#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/formats/json.h"
#include "core/launch/hosts/meeting_point.h"
#include "core/net/stream.h"
#include "core/net/tcp.h"

namespace adaptdl::launch {
namespace {

constexpr size_t kMostOfRoster = 4u << 20;
constexpr std::chrono::milliseconds kToConnect{500}, kToAnswer{1000}, kAskAgain{500};

}  // namespace

Answer ask_host(const LauncherAddress& address, const TlsKey& key) {
  Fd socket;
  try {
    socket = connect_tcp(address.host, address.port, Monotonic::now() + kToConnect);
  } catch (const ConnectionRefused&) {
    return Answer::none;
  } catch (const Error&) {
    return Answer::unreachable;
  }
  const TimePoint deadline = Monotonic::now() + kToAnswer;
  try {
    Stream(std::move(socket), key, TlsSide::client).shake_hands(deadline);
    return Answer::leads;
  } catch (const Error&) {
    return Monotonic::now() >= deadline ? Answer::silent : Answer::none;
  }
}

void GoneHosts::note(const LauncherAddress& host, Answer answer) {
  if (answer == Answer::none) {
    none_since_.try_emplace(host, Monotonic::now());
  } else {
    none_since_.erase(host);
  }
}

bool GoneHosts::gone(const LauncherAddress& host) const {
  const auto since = none_since_.find(host);
  return since != none_since_.end() && seconds_since(since->second) >= patience_.count();
}

RosterFile::RosterFile(const std::string& checkpoint_dir)
    : path_(join_path(checkpoint_dir, "roster.json")) {}

void RosterFile::write(const Roster& roster) const {
  make_durable_directories(parent_directory(path_), 0700);
  write_file_atomic(path_, dump_json(to_json(roster)) + "\n", 0600);
}

void RosterFile::forget() const {
  if (path_exists(path_)) remove_tree(path_);
}

std::optional<Roster> RosterFile::read() const {
  try {
    if (!path_exists(path_)) return std::nullopt;
    return roster_from_json(parse_json(read_file(path_, kMostOfRoster), path_), "it");
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::function<void(const Roster&)> roster_keeper(const std::string& checkpoint_dir, Talk talk) {
  return [file = RosterFile(checkpoint_dir), talk = std::move(talk),
          failing = false](const Roster& roster) mutable {
    try {
      file.write(roster);
      failing = false;
    } catch (const Error& error) {
      if (!std::exchange(failing, true)) {
        talk(fmt::format("cannot keep the hosts of this run for one that takes over: {}",
                         error.what()));
      }
    }
  };
}

std::vector<LauncherAddress> others_of(const Roster& roster) {
  std::vector<LauncherAddress> found;
  for (const Roster::Host& host : roster.hosts) {
    if (host.port != 0 && !is_this_machine(host.address))
      found.push_back({host.address, host.port});
  }
  return found;
}

Roster may_have_gone_on(Roster known, const std::vector<LauncherAddress>& gone) {
  std::erase_if(known.hosts, [&](const Roster::Host& host) {
    return host.port == 0 || is_this_machine(host.address) ||
           std::ranges::count(gone, LauncherAddress{host.address, host.port}) != 0;
  });
  const bool enough = !known.led_here || known.size - 1 >= enough_without_launcher(known.size);
  if (known.shared || !enough) known.hosts.clear();
  return known;
}

LeaderPatience patience_with(const Roster& roster, Seconds election) {
  // Who goes on without this host has the folder's lock, or is about to, and is seen here.
  if (roster.shared) return {.for_silent = election};
  return may_have_gone_on(roster).hosts.empty() ? LeaderPatience{}
                                                : LeaderPatience{election, election, kNotListening};
}

Search leader_among(const std::vector<LauncherAddress>& hosts, const TlsKey& key,
                    LeaderPatience patience, const Talk& talk) {
  const Seconds most = std::max({patience.for_silent, patience.for_unreachable, patience.for_none});
  const TimePoint begun = Monotonic::now();
  GoneHosts gone(patience.for_none);
  for (bool told = false; !hosts.empty(); told = true) {
    Seconds wait{0};
    for (const LauncherAddress& host : hosts) {
      const Answer answer = ask_host(host, key);
      if (answer == Answer::leads) return {host, {}};
      gone.note(host, answer);
      if (answer == Answer::silent) wait = std::max(wait, patience.for_silent);
      if (answer == Answer::unreachable) wait = std::max(wait, patience.for_unreachable);
      if (answer == Answer::none && !gone.gone(host)) wait = most;
    }
    if (seconds_since(begun) >= wait.count()) break;
    if (!told) {
      talk(fmt::format(
          "looking for up to {:.0f} s whether the hosts that this one was with go on without it",
          most.count()));
    }
    std::this_thread::sleep_for(kAskAgain);
  }
  Search search;
  std::ranges::copy_if(hosts, std::back_inserter(search.gone),
                       [&](const LauncherAddress& host) { return gone.gone(host); });
  return search;
}

}  // namespace adaptdl::launch
