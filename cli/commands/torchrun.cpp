// torchrun's command line, run by our launcher.

#include <functional>
#include <memory>

#include "cli/commands.h"
#include "cli/commands/command_run.h"
#include "cli/commands/run_hosts.h"
#include "cli/commands/torchrun_flags.h"
#include "cli/embedded.h"
#include "cli/frame/output.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/system.h"
#include "core/base/text.h"
#include "core/launch/client.h"
#include "core/launch/command/leftovers.h"
#include "core/launch/paths.h"

namespace adaptdl::cli {
namespace {

constexpr int kMostAlike = 1000;  // live runs of one script

int replicas_of(const std::string& text) {
  const int gpu_count = static_cast<int>(gpus().size());
  if (text == "cpu" || (text == "auto" && gpu_count == 0)) return available_cores();
  if (text == "gpu" && gpu_count == 0) {
    fail("--nproc-per-node gpu: no NVIDIA GPU found (see `adaptdl doctor`); use cpu or a number");
  }
  if (text == "gpu" || text == "auto") return gpu_count;
  const auto count = try_parse<int>(text);
  if (!count || *count < 1 || *count > launch::kMaxReplicas) {
    throw UsageError(fmt::format(
        "--nproc-per-node: invalid value {}; use a number from 1 to {}, or auto, cpu or gpu.",
        text.empty() ? "''" : text, launch::kMaxReplicas));
  }
  return *count;
}

// Its hosts must have the same name for it.
std::string name_on_hosts(const Arguments& arguments, const std::vector<std::string>& words) {
  const std::string id = arguments.text("rdzv-id");
  return id.empty() ? command_name(words) : valid_run_name(id);
}

void set_folders(const Arguments& arguments, launch::CommandOptions& options) {
  set_command_folders(options, join_path(arguments.text("log-dir"), options.name + ".run"), "", "");
}

// Whether no live run of any host uses the run's folder.
bool claim_folder(launch::CommandOptions& options) {
  try {
    auto file = launch::claim_replicas_file(options.replicas_file);
    if (!file) return false;
    options.claimed = std::make_shared<launch::ReplicasFile>(*std::move(file));
  } catch (const Error&) {
    // The start of the run fails, and says what to do.
  }
  return true;
}

// torchrun has no names, so that two runs of one script must not be in each other's way, also if
// they are on hosts that share the folder. Sets the name and the folders. While the result is open,
// others that start at the same time find the name taken.
Fd claim_name(const Arguments& arguments, const std::string& name,
              launch::CommandOptions& options) {
  launch::run_paths(name);  // throws where no run can have a socket: is_live() would say yes
  // Each name has one byte of the lock file.
  const std::string locks = join_path(runtime_directory(), "names.lock");
  options.name = name;
  for (int number = 2; number < kMostAlike; ++number) {
    const auto byte = static_cast<int64_t>(std::hash<std::string>()(options.name) >> 2);
    auto claim = try_lock_byte(locks, byte);
    if (claim && !launch::is_live(options.name)) {
      set_folders(arguments, options);
      if (claim_folder(options)) return *std::move(claim);
    }
    options.name = fmt::format("{}-{}", name, number);
  }
  set_folders(arguments, options);
  return {};
}

std::vector<std::string> command_of(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.rest();
  const bool module = arguments.flag("module"), program = arguments.flag("no-python");
  if (module && program) {
    throw UsageError("--module and --no-python exclude each other; remove one of the two.");
  }
  if (program) return words;
  std::vector<std::string> command{environment_variable("PYTHON_EXEC").value_or("python3"), "-u"};
  if (module) command.push_back("-m");
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

int run_torchrun(const Arguments& arguments) {
  const std::vector<std::string> words = command_of(arguments);
  if (!arguments.flag("no-python") && !arguments.flag("module") &&
      !path_exists(arguments.rest()[0])) {
    fail("{}: no such script; --module runs a module, --no-python any program",
         arguments.rest()[0]);
  }
  launch::CommandOptions options;
  const bool several = on_several_hosts(arguments);
  if (!several && arguments.given("node-rank") && arguments.integer("node-rank") > 0) {
    throw UsageError("--node-rank: for a run on several hosts; give --nnodes, such as 1:4.");
  }
  options.program = words[0];
  options.arguments.assign(words.begin() + 1, words.end());
  const int replicas = replicas_of(arguments.text("nproc-per-node"));
  options.replicas = {replicas, replicas, replicas};
  options.max_failures = static_cast<int>(arguments.integer("max-restarts"));
  options.failures_in_row = false;
  options.role = arguments.text("role");
  options.run_id = arguments.text("rdzv-id");
  if (!several || !meet_at_master_port(arguments)) {
    options.torch_port = static_cast<int>(arguments.integer("master-port"));
  }
  if (arguments.flag("virtual-local-rank")) {
    options.virtual_local_rank = true;
    const auto visible = environment_variable("CUDA_VISIBLE_DEVICES");
    if (visible) options.environment["CUDA_VISIBLE_DEVICES"] = *visible;
  }
  options.console = console_options(arguments.text("redirects"), arguments.text("tee"),
                                    arguments.text("local-ranks-filter"), false, arguments.json());
  Fd claim;
  if (several) {
    options.name = name_on_hosts(arguments, words);
    set_folders(arguments, options);
  } else {
    claim = claim_name(arguments, command_name(words), options);
  }
  return run_as_command(arguments, std::move(options), several);
}

std::vector<Option> with_accepted(std::vector<Option> own) {
  for (const TorchrunFlag& flag : torchrun_flags_without_effect()) {
    own.push_back({.name = flag.name,
                   .kind = flag.kind,
                   .value = flag.kind == Kind::flag ? std::string_view() : "VALUE",
                   .doc = "Accepted; has no effect here.",
                   .shared_variable = flag.variable});
  }
  own.push_back(
      format_option("Output format; text shows what the replicas print, json prints the run's "
                    "events, one a line, and what the replicas print on standard error."));
  return own;
}

}  // namespace

Command torchrun_command() {
  return {
      .name = "torchrun",
      .summary = "Run a torchrun command line, on one machine or several",
      .text = embedded("torchrun.md"),
      .options = with_accepted(
          {{.name = "nproc-per-node",
            .kind = Kind::text,
            .value = "N|auto|cpu|gpu",
            .fallback = "1",
            .doc = "Number of replicas; cpu is one for each core, gpu one for each GPU, auto the "
                   "latter where there are GPUs.",
            .shared_variable = "PET_NPROC_PER_NODE"},
           {.name = "max-restarts",
            .kind = Kind::integer,
            .value = "N",
            .fallback = "0",
            .doc = "Number of failures after which all replicas restart.",
            .min = 0,
            .max = 1000000,
            .shared_variable = "PET_MAX_RESTARTS"},
           {.name = "module",
            .letter = 'm',
            .doc = "SCRIPT is a Python module, as for python3 -m.",
            .shared_variable = "PET_MODULE"},
           {.name = "no-python",
            .doc = "SCRIPT is any program, run without Python.",
            .shared_variable = "PET_NO_PYTHON"},
           {.name = "redirects",
            .letter = 'r',
            .kind = Kind::text,
            .value = "STREAMS",
            .doc = "Write these only to the logs: 1 standard output, 2 standard error, 3 both; "
                   "RANK:STREAMS,... for single replicas. Default: 0.",
            .shared_variable = "PET_REDIRECTS"},
           {.name = "tee",
            .letter = 't',
            .kind = Kind::text,
            .value = "STREAMS",
            .doc = "Show these also with --redirects, each line with the replica's role and rank.",
            .shared_variable = "PET_TEE"},
           {.name = "local-ranks-filter",
            .kind = Kind::text,
            .value = "RANK,...",
            .doc = "Show the output of these replicas only. Default: all.",
            .shared_variable = "PET_LOCAL_RANKS_FILTER"},
           {.name = "log-dir",
            .kind = Kind::directory,
            .value = "DIR",
            .doc = "Folder in which the run's folder NAME.run with the replicas' logs is made. "
                   "Default: the current folder.",
            .shared_variable = "PET_LOG_DIR"},
           {.name = "fresh",
            .doc = "Start from scratch: remove the checkpoints of an earlier run of this name."},
           {.name = "role",
            .kind = Kind::text,
            .value = "NAME",
            .fallback = "default",
            .doc = "ROLE_NAME of the replicas.",
            .shared_variable = "PET_ROLE"},
           {.name = "virtual-local-rank",
            .doc = "Show each replica one GPU only, that of its rank, with LOCAL_RANK 0.",
            .shared_variable = "PET_VIRTUAL_LOCAL_RANK"},
           {.name = "nnodes",
            .kind = Kind::text,
            .value = "N|MIN:MAX",
            .fallback = "1",
            .doc = "Number of hosts, each with --nproc-per-node replicas; run the same command on "
                   "each. The replicas start when MIN are there.",
            .shared_variable = "PET_NNODES"},
           {.name = "rdzv-endpoint",
            .kind = Kind::text,
            .value = "HOST[:PORT]",
            .doc = "With --nnodes: the host that leads the run, and a free port on it, by default "
                   "29400.",
            .shared_variable = "PET_RDZV_ENDPOINT"},
           {.name = "master-addr",
            .kind = Kind::text,
            .value = "HOST",
            .doc = "Without --rdzv-endpoint: the host that leads the run. The others meet it at "
                   "--master-port.",
            .shared_variable = "PET_MASTER_ADDR"},
           {.name = "node-rank",
            .kind = Kind::integer,
            .value = "N",
            .doc = "With --nnodes: 0 leads, whatever the name of this host; others do not. "
                   "Default: the host that --rdzv-endpoint names leads.",
            .min = 0,
            .max = 1000000,
            .shared_variable = "PET_NODE_RANK"},
           {.name = "rdzv-key",
            .kind = Kind::file,
            .value = "FILE",
            .doc = "With --nnodes: the key that all hosts of a run must have, made if there is "
                   "none. Default: hosts.key in adaptdl's configuration folder."},
           {.name = "host-timeout",
            .kind = Kind::integer,
            .value = "SECONDS",
            .fallback = "20",
            .doc = "On several hosts: one that is silent for so long is lost.",
            .min = 1,
            .max = 3600},
           {.name = "master-port",
            .kind = Kind::integer,
            .value = "PORT",
            .fallback = "0",
            .doc = "MASTER_PORT of the replicas; 0: a free port, another for each start. With "
                   "--nnodes and --master-addr it is where the hosts meet, by default 29400, and "
                   "MASTER_PORT is a free port.",
            .min = 0,
            .max = 65535,
            .shared_variable = "PET_MASTER_PORT"},
           {.name = "rdzv-id",
            .kind = Kind::text,
            .value = "NAME",
            .doc = "TORCHELASTIC_RUN_ID of the replicas, and on several hosts the run's name. "
                   "Default: the run's name.",
            .shared_variable = "PET_RDZV_ID"},
           {.name = "standalone",
            .doc = "In srun and mpirun: each task is a run of its own.",
            .shared_variable = "PET_STANDALONE"}}),
      .positionals = {{.name = "SCRIPT",
                       .kind = Kind::file,
                       .doc = "Python script, and its arguments.",
                       .repeat = true}},
      .examples =
          {{"adaptdl torchrun --nproc-per-node 2 train.py --epochs 3",
            "Run the script as 2 replicas."},
           {"adaptdl torchrun --standalone --nproc_per_node=gpu --max-restarts=3 -m "
            "pkg.train",
            "Run a module with one replica for each GPU, and restart it up to 3 times."},
           {"adaptdl torchrun --nnodes 1:4 --rdzv-endpoint node1 --nproc-per-node 8 train.py",
            "Typed on each of up to 4 hosts, run the script on all of them."}},
      .program_follows = true,
      .run = run_torchrun};
}

}  // namespace adaptdl::cli
