#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/commands/run_options.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/launch/io/protocol.h"
#include "core/launch/run/libtorch.h"
#include "core/launch/run/worker_choice.h"

namespace adaptdl::cli {
namespace {

TEST_CASE("changes of replicas by step") {
  using Plan = std::vector<std::pair<int64_t, int>>;
  CHECK(parse_replicas_at("") == Plan{});
  CHECK(parse_replicas_at("100:3") == Plan{{100, 3}});
  CHECK(parse_replicas_at("0:1,100:3,200:2") == Plan{{0, 1}, {100, 3}, {200, 2}});
  for (const char* bad : {"3", "100", ":3", "100:", "100:0", "-1:3", "100:3;200:1", "200:1,100:3",
                          "100:3,100:2", "a:b", "1:2:3", ",", "100:3,,200:1"}) {
    INFO(bad);
    CHECK_THROWS_AS(parse_replicas_at(bad), UsageError);
  }
}

TEST_CASE("the patience with a hung replica") {
  CHECK(parse_hang_timeout("off") == 0);
  CHECK(parse_hang_timeout("1.5") == 1.5);
  for (const char* wrong : {"", "0", "0.9", "-3", "never", "nan", "inf", "5s"}) {
    CHECK_THROWS_AS(parse_hang_timeout(wrong), UsageError);
  }
}

TEST_CASE("kinds of programs") {
  const TemporaryDirectory folder;
  const auto file = [&](const char* name, const std::string& bytes) {
    write_file_atomic(folder.file(name), bytes);
    return folder.file(name);
  };
  CHECK(launch::program_kind(file("a", "PK\x03\x04 and so on")) == launch::ProgramKind::archive);
  CHECK(launch::program_kind(file("b", std::string("\x7f"
                                                   "ELF....") +
                                           launch::kProgramMarker + "...")) ==
        launch::ProgramKind::executable);
  CHECK(launch::program_kind(file("c",
                                  "\x7f"
                                  "ELF....")) == launch::ProgramKind::other);
  CHECK(launch::program_kind(file("d.py", "print()")) == launch::ProgramKind::other);
  CHECK(launch::program_kind(file("e", "")) == launch::ProgramKind::other);
  CHECK_THROWS_AS(launch::program_kind(folder.path()), Error);
}

TEST_CASE("versions of LibTorch") {
  CHECK(launch::minor_version("2.11.0+cu130") == "2.11");
  CHECK(launch::minor_version("2.15.0") == "2.15");
  CHECK(launch::minor_version("2.11") == "2.11");
  CHECK(launch::minor_version("") == "");
}

TEST_CASE("a folder is examined, not trusted") {
  const TemporaryDirectory folder;
  const std::string& path = folder.path();
  CHECK(launch::examine_libtorch("x", path, "").problem.find("no lib/libtorch_cpu.so") !=
        path.npos);
  make_directories(folder.file("lib"));
  write_file_atomic(folder.file("lib/libtorch_cpu.so"), "");
  CHECK(launch::examine_libtorch("x", path, "2.11.0").problem.empty());  // no version to compare
  write_file_atomic(folder.file("version.py"), "a = 1\n__version__ = '2.12.1+cpu'\nb = 2\n");
  CHECK(launch::examine_libtorch("x", path, "2.12.0").problem.empty());
  CHECK(launch::examine_libtorch("x", path, "").version == "2.12.1+cpu");
  CHECK(launch::examine_libtorch("x", path, "2.11.0").problem.find("built against 2.11.0") !=
        path.npos);
  write_file_atomic(folder.file("build-version"), "2.5.1+cpu\n");
  CHECK(launch::examine_libtorch("x", path, "").problem.find("2.6") != path.npos);
  CHECK_FALSE(launch::examine_libtorch("x", path, "").cuda);
  write_file_atomic(folder.file("lib/libtorch_cuda.so"), "");
  CHECK(launch::examine_libtorch("x", path, "").cuda);
}

TEST_CASE("a LibTorch that this user may not read is not called incomplete") {
  const TemporaryDirectory folder;
  make_directories(folder.file("lib"));
  write_file_atomic(folder.file("lib/libtorch_cpu.so"), "");
  REQUIRE(chmod(folder.file("lib").c_str(), 0) == 0);
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;  // root may read everything
    if (geteuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) _exit(1);
    const std::string problem = launch::examine_libtorch("x", folder.path(), "").problem;
    _exit(problem.find("this user may not read ") == 0 ? 0 : 2);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
  REQUIRE(chmod(folder.file("lib").c_str(), 0700) == 0);
}

}  // namespace
}  // namespace adaptdl::cli
