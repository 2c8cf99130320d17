#include "core/launch/hosts/host_check.h"

#include <algorithm>
#include <fmt/format.h>
#include <memory>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/pipe.h"
#include "core/formats/json.h"
#include "core/launch/hosts/meeting_point.h"
#include "core/launch/hosts/ssh_client.h"

namespace adaptdl::launch {
namespace {

constexpr std::chrono::seconds kProbeStartPatience{30}, kMeasurePatience{60};
constexpr std::chrono::seconds kProbeEndPatience{1};
constexpr size_t kProbeKeyBytes = 32;

// The probe on one host. It ends with its standard input.
class Probe {
 public:
  Probe(const SshClient& ssh, const std::string& host) {
    Pipe in, out;
    SpawnOptions options =
        is_this_machine(host)
            ? SpawnOptions{.argv = {"adaptdl", "__probe"}, .path = "/proc/self/exe"}
            : ssh.command(host, ssh.binary_folder() + "; exec \"$d/adaptdl\" __probe");
    options.new_process_group = true;
    options.descriptors = {{in.reader.get(), 0}, {out.writer.get(), 1}};
    child_ = spawn(options);
    in_ = std::move(in.writer);
    out_ = std::move(out.reader);
  }

  Json ask(const Json& question, std::chrono::seconds patience) {
    const TimePoint deadline = Monotonic::now() + patience;
    try {
      write_all(in_.get(), dump_json(question) + "\n", "the probe");
    } catch (const Error&) {
      fail_as_ended();
    }
    // A shell's start files may have said something.
    for (std::string line;;) {
      auto more = read_line(out_.get(), rest_, deadline);
      if (!more) {
        if (Monotonic::now() < deadline) fail_as_ended();
        fail("no answer within {} s", patience.count());
      }
      if (!more->starts_with("{")) continue;
      Json answer = parse_json(*more, "the probe's answer");
      if (answer.contains("error")) fail("{}", json_get<std::string>(answer, "error", "answer"));
      return answer;
    }
  }

 private:
  // It has closed its input or output, and ends, perhaps a moment later.
  [[noreturn]] void fail_as_ended() {
    const auto status = child_.wait_until(Monotonic::now() + kProbeEndPatience);
    if (!status) fail("adaptdl there ends without an answer");
    fail("adaptdl does not run there: {}", status->describe());
  }

  Child child_;
  Fd in_, out_;
  std::string rest_;
};

struct Host {
  std::unique_ptr<Probe> probe;
  Json addresses;
};

LinkMeasure measure(Host& from, const Host& to, const HostCheckOptions& options) {
  const Json answer = from.probe->ask(
      {{"measure", to.addresses}, {"time_s", options.time.count()}, {"connections", options.links}},
      kMeasurePatience);
  return {.addresses = addresses_in(json_get<Json>(answer, "addresses", "answer")),
          .latency_s = json_get<double>(answer, "latency_s", "answer"),
          .bytes_per_s = json_get<double>(answer, "bytes_per_s", "answer")};
}

Host begin(const SshClient& ssh, const std::string& name, const Json& settings,
           const std::function<void(const std::string&)>& talk) {
  if (!is_this_machine(name)) {
    ssh.bring_binary(name, [&] { talk(name + ": copying adaptdl to it"); });
  }
  Host host;
  host.probe = std::make_unique<Probe>(ssh, name);
  host.addresses =
      json_get<Json>(host.probe->ask(settings, kProbeStartPatience), "addresses", "answer");
  return host;
}

}  // namespace

HostCheck check_hosts(const HostCheckOptions& options,
                      const std::function<void(const std::string&)>& talk) {
  const SshClient ssh(options.ssh);
  const Json settings = {{"key", to_hex(random_bytes(kProbeKeyBytes))},
                         {"interface", options.reach.interface},
                         {"first_port", options.reach.ports.first},
                         {"last_port", options.reach.ports.last}};
  HostCheck check{.connections = options.links};
  std::vector<Host> hosts;
  for (const std::string& name : options.hosts) {
    check.problems.emplace_back();
    try {
      hosts.push_back(begin(ssh, name, settings, talk));
    } catch (const Error& error) {
      hosts.emplace_back();
      check.problems.back() = error.what();
    }
  }
  for (size_t from = 0; from < hosts.size(); ++from) {
    for (size_t to = 0; to < hosts.size(); ++to) {
      if (from == to || !hosts[from].probe || !hosts[to].probe) continue;
      CheckedLink link{.from = from, .to = to};
      try {
        link.measure = measure(hosts[from], hosts[to], options);
      } catch (const Error& error) {
        link.problem = error.what();
      }
      check.links.push_back(std::move(link));
    }
  }
  for (CheckedLink& link : check.links) {
    for (const CheckedLink& other : check.links) {
      const bool back = other.from == link.to && other.to == link.from;
      if (back && other.measure) link.bytes_per_s = other.measure->bytes_per_s;
    }
  }
  return check;
}

bool all_reach(const HostCheck& check) {
  return std::ranges::all_of(check.problems, &std::string::empty) &&
         std::ranges::all_of(check.links, [](const CheckedLink& link) { return !!link.measure; });
}

const CheckedLink* slowest(const HostCheck& check) {
  const CheckedLink* found = nullptr;
  for (const CheckedLink& link : check.links) {
    if (!link.bytes_per_s) continue;
    if (found == nullptr || *link.bytes_per_s < *found->bytes_per_s) found = &link;
  }
  return found;
}

double all_reduce_bound_s(double bytes, int hosts, double bytes_per_s) {
  return 2.0 * (hosts - 1) / hosts * bytes / bytes_per_s;
}

}  // namespace adaptdl::launch
