#pragma once

// Groups of members for the tests: as threads of this process (for the sanitizers), or as child
// processes (to be killed).

#include <cstdint>
#include <doctest/doctest.h>
#include <exception>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "core/base/clock.h"
#include "runtime/comm/connect.h"

namespace adaptdl::comm::testing {

inline const std::string kSecret = "a secret of at least 16 bytes";

// How many of `rounds` with other data or at other instants to do: fewer where every access to
// memory is watched, which takes ten times as long.
inline int rounds_of(int rounds) {
#ifdef __SANITIZE_THREAD__
  return (rounds + 2) / 3;
#else
  return rounds;
#endif
}

inline TimePoint in_seconds(double seconds) {
  return Monotonic::now() + std::chrono::duration_cast<Monotonic::duration>(Seconds(seconds));
}

// Listeners for a group; hosts[i] names the "host" of rank i ("" = all on this one, no TCP).
struct Listeners {
  explicit Listeners(const std::vector<std::string>& hosts, const std::string& secret = kSecret) {
    for (const std::string& host : hosts) {
      ListenerOptions options;
      options.tcp = !host.empty();
      options.reach.interface = host.empty() ? "" : "lo";
      options.host = host;
      all.push_back(std::make_unique<Listener>(secret, options));
      endpoints.push_back(all.back()->endpoint());
    }
  }
  std::unique_ptr<Communicator> connect(int rank, uint64_t generation = 1, double timeout_s = 20,
                                        const AbortSignal* abort = nullptr) {
    GroupOptions options;
    options.generation = generation;
    options.rank = rank;
    options.endpoints = endpoints;
    options.deadline = in_seconds(timeout_s);
    options.abort = abort;
    options.links = links;
    return comm::connect(*all[static_cast<size_t>(rank)], options);
  }
  std::vector<std::unique_ptr<Listener>> all;
  std::vector<nlohmann::json> endpoints;
  int links = 1;
};

inline std::vector<std::string> one_host(int size) {
  return std::vector<std::string>(static_cast<size_t>(size));
}
inline std::vector<std::string> many_hosts(int size) {
  std::vector<std::string> hosts;
  for (int i = 0; i < size; ++i) hosts.push_back("host" + std::to_string(i));
  return hosts;
}

// Runs body(rank) in `size` threads; rethrows the first exception.
inline void in_threads(int size, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

// As in_threads, with a connected communicator for each.
inline void with_group(const std::vector<std::string>& hosts,
                       const std::function<void(Communicator&)>& body) {
  Listeners listeners(hosts);
  in_threads(static_cast<int>(hosts.size()), [&](int rank) {
    const auto communicator = listeners.connect(rank);
    body(*communicator);
  });
}

}  // namespace adaptdl::comm::testing
