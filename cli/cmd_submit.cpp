#include <cerrno>
#include <csignal>
#include <unistd.h>

#include "cli/cluster_choice.h"
#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/incoming_project.h"
#include "cli/job_logs.h"
#include "cli/job_wait.h"
#include "cli/jobs.h"
#include "cli/known_clusters.h"
#include "cli/local_jobs.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/service_start.h"
#include "cli/submission.h"
#include "cli/tensorboard_process.h"
#include "cli/yaml_text.h"
#include "core/base/files.h"

namespace adaptdl::cli {
namespace {

constexpr Seconds kAnswerPatience{60};  // the machine may be busy, and the disk slow

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

int print_spec(const Submission& submission, const std::string& format) {
  const Json spec = to_json(submission.spec);
  if (format == "json") {
    print_json(spec);
  } else {
    print(yaml_text(spec, false));
  }
  return 0;
}

void say_notes(const Submission& submission, const Arguments& arguments) {
  if (arguments.quiet()) return;
  for (const std::string& note : submission.notes) talk("adaptdl: " + note);
}

void ensure_service(const Arguments& arguments) {
  if (local::service_runs()) return;
  if (arguments.flag("no-start")) {
    fail("no adaptdl service runs, and --no-start says to start none; `adaptdl serve` does");
  }
  start_service();
  if (!arguments.quiet()) {
    talk("Started the adaptdl service; `adaptdl serve --stop` ends it, and leaves jobs alone.");
  }
}

int run(const Arguments& arguments) {
  require_local_cluster(arguments, "this command knows only the local one yet");
  Submission submission = read_submission(arguments);
  const std::string format = arguments.text("format");
  if (arguments.flag("dry-run")) {
    say_notes(submission, arguments);
    return print_spec(submission, format);
  }
  ensure_service(arguments);
  if (!submission.spec.tensorboard.empty()) {
    make_directories(tensorboard_folder(submission.spec.tensorboard), 0700);
  }
  IncomingProject project(submission, arguments.quiet());
  say_notes(submission, arguments);
  const Json answer = local::request_service(
      {{"request", "submit"}, {"spec", to_json(submission.spec)}, {"project", project.path()}},
      kAnswerPatience);
  project.keep();
  const auto name = json_get<std::string>(answer, "name", "service");
  if (format == "text") {
    print_line(name);
  } else {
    print_json({{"name", name}});
  }
  const auto message = json_get_or<std::string>(answer, "message", "service", "");
  if (!message.empty() && !arguments.quiet()) {
    talk(fmt::format("adaptdl: {} waits until it can run: {}; `adaptdl cancel {}` ends it", name,
                     message, name));
  }
  if (const std::string hint = arguments.quiet() ? "" : cluster_hint(); !hint.empty()) {
    talk("adaptdl: " + hint);
  }
  if (arguments.flag("wait") || arguments.flag("follow")) {
    return wait_for_end(*open_local_jobs(), name, arguments);
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
                   "SOURCE."},
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
            .doc = "The TensorBoard instance to write to; made if there is none."},
           {.name = "wait", .doc = "Wait for the job's end; the exit status says how it ended."},
           {.name = "follow", .doc = "As --wait, and show what its replicas print."},
           {.name = "dry-run", .doc = "Check everything and print what would be submitted."},
           {.name = "no-start", .doc = "Fail if no service runs, instead of starting it."},
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
                   {"adaptdl submit -- python3 train.py", "A command, in this folder."}},
      .arguments_after_dashes = true,
      .run = run};
}

}  // namespace adaptdl::cli
