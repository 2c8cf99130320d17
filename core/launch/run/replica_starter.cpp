#include "core/launch/run/replica_starter.h"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/formats/json.h"
#include "core/job/worker_environment.h"
#include "core/launch/hosts/agent_link.h"
#include "core/launch/slots.h"
#include "core/net/socket.h"

namespace adaptdl::launch {

namespace {

constexpr int kControlFd = 3;  // in the child
constexpr size_t kSecretBytes = 32;

}  // namespace

ReplicaStarter::ReplicaStarter(const RunOptions& options, LogWriter& logs)
    : options_(options),
      logs_(logs),
      cores_(available_cores()),
      run_id_(options.succeeds ? options.succeeds->run_id : to_hex(random_bytes(8))),
      secret_(options.hosts ? run_secret(options.hosts->secret, run_id_)
                            : to_hex(random_bytes(kSecretBytes))),
      null_(open_file("/dev/null", O_RDONLY)) {
  if (options.worker_path.empty()) {
    if (options.worker_image.empty()) {
      fail("{}: no worker can train it: this build has none, and ADAPTDL_WORKER is not set",
           options.program);
    }
    image_ = std::make_unique<ExecutableImage>(
        std::as_bytes(std::span(options.worker_image.data(), options.worker_image.size())),
        "adaptdl-worker", join_path(cache_directory(), "worker"));
  }
  if (options.gpus > 0) {
    gpus_ = gpus();
    if (static_cast<int>(gpus_.size()) < options.gpus) {
      fail("{} GPUs requested, but this machine has {}", options.gpus, gpus_.size());
    }
  }
}

int ReplicaStarter::threads_for(int replicas) const {
  if (options_.threads > 0) return options_.threads;
  if (options_.hosts) return std::max(1, cores_ / std::max(1, options_.hosts->slots));
  if (options_.gpus == 0 && !options_.slots.empty()) return options_.slots_per_replica;
  return std::max(1, cores_ / std::max(1, replicas));
}

std::vector<std::string> ReplicaStarter::environment(const std::vector<int>& slots,
                                                     int threads) const {
  std::vector<std::pair<std::string, std::optional<std::string>>> changes;
  changes.emplace_back(kControlFdVariable, std::to_string(kControlFd));
  changes.emplace_back("OMP_NUM_THREADS", std::to_string(threads));
  changes.emplace_back("MKL_NUM_THREADS", std::to_string(threads));
  if (!options_.libtorch_dir.empty()) {
    std::string path = join_path(options_.libtorch_dir, "lib");
    if (const auto before = environment_variable("LD_LIBRARY_PATH")) path += ":" + *before;
    changes.emplace_back("LD_LIBRARY_PATH", path);
  }
  if (options_.gpus > 0) changes.emplace_back("CUDA_VISIBLE_DEVICES", visible_gpus(gpus_, slots));
  if (const auto kind = accelerator_of(slots, options_.accelerators)) {
    changes.emplace_back(kAcceleratorVariable, *kind);
  }
  return environment_with(changes);
}

std::pair<Child, Channel> ReplicaStarter::start_worker(MemberId id, const std::vector<int>& slots,
                                                       int threads) {
  auto [ours, theirs] = socket_pair();
  const Fd log = logs_.open(id);
  SpawnOptions spawn_options;
  spawn_options.argv = {options_.worker_path.empty() ? "adaptdl-worker" : options_.worker_path};
  spawn_options.argv.insert(spawn_options.argv.end(), options_.arguments.begin(),
                            options_.arguments.end());
  spawn_options.path = options_.worker_path;
  spawn_options.image = image_.get();
  spawn_options.environment = environment(slots, threads);
  spawn_options.descriptors = {
      {null_.get(), 0}, {log.get(), 1}, {log.get(), 2}, {theirs.get(), kControlFd}};
  // Ctrl-C in a terminal must reach only the launcher, which then tells the replicas what to do.
  spawn_options.new_process_group = true;
  if (options_.gpus == 0 && options_.bound && !options_.hosts) spawn_options.cores = slots;
  return {spawn(spawn_options), Channel(std::move(ours))};
}

const char* ReplicaStarter::device() const {
  return options_.gpus > 0 ? "cuda:0" : "cpu";
}

nlohmann::json ReplicaStarter::welcome(MemberId id, const Joining& joining) const {
  return {{"type", "welcome"},
          {"protocol", kProtocol},
          {"member", id},
          {"run_id", run_id_},
          {"secret", secret_},
          {"settings",
           {{"name", options_.name},
            {"program", options_.program},
            {"arguments", options_.arguments},
            {"set", options_.settings},
            {"checkpoint_dir", options_.checkpoint_dir},
            {"output_dir", options_.output_dir},
            {"fresh_at", joining.fresh_at},
            {"evaluate", options_.evaluate},
            {"replicas", joining.replicas},
            {"atomic_limit", joining.atomic_limit},
            {"threads", threads_for(joining.replicas)},
            {"device", device()},
            {"hosts", options_.hosts.has_value()},
            {"plain_links", options_.plain_links},
            {"links", options_.links},
            {"nccl", options_.nccl},
            {"reach",
             {{"interface", options_.reach.interface},
              {"advertise", options_.reach.advertise},
              {"first_port", options_.reach.ports.first},
              {"last_port", options_.reach.ports.last}}}}}};
}

nlohmann::json ReplicaStarter::invitation(const Joining& joining) const {
  return {{"run_id", run_id_},
          {"replicas", joining.replicas},
          {"atomic_limit", joining.atomic_limit},
          {"fresh_at", joining.fresh_at}};
}

std::pair<Child, Channel> ReplicaStarter::start_invited(MemberId id, int slot,
                                                        const nlohmann::json& invitation) {
  const Joining joining{.replicas = json_get<int>(invitation, "replicas", "start"),
                        .atomic_limit = json_get<int64_t>(invitation, "atomic_limit", "start"),
                        .fresh_at = json_get<int64_t>(invitation, "fresh_at", "start")};
  nlohmann::json told = welcome(id, joining);
  const auto run_id = json_get<std::string>(invitation, "run_id", "start");
  told["run_id"] = run_id;
  told["secret"] = run_secret(options_.hosts->secret, run_id);
  auto started = start_worker(id, {slot}, threads_for(options_.hosts->slots));
  started.second.post(told);
  return started;
}

std::unique_ptr<Replica> ReplicaStarter::start(MemberId id, std::vector<int> slots,
                                               const Joining& joining) {
  auto [child, channel] = start_worker(id, slots, threads_for(joining.replicas));
  auto replica = std::make_unique<Replica>(
      Replica{id, std::make_unique<LocalProcess>(std::move(child)), std::move(channel)});
  replica->slots = std::move(slots);
  replica->channel.post(welcome(id, joining));
  return replica;
}

}  // namespace adaptdl::launch
