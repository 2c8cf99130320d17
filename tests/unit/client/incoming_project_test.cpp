#include "core/client/local/incoming_project.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>
#include <thread>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/cluster/local/paths.h"

namespace adaptdl::client {
namespace {

// The local cluster's folder is another one meanwhile.
struct OtherState {
  TemporaryDirectory folder{"adaptdl-incoming"};
  std::optional<std::string> before = environment_variable("ADAPTDL_LOCAL_STATE");

  OtherState() { setenv("ADAPTDL_LOCAL_STATE", folder.file("state").c_str(), 1); }
  ~OtherState() {
    before ? setenv("ADAPTDL_LOCAL_STATE", before->c_str(), 1) : unsetenv("ADAPTDL_LOCAL_STATE");
  }
};

// Sends the signal once the copy has begun; whether that interrupted it.
bool cut_off(int number, const std::string& project, const std::string& jobs) {
  std::atomic<bool> over = false;
  std::thread sender([&] {
    while (!over && list_directory(jobs).empty()) std::this_thread::yield();
    if (!over) kill(getpid(), number);
  });
  bool interrupted = false;
  try {
    JobSpec spec;
    std::vector<std::string> notes;
    const IncomingProject incoming(project, spec, notes, true);
    CHECK(list_directory(jobs).size() == 1);
  } catch (const Error& error) {
    interrupted = error.exit_code() == ExitCode::interrupted;
  }
  over = true;
  sender.join();
  return interrupted;
}

TEST_CASE("a submission that is cut off takes its copy with it") {
  const OtherState state;
  const std::string jobs = local::local_paths().jobs, project = state.folder.file("project");
  make_directories(jobs);
  make_directories(project);
  for (int i = 0; i < 300; ++i) replace_file(project + fmt::format("/{}", i), "x");
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(number);
    struct sigaction before {
    }, ours{};
    ours.sa_handler = [](int) {};  // for a signal that comes too late
    REQUIRE(sigaction(number, &ours, &before) == 0);
    bool interrupted = false;
    for (int i = 0; i < 50 && !interrupted; ++i) interrupted = cut_off(number, project, jobs);
    CHECK(interrupted);
    CHECK(list_directory(jobs).empty());
    sigaction(number, &before, nullptr);
  }
}

}  // namespace
}  // namespace adaptdl::client
