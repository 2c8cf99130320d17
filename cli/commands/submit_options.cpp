#include "cli/commands/submit_options.h"

#include "core/base/error.h"
#include "core/base/text.h"

namespace adaptdl::cli {
namespace {

std::optional<std::string> if_given(const Arguments& arguments, const char* flag) {
  return arguments.given(flag) ? std::optional(arguments.text(flag)) : std::nullopt;
}

Accelerators accelerators(const Arguments& arguments) {
  if (!arguments.given("accelerators")) return {};
  const Accelerators names = split(arguments.text("accelerators"), ',');
  if (const std::string problem = accelerators_problem(names); !problem.empty()) {
    throw UsageError(fmt::format("--accelerators: {}.", problem));
  }
  return names;
}

}  // namespace

client::SubmitOptions submit_options(const Arguments& arguments) {
  const auto given = [&](const char* flag) { return if_given(arguments, flag); };
  return {.source = arguments.positional("SOURCE"),
          .words = arguments.rest(),
          .file = given("file"),
          .name = given("name"),
          .replicas = given("replicas"),
          .tensorboard = given("tensorboard"),
          .accelerators = accelerators(arguments),
          .restartable = arguments.flag("restartable"),
          .max_restarts = arguments.given("max-restarts")
                              ? std::optional(static_cast<int>(arguments.integer("max-restarts")))
                              : std::nullopt,
          .role = given("role"),
          .settings = arguments.list("set"),
          .quiet = arguments.quiet(),
          .verbose = arguments.verbose(),
          .no_start = arguments.flag("no-start"),
          .image = arguments.text("image"),
          .repository = arguments.text("repo"),
          .pull_secret = arguments.text("repo-creds"),
          .base = given("base"),
          .dockerfile = given("dockerfile"),
          .platform = given("platform"),
          .storage_size = given("checkpoint-storage-size"),
          .storage_class = arguments.text("checkpoint-storage-class"),
          .plain_http = arguments.flag("plain-http"),
          .proxy_port = arguments.given("proxy-port")};
}

}  // namespace adaptdl::cli
