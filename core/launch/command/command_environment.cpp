#include "core/launch/command/command_environment.h"

#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <random>
#include <sys/socket.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/poll.h"
#include "core/base/system.h"
#include "core/base/text.h"
#include "core/job/worker_environment.h"
#include "core/launch/slots.h"
#include "core/net/socket.h"

namespace adaptdl::launch {

namespace {

constexpr int kFirstPort = 20000, kLastPort = 32000;
constexpr std::chrono::seconds kRendezvousPatience{1};

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

bool is_free(int port) {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) fail_errno(errno, "cannot create a socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  return ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

// torchrun's contract. A replica that sees only its own GPUs is alone on a node, so that the local
// rank is the index of a GPU that it sees, as programs expect.
template <typename Set>
void set_torch_variables(const CommandOptions& options, const CommandPlace& place, Set set) {
  const CommandGeneration& generation = place.generation;
  const CommandHost& host = place.host;
  const std::string rank = std::to_string(place.rank), all = std::to_string(generation.replicas);
  const bool alone = options.gpus > 0;
  set("RANK", rank);
  set("WORLD_SIZE", all);
  set("LOCAL_RANK", alone ? "0" : std::to_string(place.rank - host.first_rank));
  set("LOCAL_WORLD_SIZE", alone ? "1" : std::to_string(host.replicas));
  set("GROUP_RANK", alone ? rank : std::to_string(host.number));
  set("GROUP_WORLD_SIZE", alone ? all : std::to_string(generation.hosts));
  set("ROLE_RANK", rank);
  set("ROLE_WORLD_SIZE", all);
  if (options.environment.count("ROLE_NAME") == 0) set("ROLE_NAME", options.role);
  set("MASTER_ADDR", place.rank_0);
  set("MASTER_PORT", std::to_string(generation.torch_port));
  set("TORCHELASTIC_RESTART_COUNT", std::to_string(generation.failures));
  set("TORCHELASTIC_MAX_RESTARTS", std::to_string(options.max_failures));
  set("TORCHELASTIC_RUN_ID", options.run_id.empty() ? options.name : options.run_id);
  set("TORCHELASTIC_USE_AGENT_STORE", "False");  // rank 0 itself listens at MASTER_PORT
  set("TORCHELASTIC_ERROR_FILE", place.error_file);
}

// no_proxy and NO_PROXY with the hosts that replicas connect to. Each is extended by itself,
// because programs differ in which one they prefer; if only one is set, the other one starts as its
// copy.
std::vector<std::pair<const char*, std::string>> no_proxy_variables(const CommandOptions& options,
                                                                    const CommandPlace& place,
                                                                    const ProxyExceptions& ours) {
  const auto told = [&](const char* name, const std::optional<std::string>& our_own) {
    const auto found = options.environment.find(name);
    return found == options.environment.end() ? our_own : std::optional(found->second);
  };
  const std::optional<std::string> lower = told("no_proxy", ours.lower);
  const std::optional<std::string> upper = told("NO_PROXY", ours.upper);
  std::string local = "127.0.0.1,localhost";
  if (place.rank_0 != "127.0.0.1") local += "," + place.rank_0;
  const auto extended = [&](const std::optional<std::string>& hosts) {
    if (!hosts || hosts->empty()) return local;
    return *hosts == "*" ? *hosts : *hosts + "," + local;  // * means all hosts only if it is alone
  };
  return {{"no_proxy", extended(lower ? lower : upper)},
          {"NO_PROXY", extended(upper ? upper : lower)}};
}

// The only GPU of a replica with --virtual-local-rank.
std::string gpu_of_rank(const CommandOptions& options, int rank) {
  const auto visible = options.environment.find("CUDA_VISIBLE_DEVICES");
  if (visible == options.environment.end()) return std::to_string(rank);
  if (visible->second.empty()) return "";  // all are hidden
  const std::vector<std::string> all = split(visible->second, ',');
  if (static_cast<size_t>(rank) < all.size()) return all[static_cast<size_t>(rank)];
  fail("--virtual-local-rank: replica {} has no GPU, because CUDA_VISIBLE_DEVICES={} names {}",
       rank, visible->second, all.size());
}

}  // namespace

Variables command_environment(const CommandOptions& options, const CommandPlace& place,
                              const std::vector<std::string>& gpus, const ProxyExceptions& ours) {
  Variables result(options.environment.begin(), options.environment.end());
  const auto set = [&](const char* name, std::optional<std::string> value) {
    std::erase_if(result, [&](const auto& entry) { return entry.first == name; });
    result.emplace_back(name, std::move(value));
  };
  const auto given = [&](const char* name) { return options.environment.count(name) != 0; };
  const auto unless_empty = [](const std::string& text) {
    return text.empty() ? std::nullopt : std::optional(text);
  };
  set("ADAPTDL_JOB_ID", options.job_id());
  const CommandGeneration& generation = place.generation;
  set("ADAPTDL_NUM_REPLICAS", std::to_string(generation.replicas));
  set("ADAPTDL_REPLICA_RANK", std::to_string(place.rank));
  set("ADAPTDL_NUM_NODES", std::to_string(generation.hosts));
  set("ADAPTDL_NUM_RESTARTS", std::to_string(generation.number));
  set("ADAPTDL_MASTER_ADDR", place.rank_0);
  set("ADAPTDL_MASTER_PORT", std::to_string(generation.port));
  set("ADAPTDL_SUPERVISOR_URL", unless_empty(options.supervisor_url));
  set("ADAPTDL_SCHED_VERSION", kSchedulerVersion);
  set("ADAPTDL_CHECKPOINT_PATH", options.checkpoint_dir);
  set(kRunFolderVariable, options.checkpoint_dir);
  set("ADAPTDL_SHARE_PATH", options.share_dir);
  if (!options.tensorboard_dir.empty() || !given("ADAPTDL_TENSORBOARD_LOGDIR")) {
    set("ADAPTDL_TENSORBOARD_LOGDIR", unless_empty(options.tensorboard_dir));
  }
  set_torch_variables(options, place, set);
  if (!given("TORCH_NCCL_ASYNC_ERROR_HANDLING")) set("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  if (generation.load_pickles && !given(kLoadPicklesVariable) &&
      !environment_variable(kLoadPicklesVariable))
    set(kLoadPicklesVariable, "1");
  for (auto& [name, hosts] : no_proxy_variables(options, place, ours)) {
    set(name, std::move(hosts));
  }
  const std::string threads = std::to_string(place.threads);
  if (!given("OMP_NUM_THREADS")) set("OMP_NUM_THREADS", threads);
  // MKL follows OMP_NUM_THREADS, but PyTorch prefers MKL's own variable to a user's choice there.
  if (!given("MKL_NUM_THREADS") && !given("OMP_NUM_THREADS")) set("MKL_NUM_THREADS", threads);
  // Python buffers output to a pipe: logs would be late, and lost when the process is killed.
  if (!given("PYTHONUNBUFFERED")) set("PYTHONUNBUFFERED", "1");
  if (options.gpus > 0) set("CUDA_VISIBLE_DEVICES", visible_gpus(gpus, place.slots));
  if (const auto kind = accelerator_of(place.slots, options.accelerators)) {
    set(kAcceleratorVariable, *kind);
  }
  if (options.virtual_local_rank) {
    set("LOCAL_RANK", "0");
    set("CUDA_VISIBLE_DEVICES", gpu_of_rank(options, place.rank - place.host.first_rank));
  }
  return result;
}

ReservedPort reserve_port() {
  // Each port has one byte of the lock file.
  const std::string locks = join_path(runtime_directory(), "ports.lock");
  std::random_device random;
  for (int tries = 0; tries < 1000; ++tries) {
    const int port = std::uniform_int_distribution<int>(kFirstPort, kLastPort)(random);
    auto lock = try_lock_byte(locks, port);
    if (lock && is_free(port)) return {port, *std::move(lock)};
  }
  fail("no TCP port from {} to {} is free for rank 0 of the replicas", kFirstPort, kLastPort);
}

bool answers(const std::string& url) {
  const bool plain = url.starts_with("http://"), secure = url.starts_with("https://");
  if (!plain && !secure) fail("{}: not an http or https URL", url);
  const size_t begin = url.find("//") + 2;
  const std::string place = url.substr(begin, url.find('/', begin) - begin);
  const size_t bracket = place.find(']');
  const size_t colon = place.find(':', bracket == std::string::npos ? 0 : bracket);
  std::string host = place.substr(0, colon);
  if (host.starts_with("[") && host.ends_with("]")) host = host.substr(1, host.size() - 2);
  std::string port = secure ? "443" : "80";
  if (colon != std::string::npos) port = place.substr(colon + 1);
  const auto number = try_parse<int>(port);
  if (host.empty() || !number || *number < 1 || *number > 65535) {
    fail("{}: invalid host or port", url);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, FreeAddresses> list(found);
  const TimePoint deadline = Monotonic::now() + kRendezvousPatience;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const Fd socket(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) continue;
    if (::connect(socket.get(), one->ai_addr, one->ai_addrlen) == 0) return true;
    if (errno != EINPROGRESS || !wait_ready(socket.get(), POLLOUT, deadline)) continue;
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) return true;
  }
  return false;
}

}  // namespace adaptdl::launch
