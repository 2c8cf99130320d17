// Times collectives among processes of this host; prints one line of JSON per figure.
//
//   bench_allreduce [--processes N] [--quick] [--tcp [--plain]] [--links N] [--networks FILE,...]
//
// --networks: each process is on a host of its own, in the network namespace that a file names; see
// hosts.py. Otherwise with --tcp the processes are hosts that use the loopback interface. --links:
// connections between two hosts.
// Each all-reduce is timed separately.
// "sent_fraction", with --networks: the bytes that left the host of rank 0 by its interfaces,
// headers and acknowledgements included, divided by the least that it must send, 2 (n - 1) / n of
// the data. "memcpy_fraction": the bytes per second that each process must at least read and write
// (its whole buffer), divided by the bandwidth of a plain memcpy of the same bytes in as many
// processes.

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <functional>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "runtime/comm/connect.h"

using namespace adaptdl;
using namespace adaptdl::comm;

namespace {

struct Options {
  int processes = 2;
  bool quick = false;
  bool tcp = false;
  bool plain = false;
  int links = 1;
  std::vector<std::string> networks;
};

double significant(double value) {  // four digits are enough
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return std::strtod(text, nullptr);
}

nlohmann::json summary(const char* name, std::vector<double> values, const char* unit) {
  std::sort(values.begin(), values.end());
  const auto pick = [&](double q) {
    return significant(values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))]);
  };
  return {{"name", name},     {"unit", unit},   {"median", pick(0.5)}, {"p10", pick(0.1)},
          {"p90", pick(0.9)}, {"min", pick(0)}, {"max", pick(1)},      {"n", values.size()}};
}

void print(const nlohmann::json& line) {
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

constexpr int kUntimed = 5;

std::vector<double> time_each(int count, const std::function<void()>& body) {
  for (int i = 0; i < kUntimed; ++i) body();
  std::vector<double> milliseconds;
  for (int i = 0; i < count; ++i) {
    const TimePoint start = Monotonic::now();
    body();
    milliseconds.push_back(seconds_since(start) * 1e3);
  }
  return milliseconds;
}

// By all interfaces of this thread's network namespace but the loopback one.
double bytes_sent() {
  double sum = 0;
  for (const std::string& line : split(read_file("/proc/thread-self/net/dev", 1 << 20), '\n')) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.substr(0, colon).ends_with(" lo")) continue;
    std::istringstream numbers(line.substr(colon + 1));
    double value = 0;
    for (int column = 0; column < 9; ++column) numbers >> value;  // eight of what was received
    sum += value;
  }
  return sum;
}

void measure(Communicator& group, const Options& options) {
  const bool first = group.rank() == 0;
  const struct {
    size_t bytes;
    int count;
  } sizes[] = {{4 << 10, 2000}, {1 << 20, 300}, {25 << 20, 40}, {100 << 20, 15}};
  const char* transport = !options.tcp ? "shared memory" : options.plain ? "tcp" : "tcp, encrypted";
  for (const auto& [size, count] : sizes) {
    const size_t bytes = size;
    const int times = options.quick ? std::max(3, count / 20) : count;
    std::vector<float> data(bytes / sizeof(float), 1.0f), copy(data.size(), 0.0f);
    group.barrier();
    const auto copying = time_each(times, [&] {
      std::memcpy(copy.data(), data.data(), bytes);
      asm volatile("" ::"r"(copy.data()) : "memory");  // keep the copy
    });
    group.barrier();
    const double sent_before = bytes_sent();
    const auto reducing = time_each(
        times, [&] { group.all_reduce(data.data(), data.size(), Type::f32, Op::average); });
    const double sent = bytes_sent() - sent_before;
    if (!first) continue;
    auto line = summary("allreduce", reducing, "ms");
    const auto plain = summary("memcpy", copying, "ms");
    line["bytes"] = bytes;
    line["processes"] = group.size();
    line["transport"] = transport;
    if (!options.networks.empty()) {
      const double n = group.size(), least = 2 * (n - 1) / n * static_cast<double>(bytes);
      line["sent_fraction"] = significant(sent / (least * (times + kUntimed)));
    }
    line["memcpy_ms"] = plain["median"];
    line["memcpy_fraction"] =
        significant(plain["median"].get<double>() / line["median"].get<double>());
    print(line);
  }
  struct Short {
    char bytes[64] = {};
  } mine;
  const int times = options.quick ? 200 : 5000;
  const auto small = [&](const char* name, const std::function<void()>& body) {
    group.barrier();
    const auto times_ms = time_each(times, body);
    if (!first) return;
    auto line = summary(name, times_ms, "ms");
    line["processes"] = group.size();
    line["transport"] = transport;
    print(line);
  };
  small("allgather_64", [&] { all_gather_values(group, mine); });
  small("barrier", [&] { group.barrier(); });
  std::vector<char> state(100 << 20, 1);
  const auto sending =
      time_each(options.quick ? 3 : 15, [&] { group.broadcast(state.data(), state.size(), 0); });
  if (first) {
    auto line = summary("broadcast", sending, "ms");
    line["bytes"] = state.size();
    line["processes"] = group.size();
    line["transport"] = transport;
    print(line);
  }
}

void member(int rank, const Options& options, const std::vector<int>& from,
            const std::vector<int>& to) {
  ListenerOptions listening;
  listening.tcp = options.tcp;
  listening.encrypt = !options.plain;
  if (!options.networks.empty()) {
    const Fd network = open_file(options.networks[static_cast<size_t>(rank)], O_RDONLY | O_CLOEXEC);
    if (setns(network.get(), CLONE_NEWNET) != 0) fail_errno(errno, "setns");
  } else if (options.tcp) {
    listening.reach.interface = "lo";
  }
  if (options.tcp) listening.host = fmt::format("host {}", rank);
  Listener listener("a secret of sixteen bytes", listening);
  // Each process sends its endpoint to the parent, which sends all endpoints to all.
  const std::string mine = listener.endpoint().dump() + "\n";
  if (::write(to[1], mine.data(), mine.size()) < 0) fail("cannot write to the parent");
  std::string all;
  char byte;
  while (::read(from[0], &byte, 1) == 1 && byte != '\n') all += byte;
  const auto list = nlohmann::json::parse(all);
  const std::vector<nlohmann::json> endpoints(list.begin(), list.end());
  const TimePoint start = Monotonic::now();
  const auto group = connect(listener, {.generation = 1,
                                        .rank = rank,
                                        .endpoints = endpoints,
                                        .deadline = Monotonic::now() + std::chrono::seconds(30),
                                        .links = options.links});
  if (rank == 0) {
    auto line = summary("connect", {seconds_since(start) * 1e3}, "ms");
    line["processes"] = group->size();
    print(line);
  }
  measure(*group, options);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--quick") {
      options.quick = true;
    } else if (argument == "--tcp") {
      options.tcp = true;
    } else if (argument == "--plain") {
      options.plain = true;
    } else if (argument == "--networks" && i + 1 < argc) {
      options.networks = split(argv[++i], ',');
      options.processes = static_cast<int>(options.networks.size());
      options.tcp = true;
    } else if (argument == "--processes" && i + 1 < argc) {
      const std::string_view value = argv[++i];
      std::from_chars(value.data(), value.data() + value.size(), options.processes);
    } else if (argument == "--links" && i + 1 < argc) {
      const std::string_view value = argv[++i];
      std::from_chars(value.data(), value.data() + value.size(), options.links);
    } else {
      fail(
          "usage: bench_allreduce [--processes N] [--quick] [--tcp [--plain]] [--links N] "
          "[--networks ...]");
    }
  }
  if (options.processes < 2 || options.processes > 64) fail("--processes: 2 to 64");
  return options;
}

int run(const Options& options) {
  std::vector<std::vector<int>> to_child, to_parent;
  std::vector<pid_t> children;
  for (int rank = 0; rank < options.processes; ++rank) {
    std::vector<int> down(2), up(2);
    if (pipe(down.data()) != 0 || pipe(up.data()) != 0) fail("cannot make pipes");
    const pid_t child = fork();
    if (child == 0) {
      int code = 0;
      try {
        member(rank, options, down, up);
      } catch (const std::exception& e) {
        std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
        code = 1;
      }
      std::fflush(nullptr);
      _exit(code);
    }
    children.push_back(child);
    to_child.push_back(down);
    to_parent.push_back(up);
  }
  nlohmann::json endpoints = nlohmann::json::array();
  for (const auto& pipe : to_parent) {
    std::string line;
    char byte;
    while (::read(pipe[0], &byte, 1) == 1 && byte != '\n') line += byte;
    endpoints.push_back(nlohmann::json::parse(line));
  }
  const std::string all = endpoints.dump() + "\n";
  for (const auto& pipe : to_child) {
    if (::write(pipe[1], all.data(), all.size()) < 0) fail("cannot write to a child");
  }
  int code = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) code = 1;
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_allreduce: %s\n", e.what());
    return 1;
  }
}
