#include "cli/commands/torchrun_flags.h"

namespace adaptdl::cli {
namespace {

constexpr std::string_view kNoRendezvous =
    "there is no rendezvous, because the replicas are told where rank 0 is; leave it out";
constexpr std::string_view kPlaced =
    "--replicas N is the number of processes, on whatever machines they run; leave it out";
constexpr std::string_view kNothing = "it has no counterpart here; leave it out";
constexpr std::string_view kOutput = "the logs have all that the replicas print; leave it out";
constexpr std::string_view kOnlyTorchrun =
    "only `adaptdl torchrun` takes it, on this machine; leave it out";

}  // namespace

const std::vector<TorchrunFlag>& torchrun_flags_without_effect() {
  static const std::vector<TorchrunFlag> flags = {
      {"rdzv-backend", "PET_RDZV_BACKEND", Kind::text, kNoRendezvous},
      {"rdzv-conf", "PET_RDZV_CONF", Kind::text, kNoRendezvous},
      {"local-addr", "PET_LOCAL_ADDR", Kind::text, kNoRendezvous},
      {"monitor-interval", "PET_MONITOR_INTERVAL", Kind::text,
       "the end of a replica is noticed at once; leave it out"},
      {"start-method", "PET_START_METHOD", Kind::text, kNothing},
      {"event-log-handler", "PET_EVENT_LOG_HANDLER", Kind::text, kNothing},
      {"logs-specs", "PET_LOGS_SPECS", Kind::text, kNothing},
      {"signals-to-handle", "PET_SIGNALS_TO_HANDLE", Kind::text, kNothing},
      {"run-path", "PET_RUN_PATH", Kind::flag, kNothing},
      {"numa-binding", "PET_NUMA_BINDING", Kind::text, kNothing},
      {"duplicate-stdout-filters", "PET_DUPLICATE_STDOUT_FILTERS", Kind::text, kOutput},
      {"duplicate-stderr-filters", "PET_DUPLICATE_STDERR_FILTERS", Kind::text, kOutput}};
  return flags;
}

std::string_view instead_of_torchrun_flag(std::string_view name) {
  if (name == "nnodes" || name == "node-rank") return kPlaced;
  for (const char* flag : {"rdzv-id", "rdzv-endpoint", "master-addr", "master-port"}) {
    if (name == flag) return kNoRendezvous;
  }
  if (name == "local-ranks-filter" || name == "log-dir") return kOutput;
  if (name == "virtual-local-rank") return kOnlyTorchrun;
  if (name == "module" || name == "no-python") {
    return "give the whole command after --, such as `-- python3 -m MODULE`";
  }
  for (const TorchrunFlag& flag : torchrun_flags_without_effect()) {
    if (flag.name == name) return flag.instead;
  }
  return "";
}

}  // namespace adaptdl::cli
