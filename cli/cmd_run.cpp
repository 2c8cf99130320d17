#include <atomic>
#include <memory>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/display.h"
#include "cli/embedded.h"
#include "cli/output.h"
#include "cli/pod_run.h"
#include "cli/run_setup.h"
#include "cli/tensorboard.h"
#include "core/base/process.h"
#include "core/launch/run.h"

namespace adaptdl::cli {
namespace {

// The event stream on standard output. Once it cannot be written, training goes on without it, and
// the command ends with exit code 1, and with the reason unless it is that nobody reads any more.
class JsonStream {
 public:
  explicit JsonStream(int64_t every) : every_(every) {}

  void event(const Json& event) {
    if (broken_ || is_thinned_out(event)) return;
    try {
      print_json(event);
    } catch (const OutputClosed&) {
      broken_ = true;
    } catch (const Error& error) {
      talk(fmt::format("adaptdl: {}; training goes on without its events", error.what()));
      broken_ = true;
    }
  }
  bool broken() const { return broken_; }

 private:
  bool is_thinned_out(const Json& event) const {
    const auto kind = event.find("event");
    if (every_ == 1 || kind == event.end() || *kind != "step") return false;
    const auto step = event.find("step");
    if (every_ == 0 || step == event.end() || !step->is_number_integer()) return true;
    return step->get<int64_t>() % every_ != 0;
  }

  const int64_t every_;
  std::atomic<bool> broken_{false};
};

Display::Options display_options(const Arguments& arguments) {
  Display::Options options{.fd = STDERR_FILENO, .quiet = arguments.quiet()};
  options.moving = is_fancy(STDERR_FILENO, arguments.flag("no-color"));
  // Events and a moving display on one screen would write over each other.
  if (arguments.json() && isatty(STDOUT_FILENO) != 0) options.moving = false;
  options.color = options.moving;
  options.verbose = arguments.verbose();
  options.utf8 = is_utf8();
  return options;
}

int run(const Arguments& arguments) {
  raise_descriptor_limit();  // some for each replica
  launch::RunOptions options = run_options(arguments);
  // Shared with the sinks: a sink that hangs outlives this function.
  const auto display = std::make_shared<Display>(display_options(arguments));
  const launch::Talk talk_to = [display](const std::string& line) { display->talk(line); };
  std::unique_ptr<HintPoster> hints;
  if (const auto pod = pod_run()) {
    set_pod_options(*pod, arguments, options);
    if (pod->rank != 0) return run_pod_agent(*pod, options, talk_to);
    hints = std::make_unique<HintPoster>(*pod, talk_to);
    options.on_hints = [&](const Json& newest) { hints->post(newest); };
  }
  const auto stream = std::make_shared<JsonStream>(arguments.integer("step-events"));
  std::shared_ptr<TensorBoard> charts;
  std::vector<launch::EventSink> sinks;
  sinks.push_back([display](const Json& event) { display->event(event); });
  if (arguments.json()) {
    sinks.push_back([stream](const Json& event) { stream->event(event); });
  }
  if (arguments.given("tensorboard")) {
    charts = std::make_shared<TensorBoard>(arguments.text("tensorboard"), options.name);
    sinks.push_back([charts](const Json& event) { charts->event(event); });
  }
  if (arguments.verbose()) {
    display->talk(fmt::format("worker {}, LibTorch {}; checkpoints in {}, logs in {}",
                              options.worker_path.empty() ? "embedded" : options.worker_path,
                              options.libtorch_dir.empty() ? "as built" : options.libtorch_dir,
                              options.checkpoint_dir, options.log_dir));
  }
  const int code = launch::run(options, sinks, talk_to);

  const RunState state = display->finish();
  if (charts && !charts->problem().empty()) talk("adaptdl: " + charts->problem());
  if (!arguments.json() && state.ended) print(summary(state));
  return code == 0 && stream->broken() ? static_cast<int>(ExitCode::error) : code;
}

}  // namespace

Command run_command() {
  return {
      .name = "run",
      .summary = "Train a program on this machine with any number of replicas",
      .text = embedded("cmd_run.md"),
      .options =
          {
              {.name = "replicas",
               .kind = Kind::text,
               .value = "N|MIN:MAX|auto",
               .fallback = "1",
               .doc = "Replicas to train with; MIN:MAX starts with MAX; auto takes one for each "
                      "GPU or, without any, for each core."},
              {.name = "replicas-at",
               .kind = Kind::text,
               .value = "STEP:N,...",
               .doc = "Change to N replicas at that step."},
              {.name = "name",
               .kind = Kind::text,
               .value = "NAME",
               .doc = "Name of the run. Default: the program's file name without its suffix."},
              set_option(),
              {.name = "fresh", .doc = "Start over: remove what an earlier run of this name left."},
              {.name = "checkpoint-dir",
               .kind = Kind::directory,
               .value = "DIR",
               .doc = "Folder of the checkpoints. Default: NAME.run/checkpoints beside PROGRAM."},
              {.name = "output",
               .kind = Kind::directory,
               .value = "DIR",
               .doc = "Folder where model.pt goes. Default: NAME.run beside PROGRAM."},
              {.name = "log-dir",
               .kind = Kind::directory,
               .value = "DIR",
               .doc = "Folder of the replicas' logs. Default: NAME.run/logs beside PROGRAM."},
              {.name = "tensorboard",
               .kind = Kind::directory,
               .value = "DIR",
               .doc = "Write TensorBoard event files into this folder."},
              {.name = "max-restarts",
               .kind = Kind::integer,
               .value = "N",
               .fallback = "3",
               .doc = "Deaths in a row, without a finished step between, that end the run.",
               .min = 0,
               .max = 1000000},
              {.name = "hang-timeout",
               .kind = Kind::text,
               .value = "SECONDS|off",
               .fallback = "300",
               .doc = "Kill and replace a replica for which the others have waited that long in a "
                      "step, and 20 times as long as the longest step took."},
              {.name = "device",
               .kind = Kind::choice,
               .value = "cpu|gpu|auto",
               .fallback = "auto",
               .doc = "Where to train; auto takes GPUs if worker and LibTorch can.",
               .choices = {"cpu", "gpu", "auto"}},
              {.name = "threads",
               .kind = Kind::integer,
               .value = "N",
               .fallback = "0",
               .doc = "Threads of each replica; 0 shares the cores out.",
               .min = 0,
               .max = 4096},
              format_option("text shows the training and ends with a summary; json prints the "
                            "events, one a line."),
              {.name = "step-events",
               .kind = Kind::integer,
               .value = "N",
               .fallback = "1",
               .doc = "With -o json, only steps that N divides; 0 = none.",
               .min = 0},
          },
      .positionals = {{.name = "PROGRAM",
                       .kind = Kind::file,
                       .doc = "A training archive (train.pt), or an executable of the runtime "
                              "library."}},
      .examples = {{"adaptdl run digits/train.pt --replicas 1:3", "Train with up to 3 replicas."},
                   {"adaptdl run digits/train.pt --replicas-at 100:3,300:2",
                    "Start with 1, go to 3 at step 100 and to 2 at step 300."},
                   {"adaptdl run train.pt --fresh --set optimizer.lr=0.05 -o json",
                    "Start over with another learning rate and print the events."}},
      .arguments_after_dashes = true,
      .run = run};
}

}  // namespace adaptdl::cli
