#include "cli/commands/run_hosts.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <signal.h>
#include <unistd.h>

#include "cli/commands/run_reach.h"
#include "core/base/crypto.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/process.h"
#include "core/base/system.h"
#include "core/base/text.h"
#include "core/base/version.h"
#include "core/job/replica_range.h"
#include "core/job/worker_environment.h"
#include "core/launch/hosts/meeting_point.h"
#include "core/launch/hosts/parallel_task.h"
#include "core/launch/hosts/program_print.h"
#include "core/launch/hosts/roster_file.h"
#include "core/launch/hosts/ssh_client.h"
#include "core/launch/hosts/successor.h"
#include "core/launch/run/run_folder.h"
#include "core/net/tcp.h"

namespace adaptdl::cli {
namespace {

constexpr size_t kShownTerm = 60;  // bytes
constexpr size_t kDigits = 12;
constexpr size_t kLongestKey = 4096;
constexpr Seconds kPatience{120};  // with a launcher that nobody starts again

// What people set for all hosts of a run, as names that a shell takes.
bool goes_to_other_hosts(std::string_view name) {
  return (name.starts_with("NCCL_") || name == kAcceleratorVariable) &&
         std::ranges::all_of(name,
                             [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

std::vector<std::pair<std::string, std::string>> environment_for_others() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (const std::string& entry : environment_with({})) {
    const size_t end = std::min(entry.find('='), entry.size() - 1);
    const std::string name = entry.substr(0, end);
    if (goes_to_other_hosts(name)) variables.emplace_back(name, entry.substr(end + 1));
  }
  return variables;
}

std::string digest(const std::string& text) {
  return to_hex(sha256(bytes_of(text))).substr(0, kDigits);
}

std::string fingerprint(const std::string& path) {
  const launch::ProgramPrint print = launch::program_print(path);
  return fmt::format("{} bytes, digest {}", print.bytes, print.digest.substr(0, kDigits));
}

std::string listed(const std::vector<std::string>& words) {
  const std::string all = fmt::format("{}", fmt::join(words, " "));
  return all.size() <= kShownTerm ? all
                                  : fmt::format("{} words, digest {}", words.size(), digest(all));
}

std::map<std::string, std::string> terms_of(const launch::RunOptions& options) {
  return {{"version of adaptdl", version()},
          {"program", fingerprint(options.program)},
          {"list of --set", listed(options.settings)},
          {"list of arguments", listed(options.arguments)},
          {"device", options.gpus > 0 ? "gpu" : "cpu"},
          {"--links", std::to_string(options.links)},
          {"--plain-links", options.plain_links ? "given" : "absent"}};
}

std::map<std::string, std::string> terms_of(const launch::CommandOptions& options) {
  std::vector<std::string> words{options.program};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  return {{"version of adaptdl", version()},
          {"command", listed(words)},
          {"device", options.gpus > 0 ? "gpu" : "cpu"}};
}

// torchrun has other flags for it, too.
std::string endpoint_of(const Arguments& arguments) {
  const std::string endpoint = arguments.text("rdzv-endpoint");
  if (!endpoint.empty()) return endpoint;
  const std::string host = arguments.text("master-addr");
  if (!meet_at_master_port(arguments)) return host;
  const bool bare_six = !host.starts_with('[') && host.find(':') != host.npos;
  return fmt::format("{}:{}", bare_six ? "[" + host + "]" : host, arguments.text("master-port"));
}

Seconds silence_of(const Arguments& arguments) {
  return Seconds(static_cast<double>(arguments.integer("host-timeout")));
}

std::string line_of(int fd) {
  std::string line;
  for (char c = 0; ::read(fd, &c, 1) == 1 && c != '\n' && line.size() < kLongestKey;) line += c;
  return line;
}

ReplicaRange nodes_of(const Arguments& arguments, const std::optional<launch::ParallelTask>& task) {
  const bool alone = arguments.flag("standalone");
  if (task && !alone && !arguments.given("nnodes")) return {task->count, task->count};
  const std::string text = arguments.text("nnodes");
  ReplicaRange nodes;
  try {
    nodes = parse_replica_range(text, "--nnodes", {.least = 1, .most = launch::kMostHosts});
  } catch (const Error&) {
    throw UsageError(fmt::format("--nnodes: {} is not N or MIN:MAX, of 1 to {} hosts.",
                                 text.empty() ? "''" : text, launch::kMostHosts));
  }
  if (alone && (arguments.given("hosts") || *nodes.max > 1)) {
    throw UsageError(fmt::format("--standalone: on this host only; remove it or --{}.",
                                 arguments.given("hosts") ? "hosts" : "nnodes"));
  }
  return nodes;
}

// A port that is taken is probably this run's: its hosts may be processes on one machine.
bool leads(const Arguments& arguments, const launch::LauncherAddress& at,
           launch::HostsOptions& hosts, const launch::Talk& talk) {
  const bool told = arguments.given("node-rank");
  if (told ? arguments.integer("node-rank") != 0 : !launch::is_this_machine(at.host)) return false;
  try {
    hosts.listener = std::make_shared<Fd>(listen_tcp(at.port));
  } catch (const Error&) {
    if (told) throw;
    talk(
        fmt::format("port {} of this host is taken, so this command joins the run there", at.port));
    return false;
  }
  return true;
}

// At a port of --ports, or any.
std::shared_ptr<Fd> listener_of(const Reach& reach) {
  TcpAddress here{listening_address(reach), 0, ""};
  return std::make_shared<Fd>(listen_tcp(here, reach.ports));
}

// Once this process leads, the others find it by the folder.
void announce_in_folder(const HostOfRun& host, const Reach& reach, launch::HostsOptions& hosts) {
  hosts.announce = [folder = host.folder, reach, port = port_of(hosts.listener->get())] {
    folder->lead(reached_at(reach), port);
  };
}

void meet_in_folder(const Arguments& arguments, const launch::RunOptions& options,
                    const std::optional<launch::ParallelTask>& task, HostOfRun& host,
                    launch::HostsOptions& hosts) {
  if (!task && !arguments.given("node-rank")) {
    throw UsageError(
        "--nnodes: needs --rdzv-endpoint HOST[:PORT], the host that leads the run, by a name or "
        "address that the others reach; or --node-rank, and a --checkpoint-dir that all share.");
  }
  if (arguments.given("rdzv-key")) {
    throw UsageError(
        "--rdzv-key: without --rdzv-endpoint the hosts find a key in the --checkpoint-dir.");
  }
  host.folder =
      std::make_shared<launch::FolderMeeting>(options.checkpoint_dir, task ? task->start : "");
  hosts.secret = host.folder->key();
  host.leads = (arguments.given("node-rank") ? arguments.integer("node-rank") : task->rank) == 0;
  if (task) host.patience = kPatience;
  if (!host.leads) return;
  host.folder->begin();
  hosts.listener = listener_of(options.reach);
  announce_in_folder(host, options.reach, hosts);
}

void meet_at(const std::string& endpoint, const Arguments& arguments, HostOfRun& host,
             launch::HostsOptions& hosts, const launch::Talk& talk) {
  host.meeting_point = launch::parse_meeting_point(endpoint);
  const std::string file = arguments.text("rdzv-key");
  if (file == "-") {
    hosts.secret = line_of(STDIN_FILENO);
    launch::check_host_key(hosts.secret, "standard input");
    host.leash = STDIN_FILENO;
  } else {
    host.key_file = file.empty() ? launch::default_key_file() : absolute_path(file);
    const bool known = path_exists(host.key_file);
    hosts.secret = launch::host_key(host.key_file);
    if (!known) {
      talk(fmt::format("made the key {}; every host of a run needs a copy of it", host.key_file));
    }
  }
}

// Another host may lead since the one at the endpoint was lost: as long as it has the folder's
// lock.
std::optional<launch::LauncherAddress> successor_of(const HostOfRun& host) {
  if (!host.successor || !launch::is_locked(host.successor->folder())) return std::nullopt;
  try {
    return host.successor->find();
  } catch (const Error&) {
    return std::nullopt;  // the endpoint's host has the lock
  }
}

// Those that this host, the named one, was with may go on without it, or be about to.
launch::Search leader_of_known(const launch::Roster& known, const launch::RunOptions& options,
                               const launch::HostsOptions& hosts, const launch::Talk& talk) {
  return launch::leader_among(launch::others_of(known),
                              launch::agent_key(hosts.secret, options.name),
                              launch::patience_with(known, hosts.silence + kElection), talk);
}

// The host of the endpoint may come again.
void find_successor(const Arguments& arguments, launch::RunOptions& options, HostOfRun& host,
                    launch::HostsOptions& hosts, const launch::Talk& talk) {
  const std::string& checkpoint_dir = options.checkpoint_dir;
  if (!path_exists(checkpoint_dir)) return;
  host.successor = std::make_shared<launch::FolderMeeting>(checkpoint_dir, "");
  if (!host.leads) return;
  const auto join = [&](const launch::LauncherAddress& at) {
    talk(fmt::format("{} port {} leads this run now, so this host joins it", at.host, at.port));
    host.leads = false;
    hosts.listener.reset();
  };
  if (const auto at = successor_of(host)) {
    join(*at);
    host.named = true;
    return;
  }
  const launch::RosterFile file(checkpoint_dir);
  if (const auto known = file.read(); known && !launch::others_of(*known).empty()) {
    // Meanwhile they must not take this host for one that is about to lead.
    hosts.listener.reset();
    const launch::Search search = leader_of_known(*known, options, hosts, talk);
    if (search.leader) {
      join(*search.leader);
      host.named = known->shared;
      if (!known->shared) host.meeting_point = *search.leader;
      return;
    }
    options.comes_again = launch::may_have_gone_on(*known, search.gone);
    if (!known->shared && options.comes_again->hosts.empty()) file.forget();
    host.leads = leads(arguments, host.meeting_point, hosts, talk);
  }
  if (!launch::is_locked(checkpoint_dir)) host.successor->forget();  // of an earlier run
}

// The agent of this host trains here; this process only leads. Who comes late finds it by the
// checkpoint folder, if all share it.
void succeed(launch::Successor lost, const std::optional<launch::ParallelTask>& task,
             HostOfRun& host, launch::RunOptions& options, launch::HostsOptions& hosts) {
  host.leads = true;
  hosts.slots = 0;
  hosts.least = 1;
  hosts.secret = std::move(lost.secret);
  hosts.listener = std::make_shared<Fd>(std::move(lost.listener));
  const bool shared = lost.roster.shared;
  options.succeeds = std::move(lost.roster);
  options.fresh = false;
  if (!shared) return;
  host.folder =
      std::make_shared<launch::FolderMeeting>(options.checkpoint_dir, task ? task->start : "");
  announce_in_folder(host, options.reach, hosts);
}

// Nobody but the agents that we start knows the key, or needs to.
void lead_by_ssh(const Arguments& arguments, const Reach& reach, HostOfRun& host,
                 launch::HostsOptions& hosts) {
  for (const char* flag : {"node-rank", "rdzv-key"}) {
    if (!arguments.given(flag)) continue;
    throw UsageError(fmt::format("--{}: not with --hosts, which starts all hosts itself.", flag));
  }
  host.others = launch::parse_ssh_hosts(arguments.text("hosts"), hosts.slots);
  if (!arguments.given("nnodes")) hosts.least = hosts.most = static_cast<int>(host.others.size());
  const auto own = std::ranges::find_if(
      host.others, [](const launch::SshHost& each) { return launch::is_this_machine(each.name); });
  if (own == host.others.end()) {
    throw UsageError(
        "--hosts: this machine leads the run and must be one of them, as localhost for example; "
        "or type the command on one of them.");
  }
  hosts.slots = own->slots;
  host.others.erase(own);
  hosts.secret = to_hex(random_bytes(32));
  if (arguments.given("rdzv-endpoint")) {
    host.meeting_point = launch::parse_meeting_point(arguments.text("rdzv-endpoint"));
    hosts.listener = std::make_shared<Fd>(listen_tcp(host.meeting_point.port));
  } else {
    hosts.listener = listener_of(reach);
    const bool told = !reach.interface.empty() || !reach.advertise.empty();
    if (told) host.meeting_point.host = reached_at(reach).front().address;
  }
  host.leads = true;
}

// Whoever leads has the lock of the checkpoint folder. Hosts that have just lost their launcher may
// need a while to notice, and to agree on another one.
class LockWatch {
 public:
  explicit LockWatch(const launch::RunOptions& options)
      : folder_(options.checkpoint_dir), patience_(options.hosts->silence + kElection) {}

  // Call one of these repeatedly while there is no launcher. check() throws NobodyLeads.
  void found() { free_since_.reset(); }
  void check() {
    const TimePoint now = Monotonic::now();
    if (launch::is_locked(folder_)) return found();
    if (!free_since_) free_since_ = now;
    if (now - *free_since_ > patience_) throw launch::NobodyLeads("nobody leads the run");
  }

 private:
  const std::string folder_;
  const Seconds patience_;
  std::optional<TimePoint> free_since_;
};

// At the port of the meeting point, which firewalls let in, if it is free here. None: there is no
// port for it.
std::shared_ptr<Fd> listener_to_lead(uint16_t port, const launch::RunOptions& options) {
  const PortRange& ports = options.reach.ports;
  TcpAddress here{listening_address(options.reach), port, ""};
  try {
    if (port != 0) return std::make_shared<Fd>(listen_tcp(here));
  } catch (const Error&) {
    // another process of this host has it
  }
  if (!ports.any() && ports.count() <= options.hosts->slots) return nullptr;
  return listener_of(options.reach);
}

}  // namespace

bool meet_at_master_port(const Arguments& arguments) {
  const std::string host = arguments.text("master-addr"), port = arguments.text("master-port");
  // An IPv6 address without brackets has several colons.
  const bool has_port =
      host.starts_with('[') ? !host.ends_with(']') : std::ranges::count(host, ':') == 1;
  return arguments.text("rdzv-endpoint").empty() && !host.empty() && !has_port && !port.empty() &&
         port != "0";
}

bool on_several_hosts(const Arguments& arguments) {
  const ReplicaRange nodes = nodes_of(arguments, launch::parallel_task());
  return arguments.given("hosts") || *nodes.max > 1;
}

namespace {

std::optional<HostOfRun> host_of(const Arguments& arguments, launch::RunOptions& options,
                                 const launch::CommandOptions* command, const launch::Talk& talk) {
  const auto task = launch::parallel_task();
  const ReplicaRange nodes = nodes_of(arguments, task);
  if (!on_several_hosts(arguments)) {
    for (const char* flag : {"rdzv-endpoint", "node-rank", "rdzv-key", "host-timeout", "interface",
                             "advertise", "ports"}) {
      if (!arguments.given(flag)) continue;
      throw UsageError(
          fmt::format("--{}: for a run on several hosts; give --nnodes, such as 1:4.", flag));
    }
    return std::nullopt;
  }
  if (options.evaluate) throw UsageError("--evaluate: on one machine only.");
  if (options.mirror) throw UsageError("--checkpoint-mirror: on one machine only.");
  if (arguments.text("replicas").find(':') != std::string::npos) {
    throw UsageError(
        "--replicas: on several hosts, a number, that of each host; the hosts may come and go.");
  }
  HostOfRun host;
  launch::HostsOptions hosts;
  options.comes_again.reset();
  hosts.slots = options.replicas.max;
  hosts.least = nodes.min;
  hosts.most = *nodes.max;
  hosts.silence = silence_of(arguments);
  hosts.terms = command != nullptr ? terms_of(*command) : terms_of(options);
  auto lost = launch::take_succession();
  if (lost) {
    succeed(std::move(*lost), task, host, options, hosts);
  } else if (arguments.given("hosts")) {
    lead_by_ssh(arguments, options.reach, host, hosts);
  } else if (const std::string endpoint = endpoint_of(arguments); !endpoint.empty()) {
    meet_at(endpoint, arguments, host, hosts, talk);
    host.leads = leads(arguments, host.meeting_point, hosts, talk);
    find_successor(arguments, options, host, hosts, talk);
  } else {
    meet_in_folder(arguments, options, task, host, hosts);
  }
  if (!arguments.given("hosts")) {
    hosts.remember = launch::roster_keeper(options.checkpoint_dir, talk);
  }
  if (options.gpus > 0 && hosts.slots > options.gpus) {
    throw UsageError(fmt::format("--replicas {}: each has a GPU, and this host has {}.",
                                 hosts.slots, options.gpus));
  }
  const uint16_t port = hosts.listener ? port_of(hosts.listener->get()) : 0;
  const PortRange& ports = options.reach.ports;
  check_ports(ports, hosts.slots, ports.first <= port && port <= ports.last);
  options.hosts = std::move(hosts);
  return host;
}

}  // namespace

std::optional<HostOfRun> host_of_run(const Arguments& arguments, launch::RunOptions& options,
                                     const launch::Talk& talk) {
  return host_of(arguments, options, nullptr, talk);
}

std::optional<HostOfRun> host_of_command(const Arguments& arguments,
                                         launch::CommandOptions& command,
                                         launch::RunOptions& options, const launch::Talk& talk) {
  options.name = command.name;
  options.replicas = command.replicas;
  options.gpus = command.gpus;
  options.checkpoint_dir = command.checkpoint_dir;
  options.grace_s = command.grace_s;
  auto host = host_of(arguments, options, &command, talk);
  if (!host) return host;
  command.hosts = options.hosts;
  command.slots.clear();  // they are those of the hosts
  command.address = host->meeting_point.host.empty() ? reached_at(options.reach).front().address
                                                     : host->meeting_point.host;
  return host;
}

HostOfRun witness_of_run(const Arguments& arguments, launch::RunOptions& options,
                         const launch::Talk& talk) {
  const std::string endpoint = endpoint_of(arguments);
  if (endpoint.empty() || !on_several_hosts(arguments)) {
    throw UsageError(
        "--witness: needs --nnodes and --rdzv-endpoint, as the hosts of the run have them. Hosts "
        "that share a --checkpoint-dir, or start by --hosts, need no witness.");
  }
  if (const std::string leads = launch::parse_meeting_point(endpoint).host;
      launch::is_this_machine(leads)) {
    throw UsageError(
        fmt::format("--witness: {} is this machine, which leads the run; a witness is on one that "
                    "lives on when that is lost.",
                    leads));
  }
  HostOfRun host;
  launch::HostsOptions hosts;
  hosts.slots = 0;
  hosts.silence = silence_of(arguments);
  hosts.terms = {{"version of adaptdl", version()}};
  meet_at(endpoint, arguments, host, hosts, talk);
  hosts.remember = launch::roster_keeper(options.checkpoint_dir, talk);
  options.hosts = std::move(hosts);
  return host;
}

RemotePart::RemotePart(const std::optional<HostOfRun>& host, const Arguments& arguments,
                       const launch::RunOptions& options, const launch::Talk& talk) {
  if (!host || host->others.empty()) return;
  launch::SshHostsOptions ssh;
  ssh.hosts = host->others;
  ssh.ssh = launch::ssh_words();
  ssh.program = options.program;
  ssh.arguments = {"--name",           options.name,
                   "--log-dir",        options.log_dir,
                   "--checkpoint-dir", options.checkpoint_dir,
                   "--output",         options.output_dir,
                   "--device",         arguments.text("device"),
                   "--host-timeout",   std::to_string(arguments.integer("host-timeout"))};
  for (const std::string& setting : options.settings) {
    ssh.arguments.insert(ssh.arguments.end(), {"--set", setting});
  }
  if (options.threads > 0) {
    ssh.arguments.insert(ssh.arguments.end(), {"--threads", std::to_string(options.threads)});
  }
  ssh.arguments.insert(ssh.arguments.end(), {"--links", std::to_string(options.links)});
  if (options.plain_links) ssh.arguments.push_back("--plain-links");
  if (!options.nccl) ssh.arguments.push_back("--no-nccl");
  // An address is this host's alone.
  if (arguments.given("interface") && !is_numeric_address(options.reach.interface)) {
    ssh.arguments.insert(ssh.arguments.end(), {"--interface", options.reach.interface});
  }
  if (arguments.given("ports")) {
    ssh.arguments.insert(ssh.arguments.end(), {"--ports", arguments.text("ports")});
  }
  if (!options.arguments.empty()) {
    ssh.arguments.push_back("--");
    ssh.arguments.insert(ssh.arguments.end(), options.arguments.begin(), options.arguments.end());
  }
  ssh.worker = environment_variable("ADAPTDL_WORKER").value_or("");
  ssh.directory = absolute_path(".");
  ssh.environment = environment_for_others();
  ssh.libtorch = options.libtorch_dir;
  ssh.key = options.hosts->secret;
  ssh.address = host->meeting_point.host;
  ssh.port = port_of(options.hosts->listener->get());
  const int least = options.hosts->least;
  hosts_ = std::make_unique<launch::SshHosts>(std::move(ssh), talk);
  if (hosts_->ready() + 1 < least) {
    fail("{} of at least {} hosts are ready; --nnodes MIN:MAX starts with fewer",
         hosts_->ready() + 1, least);
  }
  hosts_->start(least - 1, [this] {
    lacks_ = true;
    ::kill(getpid(), SIGTERM);
  });
}

int RemotePart::finish(int code) {
  hosts_.reset();
  return lacks_ ? static_cast<int>(ExitCode::error) : code;
}

void tell_end(const std::optional<HostOfRun>& host, int code, const launch::Talk& talk) {
  if (!host || !host->folder) return;
  try {
    host->folder->end(code);
  } catch (const Error& error) {
    talk(fmt::format("cannot tell hosts that look for this run that it has ended: {}",
                     error.what()));
  }
}

int run_host(const HostOfRun& host, const launch::RunOptions& options,
             const launch::CommandOptions* command, const launch::Talk& talk) {
  launch::AgentOptions agent;
  agent.run = options;
  if (command != nullptr) agent.command = *command;
  agent.id = to_hex(random_bytes(16));
  agent.host = host_name();
  agent.check_folder = true;
  agent.leash = host.leash;
  if (!host.key_file.empty()) {
    agent.advice = fmt::format(
        ". All hosts of a run need the same {}: copy it from the host that leads, and give all the "
        "same --name",
        host.key_file);
  }
  agent.patience = host.patience;
  const bool witness = options.hosts->slots == 0;
  if (host.leash < 0 && command == nullptr && !witness) {
    agent.listener = listener_to_lead(host.meeting_point.port, options);
    agent.lead = [&](int listener, const launch::Roster& roster) {
      talk("this host is to lead the run");
      return launch::start_successor(listener, roster, options.hosts->secret);
    };
  }
  LockWatch lock(options);
  const launch::RosterFile known(options.checkpoint_dir);
  agent.find_launcher = [&, turn = size_t{0}]() mutable {
    if (host.folder) return host.folder->find();
    if (const auto successor = successor_of(host)) {
      lock.found();
      return *successor;
    }
    if (host.named && command == nullptr) lock.check();
    const auto roster = known.read();
    std::vector<launch::LauncherAddress> others;
    if (roster && !roster->shared) others = launch::others_of(*roster);  // else the folder tells
    const size_t which = turn++ % (others.size() + 1);
    return which == 0 ? host.meeting_point : others[which - 1];
  };
  if (command == nullptr && !witness) {
    make_durable_directories(options.output_dir);  // perhaps not shared
  }
  const int code = launch::run_agent(agent, talk);
  talk(fmt::format("this host's part of run {} has ended, with exit code {}", options.name, code));
  return code;
}

std::optional<int> follow(std::optional<HostOfRun>& host, const Arguments& arguments,
                          launch::RunOptions& options, const launch::Talk& talk) {
  while (host && !host->leads) {
    try {
      return run_host(*host, options, nullptr, talk);
    } catch (const launch::NobodyLeads&) {
      talk("nobody leads the run any more, so this host does");
    }
    host = host_of_run(arguments, options, talk);
    options.fresh = false;
  }
  return std::nullopt;
}

}  // namespace adaptdl::cli
