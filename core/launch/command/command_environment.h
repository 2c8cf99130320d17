#pragma once

// The environment of a replica, that of Python AdaptDL 0.2.11 and of torchrun, and ports for its
// rank 0.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/fd.h"
#include "core/launch/command/command_run.h"

namespace adaptdl::launch {

// The checkpoint folder that a run has given its replicas. One of these may start runs of its own,
// to which that folder and the others do not belong.
inline constexpr const char* kRunFolderVariable = "ADAPTDL_RUN_CHECKPOINT_PATH";

// What the replicas of one start have in common.
struct CommandGeneration {
  int64_t number = 0;  // 0, 1, ...: grows with every start
  int replicas = 1;
  int hosts = 1;              // that have some of them
  int failures = 0;           // restarts after failures so far
  int port = 0;               // for AdaptDL's rank 0
  int torch_port = 0;         // for torch.distributed's
  bool load_pickles = false;  // torch.load reads pickles, unless the user has decided
};

// The ranks of a host follow one another.
struct CommandHost {
  int number = 0;      // among the generation's, in order of rank
  int first_rank = 0;  // of its replicas
  int replicas = 1;
};

struct CommandPlace {
  CommandGeneration generation;
  CommandHost host;
  int rank = 0;
  std::string rank_0 = "127.0.0.1";  // name or address of its host
  std::string error_file;            // where the program may say why it failed
  int threads = 1;
  std::vector<int> slots;
};

using Variables = std::vector<std::pair<std::string, std::optional<std::string>>>;

// The variables no_proxy and NO_PROXY of our own environment.
struct ProxyExceptions {
  std::optional<std::string> lower = {}, upper = {};
};

// Changes to our own environment, those of the job included. `gpus`: names of all GPUs. Throws
// Error if a virtual local rank has no GPU.
Variables command_environment(const CommandOptions& options, const CommandPlace& place,
                              const std::vector<std::string>& gpus, const ProxyExceptions& ours);

// A TCP port on which nobody listens, below the range of ports that the system assigns by itself.
// The lock keeps other runs of this user from choosing it as well. Throws Error if there is none.
struct ReservedPort {
  int number = 0;
  Fd lock;
};
ReservedPort reserve_port();

// Whether somebody accepts connections at the host and port of this http(s) URL, within a second.
// Throws Error for an invalid URL.
bool answers(const std::string& url);

}  // namespace adaptdl::launch
