#include "core/launch/command/host_command.h"

#include <csignal>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/formats/json.h"
#include "core/launch/run/replica.h"

namespace adaptdl::launch {

namespace {

constexpr std::chrono::milliseconds kShowLast{200};
constexpr int kMostPort = 65535;

// Hosts may share the launcher's folder, and several agents a host.
ReplicasFile claim_own_file(const std::string& path) {
  for (int number = 1; number <= kMostHosts; ++number) {
    const std::string own = fmt::format("{}.{}.{}", path, host_name(), number);
    if (auto file = claim_replicas_file(own)) return *std::move(file);
  }
  fail("{}: too many agents of this host use this folder", parent_directory(path));
}

// Of what another host says. Throws Error unless it is one of low..high.
int number_in(const nlohmann::json& object, const char* key, int low, int high) {
  const auto number = json_get<int>(object, key, "start");
  if (number < low || number > high) fail("start: invalid {} {}", key, number);
  return number;
}

CommandGeneration generation_from(const nlohmann::json& json) {
  CommandGeneration generation;
  generation.number = json_get<int64_t>(json, "number", "start");
  generation.replicas = number_in(json, "replicas", 1, kMaxReplicas);
  generation.hosts = number_in(json, "hosts", 1, kMostHosts);
  generation.failures = json_get<int>(json, "failures", "start");
  generation.port = number_in(json, "port", 1, kMostPort);
  generation.torch_port = number_in(json, "torch_port", 1, kMostPort);
  generation.load_pickles = json_get<bool>(json, "load_pickles", "start");
  return generation;
}

CommandHost host_from(const nlohmann::json& json, const CommandGeneration& generation) {
  CommandHost host;
  host.number = number_in(json, "number", 0, generation.hosts - 1);
  host.first_rank = number_in(json, "first_rank", 0, generation.replicas - 1);
  host.replicas = number_in(json, "replicas", 1, generation.replicas - host.first_rank);
  return host;
}

}  // namespace

nlohmann::json invitation_of(const CommandGeneration& generation, const CommandHost& host) {
  return {
      {"number", generation.number},
      {"replicas", generation.replicas},
      {"hosts", generation.hosts},
      {"failures", generation.failures},
      {"port", generation.port},
      {"torch_port", generation.torch_port},
      {"load_pickles", generation.load_pickles},
      {"host",
       {{"number", host.number}, {"first_rank", host.first_rank}, {"replicas", host.replicas}}}};
}

void read_failure(const nlohmann::json& message, EndedReplica& replica) {
  if (json_get<std::string>(message, "type", "message") != "failed") return;
  replica.log = json_get<std::vector<std::string>>(message, "log", "failed");
  replica.refused_pickle = json_get<bool>(message, "pickles", "failed");
  const nlohmann::json& error = message.at("error");
  if (error.is_null()) return;
  replica.error =
      ProgramError{.message = json_get<std::string>(error, "message", "failed"),
                   .traceback = json_get<std::vector<std::string>>(error, "traceback", "failed"),
                   .at_s = json_find<double>(error, "at_s", "failed")};
}

HostCommand::HostCommand(const CommandOptions& options, const Talk& talk, Post post)
    : options_(options),
      talk_(talk),
      post_(std::move(post)),
      console_(options.console ? std::make_optional<ReplicaConsole>(*options.console)
                               : std::nullopt),
      processes_(options, claim_own_file(options.replicas_file), talk,
                 console_ ? &*console_ : nullptr) {
  make_directories(options.share_dir, 0700);
}

HostCommand::~HostCommand() {
  processes_.show_rest();
  if (console_) console_->drain(Monotonic::now() + kShowLast);
}

void HostCommand::start(MemberId member, int slot, const nlohmann::json& invitation,
                        const std::string& launcher) {
  const CommandGeneration generation = generation_from(invitation);
  const CommandHost host = host_from(invitation.at("host"), generation);
  const auto rank = static_cast<int>(member);
  if (rank < host.first_rank || rank >= host.first_rank + host.replicas) {
    fail("start: replica {} is not one of this host's {} from {} on", member, host.replicas,
         host.first_rank);
  }
  try {
    if (slot < 0 || slot >= options_.hosts->slots) fail("this host has no slot {}", slot);
    if (empty()) processes_.begin(generation, host, launcher);
    if (generation.number != processes_.generation()) {
      fail("replicas of start {} live on this host", processes_.generation());
    }
    processes_.start(rank, {slot});
    post_({{"type", "started"}, {"member", member}, {"pid", processes_.pid(rank)}});
  } catch (const Error& error) {
    talk_(error.what());
    post_({{"type", "ended"}, {"member", member}, {"reason", error.what()}});
  }
}

void HostCommand::tell(MemberId member, nlohmann::json message) {
  if (json_get<std::string>(message, "type", "message") == "terminate") {
    const bool interrupt = json_get_or(message, "interrupt", "message", false);
    processes_.signal(static_cast<int>(member), interrupt ? SIGINT : SIGTERM);
  }
}

void HostCommand::kill(MemberId member) {
  processes_.signal(static_cast<int>(member), SIGKILL);
}

void HostCommand::kill_all() {
  processes_.signal_all(SIGKILL);
}

void HostCommand::take(bool children) {
  for (EndedReplica& replica : processes_.take_ends()) {
    const auto member = static_cast<MemberId>(replica.rank);
    if (!replica.status.success()) {
      processes_.explain(replica);
      nlohmann::json error;
      if (replica.error) {
        error = {{"message", replica.error->message}, {"traceback", replica.error->traceback}};
        if (replica.error->at_s) error["at_s"] = *replica.error->at_s;
      }
      post_({{"type", "say"},
             {"member", member},
             {"message",
              {{"type", "failed"},
               {"error", std::move(error)},
               {"log", replica.log},
               {"pickles", processes_.needs_pickles(replica.rank)}}}});
    }
    post_({{"type", "ended"},
           {"member", member},
           {"signaled", replica.status.signaled},
           {"value", replica.status.value},
           {"memory", replica.out_of_memory}});
  }
  if (children) processes_.reap_orphans();
}

}  // namespace adaptdl::launch
