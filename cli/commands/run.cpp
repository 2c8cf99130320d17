#include "core/launch/run/run.h"

#include <memory>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/commands/command_run.h"
#include "cli/commands/run_events.h"
#include "cli/commands/run_hosts.h"
#include "cli/commands/run_options.h"
#include "cli/commands/torchrun_flags.h"
#include "cli/embedded.h"
#include "cli/frame/output.h"
#include "cli/show/display.h"
#include "core/base/console.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/process.h"
#include "core/cluster/kubernetes/pod_run.h"
#include "core/launch/hosts/roster_file.h"
#include "core/launch/hosts/slurm.h"
#include "core/launch/run/run_folder.h"
#include "core/launch/run/run_tensorboard.h"
#include "core/net/tcp.h"

namespace adaptdl::cli {
namespace {

Display::Options display_options(const Arguments& arguments) {
  Display::Options options{.fd = STDERR_FILENO, .quiet = arguments.quiet()};
  options.moving = is_fancy(STDERR_FILENO, arguments.flag("no-color"));
  // Events and a moving display on one terminal would overwrite each other.
  if (arguments.json() && isatty(STDOUT_FILENO) != 0) options.moving = false;
  options.color = options.moving;
  options.verbose = arguments.verbose();
  options.utf8 = is_utf8();
  return options;
}

// It needs neither the program nor what trains it.
int run_as_witness(const Arguments& arguments) {
  if (!arguments.rest().empty() && !arguments.positional("PROGRAM")) {
    throw UsageError("--witness: only for training archives; a command's hosts share a folder.");
  }
  const bool quiet = arguments.quiet();
  const launch::Talk talk_to = [quiet](const std::string& line) {
    if (!quiet) talk("adaptdl: " + printable(line));
  };
  launch::RunOptions options = witness_options(arguments);
  const HostOfRun host = witness_of_run(arguments, options, talk_to);
  return run_host(host, options, nullptr, talk_to);
}

// The run has ended, and its exit code stays even if this fails.
void forget_hosts(const std::string& checkpoint_dir, const launch::Talk& talk_to) {
  try {
    launch::RosterFile(checkpoint_dir).forget();
  } catch (const Error& error) {
    talk_to(fmt::format("cannot remove the list of this run's hosts: {}", error.what()));
  }
}

int run_run(const Arguments& arguments) {
  if (arguments.flag("witness")) return run_as_witness(arguments);
  if (!arguments.positional("PROGRAM")) {
    if (arguments.rest().empty()) {
      throw UsageError(
          "PROGRAM is missing: a training archive (train.pt), or a command after --: `adaptdl run "
          "--replicas 2 -- python3 train.py`.");
    }
    return run_as_command(arguments, command_options(arguments));
  }
  check_run_flags(arguments, false);
  const std::string program = *arguments.positional("PROGRAM");
  if (program.ends_with(".py") && path_exists(program)) {
    fail(
        "{}: neither a training archive nor an executable made with the runtime library; run a "
        "script with its interpreter: `adaptdl run -- python3 {}`",
        program, program);
  }
  raise_descriptor_limit();  // each replica needs some
  launch::RunOptions options = run_options(arguments);
  // Shared with the sinks: a blocked sink outlives this function.
  const auto display = std::make_shared<Display>(display_options(arguments));
  const launch::Talk talk_to = [display](const std::string& line) { display->talk(line); };
  std::string charts_folder = arguments.text("tensorboard");
  std::shared_ptr<kubernetes::HintPoster> hints;
  std::optional<HostOfRun> host;
  const launch::SlurmNotice slurm;
  if (const auto pod = kubernetes::pod_run(); pod && !options.evaluate) {
    for (const char* flag : {"hosts", "nnodes"}) {
      if (!arguments.given(flag)) continue;
      throw UsageError(
          fmt::format("--{}: in a job, its replicas are on other hosts anyway.", flag));
    }
    if (options.spares > 0) throw UsageError("--spares: not in a job.");
    if (options.mirror) {
      throw UsageError("--checkpoint-mirror: on one machine only, not in a job.");
    }
    kubernetes::set_pod_options(
        *pod, [&](const char* flag) { return arguments.given(flag); }, options);
    auto lost = launch::take_succession();
    if (pod->rank != 0 && !lost) return kubernetes::run_pod_agent(*pod, options, talk_to);
    // By which a pod that takes over sees that it was left out (takeover.h).
    options.hosts->remember = launch::roster_keeper(options.checkpoint_dir, talk_to);
    hints = std::make_shared<kubernetes::HintPoster>(*pod, talk_to);
    if (lost) {
      kubernetes::set_successor_options(std::move(*lost), options);
      options.hosts->announce = [hints] { hints->lead(); };
    }
    if (!arguments.given("tensorboard")) charts_folder = kubernetes::pod_tensorboard_folder();
    options.on_hints = [&](const Json& newest) { hints->post(newest); };
  } else {
    host = host_of_run(arguments, options, talk_to);
    if (const auto code = follow(host, arguments, options, talk_to)) return *code;
    if (const std::string advice = launch::unused_nodes(); !host && !advice.empty()) {
      talk_to(advice);
    }
  }
  const auto stream = std::make_shared<JsonStream>(arguments.integer("step-events"));
  std::shared_ptr<launch::TensorBoard> charts;
  std::vector<launch::EventSink> sinks;
  sinks.push_back([display](const Json& event) { display->event(event); });
  if (hints) sinks.push_back([hints](const Json& event) { hints->event(event); });
  if (arguments.json()) {
    sinks.push_back([stream](const Json& event) { stream->event(event); });
  }
  if (!charts_folder.empty()) {
    // Only who has typed a folder, and starts the run, is to mend it first.
    const bool must = arguments.given("tensorboard") && !options.succeeds;
    charts = must ? std::make_shared<launch::TensorBoard>(charts_folder, options.name)
                  : launch::charts_if_possible(charts_folder, options.name, talk_to);
    if (charts) sinks.push_back([charts](const Json& event) { charts->event(event); });
  }
  if (arguments.verbose()) {
    display->talk(fmt::format("worker {}, LibTorch {}; checkpoints in {}, logs in {}",
                              options.worker_path.empty() ? "embedded" : options.worker_path,
                              options.libtorch_dir.empty() ? "as built" : options.libtorch_dir,
                              options.checkpoint_dir.empty() ? "no folder" : options.checkpoint_dir,
                              options.log_dir.empty() ? "no folder" : options.log_dir));
  }
  RemotePart remote(host, arguments, options, talk_to);
  int code = 0;
  for (const TimePoint begun = Monotonic::now();;) {
    try {
      code = remote.finish(launch::run(options, sinks, talk_to));
      break;
    } catch (const launch::FolderInUse&) {
      // Those that go on without a lost launcher may just have agreed on another one.
      if (!host || !host->may_join_others() || seconds_since(begun) > kElection.count()) throw;
    } catch (const launch::LedElsewhere&) {
      if (!host || !host->may_join_others()) throw;  // the agent of this host does
    }
    options.hosts.reset();  // with its port
    host = host_of_run(arguments, options, talk_to);
    if (const auto ended = follow(host, arguments, options, talk_to)) return *ended;
  }
  tell_end(host, code, talk_to);
  const bool others_go_on = !host && code >= 128;  // a pod may have left the run to them
  if (options.hosts && !others_go_on) forget_hosts(options.checkpoint_dir, talk_to);

  RunState state = display->finish();
  if (charts && !state.already) state.charts_dir = absolute_path(charts_folder);
  if (charts && !charts->problem().empty()) talk("adaptdl: " + charts->problem());
  // First: whoever does not read the summary may hold up this process.
  if (code == static_cast<int>(ExitCode::terminated)) slurm.requeue_job(state.training, talk_to);
  bool all_printed = !stream->broken();
  if (!arguments.json() && state.ended) {
    all_printed = print_at_end(options.evaluate && code == 0 ? evaluation(state) : summary(state));
  }
  return code == 0 && !all_printed ? static_cast<int>(ExitCode::error) : code;
}

}  // namespace

Command run_command() {
  return {
      .name = "run",
      .summary = "Train, or run any command, on this machine with any number of replicas",
      .text = embedded("run.md"),
      .options =
          {
              {.name = "replicas",
               .kind = Kind::text,
               .value = "N|MIN:MAX|auto",
               .fallback = "1",
               .doc = "Number of replicas; MIN:MAX starts with MAX; auto is one for each GPU or, "
                      "without GPUs, for each core. More replicas than GPUs share them. Also "
                      "--nproc-per-node.",
               .other_name = "nproc-per-node"},
              {.name = "replicas-at",
               .kind = Kind::text,
               .value = "STEP:N,...",
               .doc = "Rescale to N replicas at this step."},
              {.name = "spares",
               .kind = Kind::integer,
               .value = "N",
               .fallback = "0",
               .doc =
                   "Replicas beside those that train, which have loaded the program and take the "
                   "place of one that dies at once.",
               .min = 0,
               .max = launch::kMaxReplicas},
              {.name = "replace-stragglers",
               .doc = "Replace a replica that is much slower than the others, at most one in 5 "
                      "minutes; by default it is only named."},
              {.name = "name",
               .kind = Kind::text,
               .value = "NAME",
               .doc = "Name of the run. Default: an archive's setting name, else the file name of "
                      "the program, or of a command's script, without its suffix."},
              set_option(),
              {.name = "from",
               .kind = Kind::file,
               .value = "FILE",
               .doc = "Start a new run with the weights in FILE, a model.pt or .safetensors file "
                      "(setting from.path; --set from.ignore, --set from.rename)."},
              {.name = "evaluate",
               .doc = "Do not train: evaluate the newest checkpoint, or the weights of --from, on "
                      "the validation data."},
              {.name = "deterministic",
               .doc = "Train bitwise the same weights for any number of replicas, rescales, deaths "
                      "and restarts (setting deterministic). On CPUs, one thread a replica."},
              {.name = "fresh",
               .doc = "Start from scratch: remove the files of an earlier run of this name; of a "
                      "command, its checkpoints."},
              {.name = "checkpoint-dir",
               .kind = Kind::directory,
               .value = "DIR",
               .doc = "Folder for checkpoints. Default: NAME.run/checkpoints beside PROGRAM, "
                      "or in the current folder."},
              {.name = "checkpoint-mirror",
               .kind = Kind::text,
               .value = "s3://BUCKET/PREFIX",
               .doc = "Keep the newest checkpoints in an object store, too, and continue from "
                      "there if it has a newer one than --checkpoint-dir."},
              {.name = "output",
               .kind = Kind::directory,
               .value = "DIR",
               .doc = "Folder for model.pt and best.pt. Default: NAME.run beside PROGRAM."},
              {.name = "log-dir",
               .kind = Kind::directory,
               .value = "DIR",
               .doc = "Folder for the replicas' logs. Default: NAME.run/logs beside PROGRAM, "
                      "or in the current folder."},
              {.name = "tensorboard",
               .kind = Kind::directory,
               .value = "DIR",
               .doc = "Write TensorBoard event files to this folder. Default: none; in a job on "
                      "Kubernetes, that of its TensorBoard instance."},
              {.name = "max-restarts",
               .kind = Kind::integer,
               .value = "N",
               .fallback = "3",
               .doc = "Number of deaths in a row, with no finished step in between, after which "
                      "the run fails; of a command, failures with neither a checkpoint nor ten "
                      "minutes in between.",
               .min = 0,
               .max = 1000000},
              {.name = "hang-timeout",
               .kind = Kind::text,
               .value = "SECONDS|off",
               .fallback = "300",
               .doc = "Kill and replace a replica for which the others have waited this many "
                      "seconds in a step, and 20 times the longest step; restart all replicas "
                      "if nothing happens at all for so long."},
              {.name = "device",
               .kind = Kind::choice,
               .value = "cpu|gpu|auto",
               .fallback = "auto",
               .doc = "Device to train on; auto uses GPUs if the worker and LibTorch support them. "
                      "Of a command: gpu shows each replica one GPU, cpu none, auto all.",
               .choices = {"cpu", "gpu", "auto"}},
              {.name = "threads",
               .kind = Kind::integer,
               .value = "N",
               .fallback = "0",
               .doc = "Threads of each replica; 0 divides the cores among the replicas.",
               .min = 0,
               .max = 4096},
              {.name = "hosts",
               .kind = Kind::text,
               .value = "HOST[:N],...",
               .doc = "Train on these hosts together, with N replicas on each, by default "
                      "--replicas. This machine is one of them, and starts the others over ssh."},
              {.name = "nnodes",
               .kind = Kind::text,
               .value = "N|MIN:MAX",
               .fallback = "1",
               .doc = "Number of hosts that train together, each with --replicas replicas; run the "
                      "same command on each. Training starts when MIN are there. In srun and "
                      "mpirun all tasks by default."},
              {.name = "rdzv-endpoint",
               .kind = Kind::text,
               .value = "HOST[:PORT]",
               .doc = "With --nnodes: the host that leads the run, and a free port on it, by "
                      "default 29400. Without it, hosts meet by --checkpoint-dir and --node-rank."},
              {.name = "node-rank",
               .kind = Kind::integer,
               .value = "N",
               .doc = "With --nnodes: 0 leads, whatever the name of this host; others do not. "
                      "Default: the task's rank in srun and mpirun; elsewhere the host that "
                      "--rdzv-endpoint names leads.",
               .min = 0,
               .max = 1000000},
              {.name = "witness",
               .doc =
                   "With --nnodes and --rdzv-endpoint: this host trains nothing, but counts when "
                   "hosts have lost each other. PROGRAM may be absent; then give --name."},
              {.name = "rdzv-key",
               .kind = Kind::file,
               .value = "FILE",
               .doc = "With --nnodes: the key that all hosts of a run must have, made if there is "
                      "none; - reads it from standard input, at whose end this host leaves. "
                      "Default: hosts.key in adaptdl's configuration folder."},
              {.name = "host-timeout",
               .kind = Kind::integer,
               .value = "SECONDS",
               .fallback = "20",
               .doc = "On several hosts: one that is silent for so long is lost. Shorter cuts of "
                      "the network only delay the run.",
               .min = 1,
               .max = 3600},
              {.name = "interface",
               .kind = Kind::text,
               .value = "NAME|ADDRESS",
               .doc = "With several hosts: the network interface of this host at which others "
                      "reach its replicas, such as eth1, or its address. Default: any that "
                      "answers, first that of the default route."},
              {.name = "advertise",
               .kind = Kind::text,
               .value = "ADDRESS",
               .doc = "With several hosts: the address to which others connect to reach this one "
                      "(NAT). Default: those of its interfaces."},
              {.name = "ports",
               .kind = Kind::text,
               .value = "FIRST-LAST",
               .doc = "With several hosts: the TCP ports at which this host's replicas listen, "
                      "one each. Default: any that are free."},
              {.name = "plain-links",
               .doc = "Replicas on different hosts exchange parameters and gradients unencrypted, "
                      "for a network that you trust."},
              {.name = "links",
               .kind = Kind::integer,
               .value = "N",
               .fallback = "1",
               .doc = "With several hosts: TCP connections between each two of them for "
                      "parameters and gradients, by as many of their interfaces as answer. More "
                      "than 1 where the network limits each connection.",
               .min = 1,
               .max = kMaxLinks},
              {.name = "no-nccl",
               .doc = "Replicas exchange what is on their GPUs through host memory, not by NCCL."},
              {.name = "grace",
               .kind = Kind::text,
               .value = "TIME",
               .fallback = "30s",
               .doc = "Commands: time from SIGTERM to SIGKILL, in which a checkpoint can be "
                      "written."},
              {.name = "redirects",
               .letter = 'r',
               .kind = Kind::text,
               .value = "STREAMS",
               .doc =
                   "Commands: write these only to the logs: 1 standard output, 2 standard error, "
                   "3 both; RANK:STREAMS,... for single replicas. Default: 0."},
              {.name = "tee",
               .letter = 't',
               .kind = Kind::text,
               .value = "STREAMS",
               .doc = "Commands: show these despite --redirects."},
              {.name = "local-ranks-filter",
               .kind = Kind::text,
               .value = "RANK,...",
               .doc = "Commands: show the output of these replicas only. Default: all."},
              {.name = "role",
               .kind = Kind::text,
               .value = "NAME",
               .fallback = "default",
               .doc = "Commands: ROLE_NAME of the replicas, and the prefix of their lines."},
              {.name = "standalone", .doc = "In srun and mpirun: each task is a run of its own."},
              format_option("Output format; text shows progress and a summary, json prints events, "
                            "one a line."),
              {.name = "step-events",
               .kind = Kind::integer,
               .value = "N",
               .fallback = "1",
               .doc = "With -o json, print every Nth step only; 0: none.",
               .min = 0},
          },
      .positionals =
          {{.name = "PROGRAM",
            .kind = Kind::file,
            .doc = "A training archive (train.pt), or an executable that uses the runtime library. "
                   "Without it, the command after -- runs.",
            .required = false}},
      .examples = {{"adaptdl run digits/train.pt --replicas 1:3", "Train with up to 3 replicas."},
                   {"adaptdl run digits/train.pt --replicas-at 100:3,300:2",
                    "Start with 1, go to 3 at step 100 and to 2 at step 300."},
                   {"adaptdl run train.pt --fresh --set optimizer.lr=0.05 -o json",
                    "Start from scratch with another learning rate, and print the events."},
                   {"adaptdl run digits/train.pt --evaluate --from digits/digits.run/model.pt",
                    "Print the metrics of a trained model."},
                   {"adaptdl run --replicas 2 -- python3 train.py --epochs 3",
                    "Run a script for torchrun or Python AdaptDL as 2 replicas."},
                   {"adaptdl run train.pt --hosts localhost:4,node2:8",
                    "Train on this machine and on node2, which is reached over ssh."}},
      .arguments_after_dashes = true,
      .instead_of = instead_of_torchrun_flag,
      .run = run_run};
}

}  // namespace adaptdl::cli
