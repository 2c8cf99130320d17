#include "runtime/standalone/meeting.h"

#include <algorithm>
#include <fmt/format.h>
#include <thread>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/number.h"
#include "core/job/worker_environment.h"
#include "runtime/comm/cpu/endpoint.h"
#include "runtime/comm/cpu/link.h"
#include "runtime/standalone/resolve.h"
#include "runtime/standalone/supervisor.h"
#include "runtime/standalone/waiting.h"

namespace adaptdl::standalone {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kDialPatience{5}, kWelcomePatience{30};
constexpr std::chrono::milliseconds kDialPause{200};

TimePoint after(double seconds) {
  return Monotonic::now() + std::chrono::duration_cast<Monotonic::duration>(Seconds(seconds));
}

void check(const Place& place) {
  if (place.rank < 0 || place.rank >= place.replicas) {
    fail(
        "there is no replica {} of {}: ADAPTDL_REPLICA_RANK goes from 0 to "
        "ADAPTDL_NUM_REPLICAS - 1",
        place.rank, place.replicas);
  }
  if (place.replicas > 1 && (place.master_port < 1 || place.master_port > 65535)) {
    fail(
        "{} replicas meet at rank 0: set ADAPTDL_MASTER_PORT to a TCP port that is free on its "
        "host, the same for all",
        place.replicas);
  }
}

Fd dial(const Place& place, const std::string& host, std::string& problem) {
  for (const Address& address : resolve(host, place.master_port)) {
    comm::Dialled dialled =
        comm::dial_tcp({address.text(), static_cast<uint16_t>(place.master_port), ""},
                       {Monotonic::now() + kDialPatience, nullptr});
    if (dialled.socket) return std::move(dialled.socket);
    problem = dialled.problem;
  }
  return {};
}

// Rank 0 may start later than the others, and its name may appear later.
Fd reach(const Place& place, const std::string& host, TimePoint deadline) {
  Waiting waiting;
  for (;;) {
    std::string problem;
    try {
      if (Fd socket = dial(place, host, problem)) return socket;
    } catch (const Error& error) {
      problem = error.what();
    }
    const TimePoint now = Monotonic::now();
    if (now >= deadline) {
      fail(
          "timed out after {}: rank 0 does not answer at {}:{} (ADAPTDL_MASTER_ADDR, "
          "ADAPTDL_MASTER_PORT): {}; start all replicas, or raise ADAPTDL_JOIN_TIMEOUT",
          format_duration(place.patience_s), host, place.master_port, problem);
    }
    if (waiting.due(now)) {
      log_info("replica {} waits for rank 0 at {}:{}: {}", place.rank, host, place.master_port,
               problem);
    }
    std::this_thread::sleep_for(kDialPause);
  }
}

Stream greeted(Fd socket, const Place& place, const std::string& where) {
  Stream stream(std::move(socket), meeting_key(place), TlsSide::client);
  try {
    stream.shake_hands(Monotonic::now() + kWelcomePatience);
  } catch (const Error& error) {
    fail("{} and replica {} cannot trust each other: {}; all need the same {}", where, place.rank,
         error.what(), kLinkKeyVariable);
  }
  return stream;
}

// Replicas on this host use shared memory. Others must reach this one where it reaches rank 0,
// which they know as `host`.
comm::ListenerOptions listener_at(const Address& address, const std::string& host) {
  if (address.is_loopback() && names_loopback(host)) return {};
  comm::ListenerOptions options{.tcp = true};
  if (address.is_loopback()) return options;
  const std::string interface = interface_of(address.text());
  if (interface != "?") options.reach.interface = interface;
  return options;
}

}  // namespace

Meeting meet(const Place& place, const std::string& purpose) {
  check(place);
  Meeting meeting;
  const TimePoint deadline = after(place.patience_s);
  std::string where = "rank 0";
  if (place.rank == 0) {
    Place here = place;
    // With a supervisor nobody has told rank 0 which of its addresses the others will get.
    if (!place.supervisor_url.empty()) here.master_addr = Place().master_addr;
    meeting.coordinator = std::make_unique<Coordinator>(here, purpose);
    meeting.channel = std::make_unique<launch::Channel>(meeting.coordinator->take_own_end());
    const std::string& address = meeting.coordinator->address();
    meeting.listener = address.empty() ? comm::ListenerOptions{.tcp = true}
                                       : listener_at(resolve(address, 0).front(), here.master_addr);
  } else {
    const std::string host =
        place.supervisor_url.empty() ? place.master_addr : discover(place, deadline);
    where = fmt::format("rank 0 at {}:{}", host, place.master_port);
    Fd socket = reach(place, host, deadline);
    meeting.listener = listener_at(local_address(socket.get()), host);
    meeting.channel = std::make_unique<launch::Channel>(greeted(std::move(socket), place, where));
  }
  meeting.listener.encrypt = !place.link_key.empty();
  meeting.channel->send(join_message(place, purpose));
  const auto answer = meeting.channel->receive(Monotonic::now() + kWelcomePatience);
  if (!answer) {
    fail(
        "{} does not answer replica {} as adaptdl: is ADAPTDL_MASTER_PORT used by another program?",
        where, place.rank);
  }
  if (answer->at("type") == "refused") {
    fail("{} refuses replica {}: {}", where, place.rank, answer->value("reason", ""));
  }
  if (answer->at("type") != "welcome" || !answer->contains("secret") ||
      !answer->at("secret").is_string()) {
    fail("{} sent replica {} an unknown message", where, place.rank);
  }
  const std::vector<uint8_t> secret =
      from_hex(answer->at("secret").get<std::string>(), "the replicas' secret");
  meeting.secret.assign(secret.begin(), secret.end());
  meeting.welcome = *answer;
  return meeting;
}

}  // namespace adaptdl::standalone
