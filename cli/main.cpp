#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "cli/commands/kubectl_completion.h"
#include "cli/frame/help.h"
#include "cli/frame/invocation.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "core/base/log.h"
#include "core/base/version.h"

namespace adaptdl::cli {
namespace {

// A descriptor 0, 1 or 2 that the caller closed must not become some file that we open later.
// What stands in its place cannot be used in the wrong direction: writing still fails.
void occupy_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) < 0) {
      [[maybe_unused]] const int opened = open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
    }
  }
}

const char* variable(const char* name) {
  return std::getenv(name);
}

void complain(const std::vector<std::string>& words, const std::string& sentence) {
  const bool fancy = is_fancy(STDERR_FILENO, disables_color(words, variable));
  talk((fancy ? "\x1b[31;1madaptdl:\x1b[0m " : "adaptdl: ") + printable(sentence));
}

std::string help_of(const Parsed& parsed, bool fancy) {
  if (parsed.command != nullptr) return command_help(*parsed.command, fancy);
  return parsed.group != nullptr ? group_help(*parsed.group, fancy) : program_help(fancy);
}

int dispatch(const std::vector<std::string>& words) {
  const Parsed parsed = parse(words, variable);
  switch (parsed.what) {
    case Parsed::What::version:
      print_line(version_line());
      return 0;
    case Parsed::What::help: {
      const bool fancy = is_fancy(STDOUT_FILENO, parsed.arguments.flag("no-color"));
      print(help_of(parsed, fancy));
      return 0;
    }
    case Parsed::What::command:
      break;
  }
  return parsed.command->run(parsed.arguments);
}

int guarded(Invocation invocation, const std::vector<std::string>& words) {
  try {
    return invocation == Invocation::kubectl_completion ? complete_for_kubectl(words)
                                                        : dispatch(words);
  } catch (const OutputClosed& closed) {
    return static_cast<int>(closed.exit_code());
  } catch (const UsageError& error) {
    complain(words, error.what());
    talk(fmt::format("See `{}`.", help_hint(words)));
    return static_cast<int>(error.exit_code());
  } catch (const Error& error) {
    complain(words, error.what());
    return static_cast<int>(error.exit_code());
  } catch (const std::bad_alloc&) {
    complain(words, "out of memory.");
  } catch (const std::exception& error) {
    complain(words, fmt::format("unexpected: {}", error.what()));
  }
  return static_cast<int>(ExitCode::error);
}

}  // namespace
}  // namespace adaptdl::cli

int main(int argc, char** argv) {
  using namespace adaptdl::cli;
  // A closed pipe is an error of that write, not the end of a training run.
  std::signal(SIGPIPE, SIG_IGN);
  occupy_standard_descriptors();
  const Invocation invocation = set_invocation(argc > 0 ? argv[0] : "");
  return guarded(invocation, std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
