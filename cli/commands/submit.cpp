#include <cerrno>
#include <csignal>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/commands/job_logs.h"
#include "cli/commands/submit_options.h"
#include "cli/commands/torchrun_flags.h"
#include "cli/embedded.h"
#include "cli/frame/cluster_flags.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "core/client/job_request.h"
#include "core/client/job_wait.h"
#include "core/formats/yaml_text.h"
#include "core/launch/io/replica_console.h"

namespace adaptdl::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

// Ctrl-C ends the wait; a second one ends the process.
void catch_interrupt() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

struct Detached {};

int wait_for_end(JobQuery& query, const std::string& name, const Arguments& arguments) {
  std::function<void(bool ended)> logs = [](bool) {};
  if (arguments.flag("follow")) logs = job_log_printer(query, name);
  try {
    const WaitResult result = wait_for_jobs(query, {name}, WaitGoal::succeeded, std::nullopt, [&] {
      if (interrupted != 0) throw Detached();
      logs(false);
    });
    logs(true);
    if (result.code != ExitCode::ok) throw Error(result.sentence, result.code);
    if (!arguments.quiet()) talk(result.sentence);
    return 0;
  } catch (const Detached&) {
    talk(fmt::format(
        "\n{} keeps running; `adaptdl wait {}` waits for it, `adaptdl cancel {}` ends it.", name,
        name, name));
    return static_cast<int>(kJobUnfinished);
  }
}

int print_spec(const Json& spec, const std::string& format) {
  if (format == "json") {
    print_json(spec);
  } else {
    print(yaml_text(spec, false));
  }
  return 0;
}

int run_submit(const Arguments& arguments) {
  for (const char* flag : {"redirects", "tee"}) {  // of no effect, but no nonsense either
    if (arguments.given(flag))
      launch::parse_streams(arguments.text(flag), "--" + std::string(flag));
  }
  const ClusterJobs cluster = open_cluster(arguments);
  const auto request = cluster.control->request(resolve_submission(submit_options(arguments)));
  const std::string format = arguments.text("format");
  if (arguments.flag("dry-run")) {
    if (!arguments.quiet()) {
      for (const std::string& note : request->notes()) talk("adaptdl: " + note);
    }
    return print_spec(request->spec(), format);
  }
  const auto [name, message] = request->send();
  const bool waits = arguments.flag("wait") || arguments.flag("follow");
  if (waits) catch_interrupt();  // before anybody knows of the job
  if (format == "text") {
    print_line(name);
  } else {
    print_json({{"name", name}});
  }
  if (!message.empty() && !arguments.quiet()) {
    talk(fmt::format("adaptdl: {} waits until it can run: {}; `adaptdl cancel {}` ends it", name,
                     message, name));
  }
  if (waits) return wait_for_end(*cluster.query, name, arguments);
  if (!arguments.quiet() && isatty(STDERR_FILENO) != 0) {
    talk(fmt::format("`adaptdl logs -f {}` follows it.", name));
  }
  return 0;
}

}  // namespace

Command submit_command() {
  return {
      .name = "submit",
      .summary = "Submit a project, an archive or a command as a job",
      .text = embedded("submit.md"),
      .options = with_cluster(
          {{.name = "file",
            .letter = 'f',
            .kind = Kind::file,
            .value = "FILE",
            .doc = "Job file (adaptdl-job(5)); - is standard input. Default: adaptdljob.yaml in "
                   "SOURCE.",
            .other_name = "jobfile"},
           {.name = "name",
            .letter = 'n',
            .kind = Kind::text,
            .value = "NAME",
            .doc = "Prefix of the job's name; five characters are appended. Default: from the job "
                   "file, folder or program."},
           {.name = "replicas",
            .kind = Kind::text,
            .value = "N|MIN:MAX|MIN:",
            .doc = "Number of replicas, or the range from which the scheduler chooses. Default: "
                   "from the job file, else any number; of a command after --, 1. Also "
                   "--nproc-per-node.",
            .other_name = "nproc-per-node"},
           {.name = "accelerators",
            .kind = Kind::text,
            .value = "NAME,...",
            .doc = "Kinds of GPUs or slots on which the job may run, such as '*A100*'; see "
                   "resources.accelerators in adaptdl-job(5). Default: from the job file, else "
                   "any."},
           {.name = "restartable",
            .doc = "Commands: it saves and exits with 143 on SIGTERM, so the scheduler may restart "
                   "it with another number of replicas, although it does not report its speed."},
           {.name = "max-restarts",
            .kind = Kind::integer,
            .value = "N",
            .doc = "Number of failures in a row, without progress in between, after which the job "
                   "fails. Default: from the job file, else 3.",
            .min = 0,
            .max = kMostRetries},
           {.name = "role",
            .kind = Kind::text,
            .value = "NAME",
            .doc = "Commands: ROLE_NAME of the replicas. Default: default."},
           {.name = "redirects",
            .letter = 'r',
            .kind = Kind::text,
            .value = "STREAMS",
            .doc = "Accepted for torchrun's sake: a job's logs have all of its output."},
           {.name = "tee",
            .letter = 't',
            .kind = Kind::text,
            .value = "STREAMS",
            .doc = "Accepted, as --redirects."},
           {.name = "standalone", .doc = "Accepted for torchrun's sake; every job is on its own."},
           set_option(),
           {.name = "tensorboard",
            .kind = Kind::text,
            .value = "NAME",
            .doc = "TensorBoard instance to write to. On this machine it is created if missing."},
           {.name = "wait", .doc = "Wait until the job ends; the exit status shows how."},
           {.name = "follow", .doc = "Like --wait, and show the output of its replicas."},
           {.name = "dry-run", .doc = "Check everything, and print what would be submitted."},
           {.name = "no-start", .doc = "Fail instead of starting the service if none runs."},
           {.name = "image",
            .kind = Kind::text,
            .value = "IMAGE",
            .doc = "Kubernetes: run this image unchanged instead of building one from SOURCE."},
           {.name = "base",
            .kind = Kind::text,
            .value = "IMAGE",
            .doc = "Kubernetes: base image for a SOURCE without a Dockerfile. Default: the job "
                   "file's image."},
           {.name = "dockerfile",
            .letter = 'd',
            .kind = Kind::file,
            .value = "FILE",
            .doc = "Kubernetes: Dockerfile to build. Default: Dockerfile in SOURCE."},
           {.name = "platform",
            .kind = Kind::text,
            .value = "OS/ARCH",
            .doc = "Kubernetes: platform of the image. Default: that of the nodes."},
           {.name = "repo",
            .kind = Kind::text,
            .value = "REPO",
            .doc = "Kubernetes: repository of the image, REGISTRY/NAME. Default: the cluster's own "
                   "registry."},
           {.name = "repo-creds",
            .kind = Kind::text,
            .value = "SECRET",
            .doc = "Kubernetes: Secret with which pods pull the image."},
           {.name = "plain-http",
            .doc = "Kubernetes: use HTTP, without credentials, for a registry on another machine; "
                   "see adaptdl-image(1)."},
           {.name = "proxy-port",
            .kind = Kind::integer,
            .value = "PORT",
            .doc = "Kubernetes: accepted for compatibility with AdaptDL, and ignored.",
            .min = 1,
            .max = 65535},
           {.name = "checkpoint-storage-size",
            .kind = Kind::text,
            .value = "SIZE",
            .fallback = kDefaultStorage,
            .doc = "Kubernetes: size of the job's volume for checkpoints and shared files."},
           {.name = "checkpoint-storage-class",
            .kind = Kind::text,
            .value = "NAME",
            .doc = "Kubernetes: storage class of that volume. Default: one that is known to be "
                   "shared among nodes, else the cluster's default."},
           {.name = "format",
            .letter = 'o',
            .kind = Kind::choice,
            .value = "text|json|yaml",
            .fallback = "text",
            .doc = "Output format.",
            .choices = {"text", "json", "yaml"}}},
          0),
      .positionals = {{.name = "SOURCE",
                       .kind = Kind::file,
                       .doc =
                           "A folder with a job file, a training archive (train.pt), or a program. "
                           "Without it, the command after -- runs in the current folder.",
                       .required = false}},
      .examples = {{"adaptdl submit digits/train.pt --replicas 1:4",
                    "Train it, with 1 to 4 replicas."},
                   {"adaptdl submit project --follow",
                    "Run project/adaptdljob.yaml and show its output."},
                   {"adaptdl submit project -- --lr 0.1", "Run it with other arguments."},
                   {"adaptdl submit project --cluster lab --repo registry.example.com/me/net",
                    "Run it on Kubernetes, as an image."},
                   {"adaptdl submit -- python3 train.py", "Run a command in this folder."}},
      .arguments_after_dashes = true,
      .instead_of = instead_of_torchrun_flag,
      .run = run_submit};
}

}  // namespace adaptdl::cli
