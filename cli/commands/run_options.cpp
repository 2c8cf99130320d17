#include "cli/commands/run_options.h"

#include "cli/commands/run_reach.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/system.h"
#include "core/launch/paths.h"
#include "core/launch/run/worker_choice.h"
#include "core/net/s3.h"

namespace adaptdl::cli {

std::vector<std::pair<int64_t, int>> parse_replicas_at(const std::string& text) {
  std::vector<std::pair<int64_t, int>> result;
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = std::min(text.find(',', start), text.size());
    const std::string part = text.substr(start, end - start);
    const size_t colon = part.find(':');
    const auto step = try_parse<int64_t>(std::string_view(part).substr(0, colon));
    const auto count = colon == std::string::npos
                           ? std::nullopt
                           : try_parse<int>(std::string_view(part).substr(colon + 1));
    if (!step || !count || *step < 0 || *count < 1) {
      throw UsageError(fmt::format(
          "--replicas-at: {} is not STEP:N, such as 100:3 (from step 100 on, 3 replicas).", part));
    }
    if (!result.empty() && *step <= result.back().first) {
      throw UsageError(
          fmt::format("--replicas-at: step {} is not after step {}.", *step, result.back().first));
    }
    result.emplace_back(*step, *count);
    start = end + 1;
  }
  return result;
}

double parse_hang_timeout(const std::string& text) {
  if (text == "off") return 0;
  const auto seconds = try_parse<double>(text);
  if (!seconds || !(*seconds >= 1 && *seconds <= 1e9)) {
    throw UsageError(fmt::format(
        "--hang-timeout: invalid value \"{}\"; use a number of seconds, 1 or more, or off.", text));
  }
  return *seconds;
}

namespace {

// Flags about training, which an evaluation would not heed.
void check_evaluation(const Arguments& arguments) {
  if (!arguments.flag("evaluate")) return;
  for (const char* flag : {"fresh", "replicas-at", "spares", "replace-stragglers", "output",
                           "tensorboard", "checkpoint-mirror"}) {
    if (!arguments.given(flag)) continue;
    throw UsageError(
        fmt::format("--evaluate: trains and writes nothing, so --{} has no effect; "
                    "remove one of the two.",
                    flag));
  }
}

}  // namespace

launch::RunOptions run_options(const Arguments& arguments) {
  launch::RunOptions options;
  check_evaluation(arguments);
  const std::string program = *arguments.positional("PROGRAM");
  options.replicas_at = parse_replicas_at(arguments.text("replicas-at"));
  options.name = arguments.text("name");
  if (!options.name.empty()) launch::check_run_name(options.name);

  if (!path_exists(program)) fail("{}: no such file", program);
  options.program = user_path(program);
  options.settings = arguments.list("set");
  const std::string from = arguments.text("from");
  if (!from.empty()) options.settings.push_back("from.path=" + user_path(from));
  if (arguments.flag("deterministic")) {
    if (arguments.integer("threads") > 1) {
      throw UsageError(
          "--deterministic: each replica computes on one thread, so --threads has no effect; "
          "remove one of the two.");
    }
    options.settings.push_back("deterministic=true");
  }
  const launch::ProgramKind kind = launch::program_kind(options.program);
  options.arguments = arguments.rest();
  // Another worker may have arguments of its own.
  if (kind == launch::ProgramKind::archive && !options.arguments.empty() &&
      !environment_variable("ADAPTDL_WORKER")) {
    throw UsageError(fmt::format("{}.", launch::kNoArchiveArguments));
  }
  launch::choose_trainer(kind, program, options);
  options.gpus = launch::choose_gpus(arguments.text("device"), options.libtorch_dir);
  options.spares = static_cast<int>(arguments.integer("spares"));
  options.replicas =
      launch::parse_replicas(arguments.text("replicas"),
                             options.gpus > 0 ? options.gpus - options.spares : available_cores());

  // Beside the program, so that the same command finds them from every working directory.
  const std::string base = join_path(parent_directory(options.program), options.name + ".run");
  const auto folder = [&](const char* flag, const std::string& otherwise) {
    const std::string chosen = arguments.text(flag);
    return chosen.empty() ? otherwise : user_path(chosen);
  };
  options.output_dir = folder("output", base);
  options.checkpoint_dir = folder("checkpoint-dir", join_path(base, "checkpoints"));
  if (const std::string mirror = arguments.text("checkpoint-mirror"); !mirror.empty()) {
    options.mirror = {parse_s3_place(mirror, "--checkpoint-mirror"), s3_access_from_environment()};
  }
  options.log_dir = folder("log-dir", join_path(base, "logs"));
  options.max_restarts = static_cast<int>(arguments.integer("max-restarts"));
  options.threads = static_cast<int>(arguments.integer("threads"));
  options.fresh = arguments.flag("fresh");
  options.replace_stragglers = arguments.flag("replace-stragglers");
  options.plain_links = arguments.flag("plain-links");
  options.links = static_cast<int>(arguments.integer("links"));
  options.nccl = !arguments.flag("no-nccl");
  options.reach = parse_reach(arguments);
  options.hang_timeout_s = parse_hang_timeout(arguments.text("hang-timeout"));
  options.evaluate = arguments.flag("evaluate");
  if (options.evaluate) {
    options.output_dir = "";
    if (!arguments.given("log-dir")) options.log_dir = "";
    if (!from.empty()) options.checkpoint_dir = "";
  }
  return options;
}

launch::RunOptions witness_options(const Arguments& arguments) {
  launch::RunOptions options;
  options.name = arguments.text("name");
  const std::string program = arguments.positional("PROGRAM").value_or("");
  const bool here = !program.empty() && path_exists(program);
  if (options.name.empty()) {
    if (!here) {
      throw UsageError(
          "--witness: needs --name, the name of the run as its hosts show it, where PROGRAM is "
          "absent.");
    }
    options.program = user_path(program);
    options.settings = arguments.list("set");
    launch::read_program(launch::program_kind(program), program, options);
  }
  launch::check_run_name(options.name);
  const std::string parent = here ? parent_directory(user_path(program)) : absolute_path(".");
  const std::string chosen = arguments.text("checkpoint-dir");
  options.checkpoint_dir =
      user_path(chosen.empty() ? join_path(parent, options.name + ".run/checkpoints") : chosen);
  options.reach = parse_reach(arguments);
  return options;
}

}  // namespace adaptdl::cli
