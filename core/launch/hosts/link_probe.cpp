#include "core/launch/hosts/link_probe.h"

#include <future>
#include <sys/socket.h>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/median.h"
#include "core/base/pipe.h"
#include "core/base/poll.h"
#include "core/base/system.h"
#include "core/formats/json.h"
#include "core/launch/hosts/agent_link.h"
#include "core/net/stream.h"

namespace adaptdl::launch {
namespace {

constexpr std::chrono::seconds kProbeConnectPatience{8};  // SYN packets are sent at 0, 1, 3 and 7 s
constexpr std::chrono::seconds kProbePatience{3};
constexpr std::chrono::seconds kLongestProbe{20};
constexpr size_t kProbeBlock = 64 << 10;
constexpr size_t kProbePings = 31;
constexpr size_t kMostAnswers = 32;  // at the same time
constexpr char kProbePing = 'p', kProbeSend = 's';

std::chrono::duration<double> since(TimePoint start) {
  return Monotonic::now() - start;
}

// False at the deadline, or if the peer is gone.
bool send_to(Stream& stream, std::string_view bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    size_t sent = 0;
    const IoState state = stream.send(bytes, sent);
    if (state == IoState::closed) return false;
    if (state == IoState::later && !wait_ready(stream.fd(), POLLOUT, deadline)) return false;
    bytes.remove_prefix(sent);
  }
  return true;
}

// The number of bytes; 0 at the deadline, or if the peer is gone.
size_t receive_from(Stream& stream, std::span<std::byte> bytes, TimePoint deadline) {
  for (;;) {
    size_t got = 0;
    const IoState state = stream.recv(bytes, got);
    if (state == IoState::closed) return 0;
    if (state == IoState::done) return got;
    if (!wait_ready(stream.fd(), stream.wants(), deadline)) return 0;
  }
}

// Until the client closes the connection.
void answer(Stream stream) {
  stream.shake_hands(Monotonic::now() + kProbePatience);
  const std::string block(kProbeBlock, 'x');
  for (std::byte request[1];;) {
    // Others are made before this one is used.
    if (receive_from(stream, request, Monotonic::now() + kLongestProbe) == 0) return;
    const char kind = static_cast<char>(request[0]);
    if (kind == kProbePing && !send_to(stream, {&kind, 1}, Monotonic::now() + kProbePatience))
      return;
    if (kind != kProbeSend) continue;
    for (const TimePoint end = Monotonic::now() + kLongestProbe; Monotonic::now() < end;) {
      if (!send_to(stream, block, end)) return;
    }
  }
}

double median_latency(Stream& stream, Seconds time) {
  std::vector<double> times;
  const TimePoint begun = Monotonic::now();
  // The first round trips also pay for what the handshake has left to do.
  for (size_t i = 0; i < kProbePings && (times.size() < 3 || since(begun) < time); ++i) {
    const TimePoint sent = Monotonic::now(), deadline = sent + kProbePatience;
    std::byte reply[1];
    if (!send_to(stream, {&kProbePing, 1}, deadline) ||
        receive_from(stream, reply, deadline) == 0) {
      fail("connected, but no answer within {} s", kProbePatience.count());
    }
    times.push_back(since(sent).count());
  }
  return lower_median(std::move(times));
}

// The first quarter of the time is TCP's, to find how much the network takes.
double receive_rate(Stream& stream, Seconds time) {
  std::vector<std::byte> buffer(4 * kProbeBlock);
  const TimePoint begun = Monotonic::now();
  if (!send_to(stream, {&kProbeSend, 1}, begun + kProbePatience)) fail("the connection broke");
  std::optional<TimePoint> counted;
  TimePoint last = begun;
  double bytes = 0;
  while (since(begun) < time || !counted) {
    const size_t got = receive_from(stream, buffer, Monotonic::now() + kProbePatience);
    if (got == 0) fail("the connection broke, or no byte came within {} s", kProbePatience.count());
    last = Monotonic::now();
    if (counted) {
      bytes += static_cast<double>(got);
    } else if (since(begun) >= time / 4) {
      counted = last;
    }
  }
  const double seconds = std::chrono::duration<double>(last - *counted).count();
  return seconds > 0 ? bytes / seconds : 0;
}

struct ProbeConnection {
  Stream stream;
  TcpAddress address;
  double latency_s = 0;
  bool first = true;  // by that address
};

// By the first address at which a ProbeServer answers.
ProbeConnection connect_probe(const std::vector<TcpAddress>& addresses, const TlsKey& key,
                              Spread& spread, Seconds time) {
  const std::vector<TcpAddress> order = spread.order(addresses);
  Dialling dialling(order);
  while (auto found = dialling.next(Monotonic::now() + kProbeConnectPatience)) {
    try {
      watch_peer(found->socket.get(), HostsOptions{}.silence);
      Stream stream(std::move(found->socket), key, TlsSide::client);
      stream.shake_hands(Monotonic::now() + kProbePatience);
      const double latency_s = median_latency(stream, time);
      const bool first = spread.used(order, found->which);
      return {std::move(stream), order[found->which], latency_s, first};
    } catch (const Error& error) {
      dialling.failed(found->which, error.what());
    }
  }
  fail("{}", addresses.empty() ? "no address" : dialling.problems());
}

Json json_of(const std::vector<TcpAddress>& addresses) {
  Json list = Json::array();
  for (const TcpAddress& each : addresses) {
    list.push_back({{"host", each.host}, {"port", each.port}, {"interface", each.interface}});
  }
  return list;
}

}  // namespace

std::vector<TcpAddress> addresses_in(const Json& list) {
  std::vector<TcpAddress> addresses;
  for (const Json& each : list) {
    addresses.push_back({json_get<std::string>(each, "host", "address"),
                         json_get<uint16_t>(each, "port", "address"),
                         json_get<std::string>(each, "interface", "address")});
  }
  return addresses;
}

ProbeServer::ProbeServer(TlsKey key, const Reach& reach) : key_(std::move(key)) {
  TcpAddress here{listening_address(reach), 0, ""};
  listener_ = listen_tcp(here, reach.ports);
  for (const HostAddress& each : reached_at(reach)) {
    addresses_.push_back({each.address, here.port, each.interface});
  }
  thread_ = std::thread([this] { run(); });
}

ProbeServer::~ProbeServer() {
  stop_.writer.reset();
  thread_.join();
}

void ProbeServer::run() {
  std::vector<std::future<void>> answers;  // which end by themselves
  for (;;) {
    std::vector<pollfd> waits{{listener_.get(), POLLIN, 0}, {stop_.reader.get(), POLLIN, 0}};
    poll_until(waits, TimePoint::max());
    if (waits[1].revents != 0) return;
    Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    std::erase_if(answers, [](const std::future<void>& each) {
      return each.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    });
    if (!socket || answers.size() >= kMostAnswers) continue;
    watch_peer(socket.get(), HostsOptions{}.silence);
    const auto task = [this](Fd accepted) {
      try {
        answer(Stream(std::move(accepted), key_, TlsSide::server));
      } catch (const Error&) {  // somebody else, or it is gone
      }
    };
    try {
      answers.push_back(std::async(std::launch::async, task, std::move(socket)));
    } catch (const std::system_error&) {  // no thread: the client reads that it is closed
    }
  }
}

LinkMeasure measure_link(const std::vector<TcpAddress>& addresses, const TlsKey& key, Seconds time,
                         int connections) {
  const std::vector<TcpAddress> there = leading_away(addresses, own_addresses());
  Spread spread;
  LinkMeasure measure;
  std::vector<Stream> streams;
  for (int i = 0; i < connections; ++i) {
    ProbeConnection next = connect_probe(there, key, spread, i == 0 ? time / 4 : Seconds(0));
    if (i == 0) measure.latency_s = next.latency_s;
    if (next.first) measure.addresses.push_back(std::move(next.address));
    streams.push_back(std::move(next.stream));
  }
  std::vector<std::future<double>> rates;
  for (Stream& stream : streams) {
    rates.push_back(std::async(std::launch::async, receive_rate, std::ref(stream), time));
  }
  for (auto& rate : rates) measure.bytes_per_s += rate.get();
  return measure;
}

void serve_probe(int in, int out) {
  const auto say = [out](const Json& answer) {
    write_all(out, dump_json(answer) + "\n", "output");
  };
  std::optional<TlsKey> key;
  std::optional<ProbeServer> server;
  std::string rest;
  while (const auto line = read_line(in, rest, TimePoint::max())) {
    try {
      const Json told = parse_json(*line, "input");
      if (const auto peer = told.find("measure"); peer != told.end() && key) {
        const auto measure = measure_link(addresses_in(*peer), *key,
                                          Seconds(json_get<double>(told, "time_s", "measure")),
                                          json_get<int>(told, "connections", "measure"));
        say({{"latency_s", measure.latency_s},
             {"bytes_per_s", measure.bytes_per_s},
             {"addresses", json_of(measure.addresses)}});
        continue;
      }
      key.emplace(from_hex(json_get<std::string>(told, "key", "input"), "the key"));
      Reach reach{.interface = json_get<std::string>(told, "interface", "input")};
      reach.ports = {json_get<uint16_t>(told, "first_port", "input"),
                     json_get<uint16_t>(told, "last_port", "input")};
      server.emplace(*key, reach);
      say({{"name", host_name()}, {"addresses", json_of(server->addresses())}});
    } catch (const std::exception& error) {
      say({{"error", error.what()}});
    }
  }
}

}  // namespace adaptdl::launch
