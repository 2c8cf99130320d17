#include "core/launch/hosts/roster_file.h"

#include <thread>

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

bool answers_as_launcher(const LauncherAddress& address, const TlsKey& key) {
  try {
    Fd socket = connect_tcp(address.host, address.port, Monotonic::now() + kToConnect);
    Stream stream(std::move(socket), key, TlsSide::client);
    stream.shake_hands(Monotonic::now() + kToAnswer);
    return true;
  } catch (const Error&) {
    return false;
  }
}

RosterFile::RosterFile(const std::string& checkpoint_dir)
    : path_(join_path(checkpoint_dir, "roster.json")) {}

void RosterFile::write(const Roster& roster) const {
  if (roster.shared) return forget();
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

std::vector<LauncherAddress> RosterFile::others() const {
  std::vector<LauncherAddress> found;
  const auto roster = read();
  if (!roster) return found;
  for (const Roster::Host& host : roster->hosts) {
    if (host.port != 0 && !is_this_machine(host.address))
      found.push_back({host.address, host.port});
  }
  return found;
}

bool RosterFile::others_may_go_on() const {
  const auto roster = read();
  return roster && roster->size - 1 >= enough_without_launcher(roster->size);
}

std::optional<LauncherAddress> leader_among(const std::vector<LauncherAddress>& hosts,
                                            const TlsKey& key, Seconds patience, const Talk& talk) {
  const TimePoint deadline = time_after(Monotonic::now(), patience);
  for (bool told = false; !hosts.empty(); told = true) {
    for (const LauncherAddress& host : hosts) {
      if (answers_as_launcher(host, key)) return host;
    }
    if (Monotonic::now() >= deadline) break;
    if (!told) {
      talk(
          fmt::format("looking for {:.0f} s whether the hosts that this one was with go on without "
                      "it",
                      patience.count()));
    }
    std::this_thread::sleep_for(kAskAgain);
  }
  return std::nullopt;
}

}  // namespace adaptdl::launch
