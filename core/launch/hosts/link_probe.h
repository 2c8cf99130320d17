#pragma once

// Measures connections between two hosts, by TCP and encrypted as those of replicas are.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "core/base/fd.h"
#include "core/base/pipe.h"
#include "core/net/tcp.h"
#include "core/net/tls.h"

namespace adaptdl::launch {

// Answers measurements of others that have the key, each connection in a thread of its own.
class ProbeServer {
 public:
  // Throws Error.
  ProbeServer(TlsKey key, const Reach& reach);
  ~ProbeServer();
  ProbeServer(const ProbeServer&) = delete;
  ProbeServer& operator=(const ProbeServer&) = delete;

  const std::vector<TcpAddress>& addresses() const { return addresses_; }

 private:
  void run();

  const TlsKey key_;
  std::vector<TcpAddress> addresses_;
  Fd listener_;
  Pipe stop_;  // its writer is closed then
  std::thread thread_;
};

struct LinkMeasure {
  std::vector<TcpAddress> addresses;  // that have answered, and by which the connections go
  double latency_s = 0;    // the median time of a small message there and back, by the first
  double bytes_per_s = 0;  // from there to here, over all connections together
};

// Measures the network to a ProbeServer for about `time`, with so many connections, which are
// spread over its addresses. Throws Error with all addresses tried, and what came back.
LinkMeasure measure_link(const std::vector<TcpAddress>& addresses, const TlsKey& key, Seconds time,
                         int connections = 1);

std::vector<TcpAddress> addresses_in(const nlohmann::json& list);  // [{host, port, interface}]

// The part of one host, told by lines of JSON on `in`, with answers on `out`:
//   {key, interface, first_port, last_port}      -> {name, addresses: [{host, port, interface}]}
//   {measure: [{host, port, interface}], time_s, connections}
//                                                -> {latency_s, bytes_per_s, addresses: as above}
// or {error}. Returns at the end of `in`.
void serve_probe(int in, int out);

}  // namespace adaptdl::launch
