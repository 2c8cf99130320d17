#include "cli/commands/installing.h"

#include <iostream>
#include <unistd.h>

#include "cli/frame/output.h"
#include "cli/frame/parse.h"

namespace adaptdl::cli {

namespace {

constexpr double kLongestTimeout = 86400;  // s

kube::ClientOptions client_options(const Arguments& arguments) {
  kube::ClientOptions options;
  options.field_manager = "adaptdl-install";
  if (arguments.verbose()) options.trace = [](const std::string& line) { talk(line); };
  return options;
}

kube::ConfigOptions config_options(const Arguments& arguments) {
  return {.kubeconfig = arguments.text("kubeconfig"),
          .context = arguments.text("context"),
          .name_space = ""};
}

}  // namespace

kube::Client installer_client(const Arguments& arguments) {
  return kube::Client(kube::load_config(config_options(arguments)), client_options(arguments));
}

bool asks(const Arguments& arguments) {
  return !arguments.flag("yes") && isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0;
}

bool agreed(std::string_view question) {
  std::cerr << question << " [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

double timeout_option(const Arguments& arguments) {
  return arguments.seconds("timeout", 0, kLongestTimeout);
}

Option yes_option() {
  return {.name = "yes",
          .letter = 'y',
          .doc = "Do not ask for confirmation. Default without a terminal."};
}

}  // namespace adaptdl::cli
