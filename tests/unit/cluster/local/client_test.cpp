#include "core/cluster/local/client.h"

#include <cstdlib>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <optional>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"

using namespace adaptdl;
using namespace adaptdl::local;

TEST_CASE("a service is named by its lock: its process, or the host that shares the folder") {
  const TemporaryDirectory folder;
  const auto before = environment_variable("ADAPTDL_LOCAL_STATE");
  setenv("ADAPTDL_LOCAL_STATE", folder.path().c_str(), 1);
  const std::string lock = local_paths().lock;
  const pid_t pid = getpid();
  const std::string own = fmt::format("{} {}", pid, process_start_time(pid).value());
  const auto write = [&](const std::string& text) {
    const Fd file = open_file(lock, O_WRONLY | O_CREAT | O_TRUNC);
    write_all(file.get(), text, lock);
  };
  for (const std::string& text : {own + "\n", own + " here\n"}) {  // of an earlier version, too
    CAPTURE(text);
    write(text);
    REQUIRE(service_process());
    CHECK(service_process()->pid == pid);
  }
  for (const char* text : {"", "\n", "7\n", "x 7\n", "7 x\n", "-7 7\n"}) {
    CAPTURE(text);
    write(text);
    CHECK_FALSE(service_process());
  }
  write(fmt::format("{} 1 far-away\n", pid));
  CHECK_FALSE(service_process());
  CHECK(service_elsewhere().empty());  // nobody holds it any more
  {
    const auto held = try_lock(lock);
    REQUIRE(held);
    CHECK(service_elsewhere() == "far-away");
    CHECK_THROWS_WITH_AS(refuse_elsewhere(), doctest::Contains("host far-away uses"), Error);
    CHECK_THROWS_WITH_AS(request_service({{"request", "hello"}}),
                         doctest::Contains("the adaptdl service of host far-away uses"), Error);
    write(own + " " + host_name() + "\n");
    CHECK(service_elsewhere().empty());
  }
  if (before) {
    setenv("ADAPTDL_LOCAL_STATE", before->c_str(), 1);
  } else {
    unsetenv("ADAPTDL_LOCAL_STATE");
  }
}
