#include <cerrno>
#include <csignal>
#include <unistd.h>

#include "cli/cluster_jobs.h"
#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/job_logs.h"
#include "cli/job_request.h"
#include "cli/job_wait.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/yaml_text.h"

namespace adaptdl::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

// Ctrl-C ends the waiting; a second one ends the process.
void catch_interrupt() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

struct Detached {};

int wait_for_end(ClusterJobs& cluster, const std::string& name, const Arguments& arguments) {
  catch_interrupt();
  std::function<void(bool ended)> logs = [](bool) {};
  if (arguments.flag("follow")) logs = job_log_printer(cluster, name);
  try {
    const WaitResult result =
        wait_for_jobs(cluster, {name}, WaitGoal::succeeded, std::nullopt, [&] {
          if (interrupted != 0) throw Detached();
          logs(false);
        });
    logs(true);
    if (!arguments.quiet()) talk(result.sentence);
    return static_cast<int>(result.code);
  } catch (const Detached&) {
    talk(fmt::format("\n{} goes on; `adaptdl wait {}` waits for it, `adaptdl cancel {}` ends it.",
                     name, name, name));
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

int run(const Arguments& arguments) {
  const auto cluster = open_cluster(arguments);
  const auto request = cluster->request(arguments);
  const std::string format = arguments.text("format");
  if (arguments.flag("dry-run")) {
    if (!arguments.quiet()) {
      for (const std::string& note : request->notes()) talk("adaptdl: " + note);
    }
    return print_spec(request->spec(), format);
  }
  const auto [name, message] = request->send();
  if (format == "text") {
    print_line(name);
  } else {
    print_json({{"name", name}});
  }
  if (!message.empty() && !arguments.quiet()) {
    talk(fmt::format("adaptdl: {} waits until it can run: {}; `adaptdl cancel {}` ends it", name,
                     message, name));
  }
  if (arguments.flag("wait") || arguments.flag("follow")) {
    return wait_for_end(*cluster, name, arguments);
  }
  if (!arguments.quiet() && isatty(STDERR_FILENO) != 0) {
    talk(fmt::format("`adaptdl logs -f {}` follows it.", name));
  }
  return 0;
}

}  // namespace

Command submit_command() {
  return {
      .name = "submit",
      .summary = "Have a project, an archive or a command run as a job",
      .text = embedded("cmd_submit.md"),
      .options = with_cluster(
          {{.name = "file",
            .letter = 'f',
            .kind = Kind::file,
            .value = "FILE",
            .doc = "Job file (adaptdl-job(5)), - for standard input. Default: adaptdljob.yaml in "
                   "SOURCE.",
            .other_name = "jobfile"},
           {.name = "name",
            .letter = 'n',
            .kind = Kind::text,
            .value = "NAME",
            .doc = "How the job's name begins; five characters are added to it. Default: by job "
                   "file or program."},
           {.name = "replicas",
            .kind = Kind::text,
            .value = "N|MIN:MAX",
            .doc = "Replicas that it may have. Default: by job file, or as many as the scheduler "
                   "finds best."},
           set_option(),
           {.name = "tensorboard",
            .kind = Kind::text,
            .value = "NAME",
            .doc = "The TensorBoard instance to write to. On this machine it is made if there is "
                   "none."},
           {.name = "wait", .doc = "Wait for the job's end; the exit status says how it ended."},
           {.name = "follow", .doc = "As --wait, and show what its replicas print."},
           {.name = "dry-run", .doc = "Check everything and print what would be submitted."},
           {.name = "no-start", .doc = "Fail if no service runs, instead of starting it."},
           {.name = "image",
            .kind = Kind::text,
            .value = "IMAGE",
            .doc = "Kubernetes: run this image as it is, instead of making one of SOURCE."},
           {.name = "base",
            .kind = Kind::text,
            .value = "IMAGE",
            .doc = "Kubernetes: what SOURCE is put on where it has no Dockerfile. Default: the "
                   "job file's image."},
           {.name = "dockerfile",
            .letter = 'd',
            .kind = Kind::file,
            .value = "FILE",
            .doc = "Kubernetes: make the image by it. Default: Dockerfile in SOURCE."},
           {.name = "platform",
            .kind = Kind::text,
            .value = "OS/ARCH",
            .doc = "Kubernetes: make the image for it. Default: the nodes' own."},
           {.name = "repo",
            .kind = Kind::text,
            .value = "REPO",
            .doc = "Kubernetes: where to push the image, REGISTRY/NAME. Default: the cluster's own "
                   "registry."},
           {.name = "repo-creds",
            .kind = Kind::text,
            .value = "SECRET",
            .doc = "Kubernetes: the Secret that pods pull the image with."},
           {.name = "proxy-port",
            .kind = Kind::integer,
            .value = "PORT",
            .doc = "Kubernetes: taken as AdaptDL has it, and not needed.",
            .min = 1,
            .max = 65535},
           {.name = "checkpoint-storage-size",
            .kind = Kind::text,
            .value = "SIZE",
            .fallback = "1Gi",
            .doc = "Kubernetes: of the job's volume for checkpoints and shared files."},
           {.name = "checkpoint-storage-class",
            .kind = Kind::text,
            .value = "NAME",
            .doc = "Kubernetes: its storage class. Default: one known to be shared among nodes, "
                   "else the cluster's."},
           {.name = "format",
            .letter = 'o',
            .kind = Kind::choice,
            .value = "text|json|yaml",
            .fallback = "text",
            .doc = "How to print the result.",
            .choices = {"text", "json", "yaml"}}},
          0),
      .positionals = {{.name = "SOURCE",
                       .kind = Kind::file,
                       .doc =
                           "A folder with a job file, a training archive (train.pt), or a program. "
                           "None: what follows -- is run as it stands.",
                       .required = false}},
      .examples = {{"adaptdl submit digits/train.pt --replicas 1:4",
                    "Train it, with 1 to 4 replicas."},
                   {"adaptdl submit project --follow", "What project/adaptdljob.yaml says."},
                   {"adaptdl submit project -- --lr 0.1", "The same with other arguments."},
                   {"adaptdl submit project --cluster lab --repo registry.example.com/me/net",
                    "As an image, on Kubernetes."},
                   {"adaptdl submit -- python3 train.py", "A command, in this folder."}},
      .arguments_after_dashes = true,
      .run = run};
}

}  // namespace adaptdl::cli
