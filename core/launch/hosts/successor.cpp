#include "core/launch/hosts/successor.h"

#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/base/text.h"
#include "core/formats/json.h"

namespace adaptdl::launch {
namespace {

// In the child, beside the variable that says that they are there.
constexpr int kStateFd = 3, kListenerFd = 4;
constexpr const char* kVariable = "ADAPTDL_SUCCEEDS";
constexpr size_t kMostState = 4u << 20;

std::vector<std::string> own_command() {
  std::string all = read_file("/proc/self/cmdline", kMostState);
  if (!all.empty()) all.pop_back();  // the last NUL
  return split(all, '\0');
}

}  // namespace

Child start_successor(int listener, const Roster& roster, const std::string& secret) {
  const std::string state = dump_json({{"roster", to_json(roster)}, {"secret", secret}});
  const Fd file(memfd_create("adaptdl-succession", MFD_CLOEXEC));
  if (!file) fail_errno(errno, "memfd_create");
  if (::write(file.get(), state.data(), state.size()) != static_cast<ssize_t>(state.size()) ||
      ::lseek(file.get(), 0, SEEK_SET) != 0) {
    fail_errno(errno, "cannot write what a launcher is to take over");
  }
  SpawnOptions options;
  options.argv = own_command();
  options.path = "/proc/self/exe";
  options.environment = environment_with({{kVariable, "1"}});
  options.descriptors = {{file.get(), kStateFd}, {listener, kListenerFd}};
  options.new_process_group = true;  // the agent decides what Ctrl-C means
  return spawn(options);
}

std::optional<Successor> take_succession() {
  if (!environment_variable(kVariable)) return std::nullopt;
  ::unsetenv(kVariable);
  const Fd state_file(kStateFd);
  Fd listener(kListenerFd);
  ::fcntl(listener.get(), F_SETFD, FD_CLOEXEC);
  const char* const what = "what this launcher is to take over";
  const Json state =
      parse_json(read_file(fmt::format("/proc/self/fd/{}", kStateFd), kMostState), what);
  return Successor{roster_from_json(state.at("roster"), what),
                   json_get<std::string>(state, "secret", what), std::move(listener)};
}

}  // namespace adaptdl::launch
