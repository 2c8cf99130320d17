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

enum class Answer { none, silence, leads };

Answer ask(const LauncherAddress& address, const TlsKey& key) {
  Fd socket;
  try {
    socket = connect_tcp(address.host, address.port, Monotonic::now() + kToConnect);
  } catch (const Error&) {
    return Answer::none;
  }
  Stream stream(std::move(socket), key, TlsSide::client);
  const TimePoint deadline = Monotonic::now() + kToAnswer;
  try {
    stream.shake_hands(deadline);
  } catch (const Error&) {
    return Monotonic::now() >= deadline ? Answer::silence : Answer::none;
  }
  return Answer::leads;
}

}  // namespace

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

std::vector<LauncherAddress> RosterFile::others() const {
  std::vector<LauncherAddress> found;
  try {
    if (!path_exists(path_)) return found;
    const Roster roster =
        roster_from_json(parse_json(read_file(path_, kMostOfRoster), path_), "it");
    for (const Roster::Host& host : roster.hosts) {
      if (host.port != 0 && !is_this_machine(host.address)) {
        found.push_back({host.address, host.port});
      }
    }
  } catch (const Error&) {
    found.clear();
  }
  return found;
}

std::optional<LauncherAddress> leader_among(const std::vector<LauncherAddress>& hosts,
                                            const TlsKey& key, Seconds patience, const Talk& talk) {
  const TimePoint deadline = time_after(Monotonic::now(), patience);
  for (bool told = false;; told = true) {
    bool silence = false;
    for (const LauncherAddress& host : hosts) {
      const Answer answer = ask(host, key);
      if (answer == Answer::leads) return host;
      silence = silence || answer == Answer::silence;
    }
    if (!silence || Monotonic::now() >= deadline) return std::nullopt;
    if (!told) talk("other hosts are in this run already; waiting for the one that leads");
    std::this_thread::sleep_for(kAskAgain);
  }
}

}  // namespace adaptdl::launch
