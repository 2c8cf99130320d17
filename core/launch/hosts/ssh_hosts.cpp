#include "core/launch/hosts/ssh_hosts.h"

#include <atomic>
#include <condition_variable>
#include <fcntl.h>
#include <fmt/ranges.h>
#include <mutex>
#include <set>
#include <signal.h>
#include <thread>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/pipe.h"
#include "core/base/poll.h"
#include "core/base/process.h"
#include "core/base/text.h"
#include "core/launch/hosts/agent.h"
#include "core/launch/hosts/agent_link.h"
#include "core/launch/hosts/program_print.h"
#include "core/launch/hosts/ssh_client.h"
#include "core/launch/io/replica_console.h"

namespace adaptdl::launch {
namespace {

constexpr auto kRunEndPatience = std::chrono::seconds(15);
constexpr std::chrono::seconds kFirstPause{1}, kLongestPause{60};
// Of a host that was in the run, and whose agent fails: until somebody has mended what is wrong.
constexpr std::chrono::seconds kLongestPauseOfFailed{300};
constexpr Seconds kReadProgram{600};  // for a host to read it once, at most
// Agents learn of the end of their run sooner than we do.
constexpr std::chrono::seconds kEndOfRun{3};

}  // namespace

std::vector<SshHost> parse_ssh_hosts(const std::string& text, int slots) {
  std::vector<SshHost> hosts;
  std::set<std::string> names;
  for (const std::string& given : split(text, ',')) {
    const std::string part(trimmed(given));
    // ssh takes an IPv6 address without the brackets that keep it apart from the number.
    const size_t open = part.find('['), close = part.find(']');
    const bool is_six = open != std::string::npos && close != std::string::npos && open < close &&
                        (open == 0 || part[open - 1] == '@');
    const size_t colon = part.find(':', is_six ? close : 0);
    const size_t end = is_six ? close + 1 : std::min(colon, part.size());
    SshHost host{part.substr(0, end), slots};
    if (is_six) host.name.erase(close, 1).erase(open, 1);
    if (end < part.size()) {
      const auto number =
          colon == end ? try_parse<int>(part.substr(colon + 1)) : std::optional<int>();
      host.slots = number.value_or(0);
    }
    // A name with a dash would be a flag of ssh.
    if (host.name.empty() || host.name.starts_with('-') || host.slots < 1 ||
        host.slots > kMostSlotsOfHost) {
      throw UsageError(
          fmt::format("--hosts: {} is not HOST or HOST:REPLICAS, such as node1:4 or [fd00::1]:4.",
                      part.empty() ? "''" : part));
    }
    if (!names.insert(host.name).second) {
      throw UsageError(fmt::format("--hosts: {} comes twice.", host.name));
    }
    hosts.push_back(std::move(host));
  }
  return hosts;
}

struct SshHosts::Impl {
  struct Remote {
    SshHost host;
    bool ready = false;
    bool was_in = false;      // the run
    bool has_failed = false;  // the run, says its agent
  };

  Impl(SshHostsOptions given, Talk the_talk)
      : options(std::move(given)),
        talk_to(std::move(the_talk)),
        client(options.ssh),
        print(program_print(options.program)) {
    for (const SshHost& host : options.hosts) remotes.push_back({host});
    std::vector<std::jthread> preparing;
    for (Remote& remote : remotes) preparing.emplace_back([this, &remote] { try_prepare(remote); });
  }

  void say(const Remote& remote, const std::string& text) const {
    talk_to(fmt::format("{}: {}", remote.host.name, text));
  }

  bool try_prepare(Remote& remote) {
    try {
      prepare(remote);
      remote.ready = true;
    } catch (const Error& error) {
      say(remote, error.what());
    }
    return remote.ready;
  }

  void prepare(const Remote& remote) {
    client.bring_binary(remote.host.name, [&] { say(remote, "copying adaptdl to it"); });
    const std::string there = ask_of_program(
        remote,
        fmt::format("if test ! -e \"$f\"; then echo no-program; "
                    "elif ! command -v sha256sum > /dev/null; then :; "  // the agent is told
                    "else p=$(tell); test \"$p\" = '{} {} -' || "
                    "if grep -qxF -e \"$p\" \"$n\" 2> /dev/null; then echo old-program; "
                    "else echo other-program; fi; fi",
                    print.bytes, print.digest));
    const auto is = [&](const char* word) { return there.find(word) != std::string::npos; };
    if (is("other-program")) {
      fail(
          "{} there differs, and adaptdl has not copied it there. Replace it, or remove it: `{} "
          "{} {}`",
          options.program, fmt::join(options.ssh, " "), remote.host.name,
          shell_quoted("rm -- " + shell_quoted(options.program)));
    }
    if (is("no-program") || is("old-program")) bring_program(remote);
  }

  void bring_program(const Remote& remote) {
    if (program_print(options.program) != print) {
      fail(
          "cannot copy {} to it: it has changed since the run was started; end the run and start "
          "it anew",
          options.program);
    }
    say(remote, fmt::format("copying {} to it", options.program));
    client.put(remote.host.name, options.program, program_names());
    // Hosts may share the note. Without one, it counts as the user's own.
    ask_of_program(remote, R"(mkdir -p "${n%/*}" && tell >> "$n" || :)");
  }

  // For scripts: assigns $f, the program, $d, its folder, and $n, the note of what an adaptdl has
  // copied there, by which a later one knows what it may replace.
  std::string program_names() const {
    return fmt::format("f={}; d={}; n=${{XDG_CACHE_HOME:-$HOME/.cache}}/adaptdl/programs/{}",
                       shell_quoted(options.program),
                       shell_quoted(parent_directory(options.program)),
                       to_hex(sha256(bytes_of(options.program))));
  }

  // Runs a script that may call `tell`, which writes what ProgramPrint has of $f.
  std::string ask_of_program(const Remote& remote, const std::string& script) const {
    const Fd null = open_file("/dev/null", O_RDONLY);
    const std::string read = print.whole ? "cat" : fmt::format("tail -c {}", kPrintedTail);
    return client.ask(
        remote.host.name,
        fmt::format("{}; tell() {{ echo $(wc -c < \"$f\") $({} < \"$f\" | sha256sum); }}; {}",
                    program_names(), read, script),
        null.get(), kReadProgram);
  }

  // ---- the agents

  std::string agent_script(const Remote& remote) const {
    std::string script = "exec 2>&1; ";
    if (options.address.empty()) {
      script += R"(a=${SSH_CONNECTION%% *}; case $a in *:*) a="[$a]";; esac; )";
    } else {
      const bool is_six = options.address.find(':') != std::string::npos;
      script += fmt::format("a={}; ",
                            shell_quoted(is_six ? "[" + options.address + "]" : options.address));
    }
    if (!options.directory.empty()) {
      const std::string folder = shell_quoted(options.directory);
      script += fmt::format("test ! -d {} || cd {}; ", folder, folder);
    }
    for (const auto& [name, value] : options.environment) {
      script +=
          fmt::format("test -n \"${{{}+set}}\" || export {}={}; ", name, name, shell_quoted(value));
    }
    if (!options.libtorch.empty()) {
      const std::string folder = shell_quoted(options.libtorch);
      script += fmt::format("test ! -d {} || export ADAPTDL_LIBTORCH={}; ", folder, folder);
    }
    if (!options.worker.empty()) {
      script += fmt::format("export ADAPTDL_WORKER={}; ", shell_quoted(options.worker));
    }
    script += fmt::format(
        "{}; exec \"$d/adaptdl\" run {} --nnodes 1:{} --rdzv-endpoint \"$a:{}\" --node-rank 1 "
        "--rdzv-key - --replicas {}",
        client.binary_folder(), shell_quoted(options.program), kMostHosts, options.port,
        remote.host.slots);
    for (const std::string& argument : options.arguments) script += " " + shell_quoted(argument);
    return script;
  }

  // One life of a host's agent; returns how it ended.
  ExitStatus live(Remote& remote) {
    Pipe leash, output;
    SpawnOptions spawned = client.command(remote.host.name, agent_script(remote));
    spawned.descriptors = {
        {leash.reader.get(), 0}, {output.writer.get(), 1}, {output.writer.get(), 2}};
    Child child = spawn(spawned);
    output.writer.reset();
    write_all(leash.writer.get(), options.key + "\n", remote.host.name);  // fits into any pipe
    LineSplitter lines;
    std::optional<TimePoint> end_by;
    for (bool open = true; open;) {
      if (!end_by && stops_within({})) {
        leash.writer.reset();  // an agent whose run has ended is gone already
        end_by = Monotonic::now() + kRunEndPatience;
      }
      if (end_by && Monotonic::now() >= *end_by) {
        child.send_signal(SIGKILL);
        break;
      }
      std::vector<pollfd> waits{{output.reader.get(), POLLIN, 0},
                                {stopped.reader.get(), POLLIN, 0}};
      if (end_by) waits.pop_back();
      poll_until(waits, end_by.value_or(TimePoint::max()));
      if (waits.front().revents == 0) continue;
      char bytes[4096];
      const ssize_t n = ::read(output.reader.get(), bytes, sizeof bytes);
      open = n > 0;
      const std::string_view come(bytes, open ? static_cast<size_t>(n) : 0);
      for (const std::string& line : split(lines.take(come, ""), '\n')) {
        if (line.find(kJoinedRun) != std::string::npos) remote.was_in = true;
        if (line.find(kRunHasFailed) != std::string::npos) remote.has_failed = true;
        if (!line.empty()) say(remote, without_controls(line));
      }
    }
    return child.wait();
  }

  void keep(Remote& remote) {
    auto pause = kFirstPause;
    while (!stops_within({})) {
      const TimePoint begun = Monotonic::now();
      auto longest = kLongestPause;
      if (remote.ready || try_prepare(remote)) {
        const ExitStatus status = live(remote);
        // It was told that the run has finished; we may be told so much later, when all that read
        // the run's output have had it.
        if (status.success() || remote.has_failed) return;
        if (stops_within(kEndOfRun)) return;
        const bool ssh_failed = !status.signaled && status.value == kSshFailed;
        if (!ssh_failed && !status.signaled && status.value < 128) {
          // The agent, or the shell, has said why. The others go on without a host that was lost,
          // whatever keeps it from coming again: an empty disk, for example.
          if (!remote.was_in) return give_up(remote, status);
          remote.ready = false;
          longest = kLongestPauseOfFailed;
        }
        say(remote,
            fmt::format("{}; trying again",
                        ssh_failed ? "was killed, or the connection is lost" : status.describe()));
      }
      if (Monotonic::now() - begun > kLongestPause) pause = kFirstPause;
      if (stops_within(pause)) return;
      pause = std::min(2 * pause, longest);
    }
  }

  void give_up(const Remote& remote, const ExitStatus& status) {
    say(remote, fmt::format("does not take part in the run ({})", status.describe()));
    // Hosts that were in the run are never given up: one that has begun does not end here.
    if (--left < least) lost();
  }

  bool stops_within(std::chrono::seconds time) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, time, [this] { return stop; });
  }

  const SshHostsOptions options;
  const Talk talk_to;
  const SshClient client;
  const ProgramPrint print;
  std::vector<Remote> remotes;
  Pipe stopped;  // its writer is closed then
  std::mutex mutex;
  std::condition_variable changed;
  bool stop = false;
  std::atomic<int> left{0};
  int least = 0;
  std::function<void()> lost;
  std::vector<std::jthread> keepers;  // last: it ends first
};

SshHosts::SshHosts(SshHostsOptions options, Talk talk)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(talk))) {}

SshHosts::~SshHosts() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->changed.notify_all();
  impl_->stopped.writer.reset();
}

int SshHosts::ready() const {
  int count = 0;
  for (const auto& remote : impl_->remotes) count += remote.ready ? 1 : 0;
  return count;
}

void SshHosts::start(int least, std::function<void()> lost) {
  impl_->least = least;
  impl_->lost = std::move(lost);
  impl_->left = static_cast<int>(impl_->remotes.size());
  for (auto& remote : impl_->remotes) {
    impl_->keepers.emplace_back([this, &remote] {
      try {
        impl_->keep(remote);
      } catch (const Error& error) {
        impl_->say(remote, error.what());
      }
    });
  }
}

}  // namespace adaptdl::launch
