#include "core/base/system.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/files.h"
#include "core/base/log.h"
#include "tests/unit/base/expect_error.h"

namespace adaptdl {

namespace {

// A made-up / with the given files.
struct FakeRoot {
  TemporaryDirectory folder;
  void put(const std::string& path, const std::string& text) {
    make_directories(parent_directory(folder.file(path)));
    write_file_atomic(folder.file(path), text);
  }
  const std::string& path() const { return folder.path(); }
};

}  // namespace

TEST_CASE("control groups v2: the tightest limit on the way up counts") {
  FakeRoot root;
  CHECK_FALSE(cgroup_cpu_limit(root.path()));
  CHECK_FALSE(cgroup_memory_limit(root.path()));
  root.put("proc/self/cgroup", "0::/user.slice/job\n");
  root.put("proc/self/mountinfo",
           "22 1 0:20 / /proc rw - proc proc rw\n"
           "31 23 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n");
  CHECK_FALSE(cgroup_cpu_limit(root.path()));
  root.put("sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n");
  root.put("sys/fs/cgroup/user.slice/job/memory.max", "max\n");
  CHECK_FALSE(cgroup_cpu_limit(root.path()));
  CHECK_FALSE(cgroup_memory_limit(root.path()));
  root.put("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n");
  root.put("sys/fs/cgroup/user.slice/memory.max", "1048576\n");
  root.put("sys/fs/cgroup/cpu.max", "400000 100000\n");
  root.put("sys/fs/cgroup/user.slice/job/memory.max", "2097152\n");
  CHECK(cgroup_cpu_limit(root.path()) == 1.5);
  CHECK(cgroup_memory_limit(root.path()) == 1048576u);
  CHECK(available_cores(root.path()) == 1);
  CHECK(available_memory(root.path()) == 1048576u);
  root.put("sys/fs/cgroup/user.slice/cpu.max", "20000 100000\n");
  CHECK(available_cores(root.path()) == 1);  // never none
}

TEST_CASE("control groups v1, seen from inside a container") {
  FakeRoot root;
  root.put("proc/self/cgroup", "4:memory:/docker/abc/sub\n3:cpu,cpuacct:/docker/abc\n0::/\n");
  root.put("proc/self/mountinfo",
           "40 31 0:33 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
           "41 31 0:34 /docker/abc /sys/fs/cgroup/cpu\\040x ro - cgroup cgroup rw,cpuacct,cpu\n");
  root.put("sys/fs/cgroup/cpu x/cpu.cfs_quota_us", "50000\n");
  root.put("sys/fs/cgroup/cpu x/cpu.cfs_period_us", "20000\n");
  root.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "5000000\n");
  root.put("sys/fs/cgroup/memory/sub/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(cgroup_cpu_limit(root.path()) == 2.5);
  CHECK(cgroup_memory_limit(root.path()) == 5000000u);
  root.put("sys/fs/cgroup/cpu x/cpu.cfs_quota_us", "-1\n");
  CHECK_FALSE(cgroup_cpu_limit(root.path()));
}

TEST_CASE("a group outside of what is shown falls back to the top of it") {
  FakeRoot root;
  root.put("proc/self/cgroup", "0::/../../elsewhere\n");
  root.put("proc/self/mountinfo", "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  root.put("sys/fs/cgroup/cpu.max", "300000 100000\n");
  root.put("elsewhere/cpu.max", "100000 100000\n");
  CHECK(cgroup_cpu_limit(root.path()) == 3.0);
}

TEST_CASE("garbage in the control groups' files is no limit") {
  FakeRoot root;
  root.put("proc/self/cgroup", "nonsense\n0::\n::\n0::/x\n");
  root.put("proc/self/mountinfo", "\n - \n1 2 3 - cgroup2\n31 23 0:27 / /c rw - cgroup2 c rw\n");
  for (const char* text : {"", "x y\n", "0 0\n", "-5 100\n", "nan 100\n", "1 2 3\n"}) {
    root.put("c/cpu.max", text);
    root.put("c/memory.max", text);
    CAPTURE(text);
    CHECK_FALSE(cgroup_cpu_limit(root.path()));
    CHECK_FALSE(cgroup_memory_limit(root.path()));
  }
}

TEST_CASE("this machine has cores and memory") {
  CHECK(affinity_cores() >= 1);
  CHECK(available_cores() >= 1);
  CHECK(available_cores() <= affinity_cores());
  CHECK(available_memory() > 0);
  CHECK_FALSE(host_name().empty());
}

TEST_CASE("GPUs are counted without a library and CUDA_VISIBLE_DEVICES is honoured") {
  using List = std::vector<std::string>;
  FakeRoot root;
  CHECK(gpus(root.path(), std::nullopt).empty());
  CHECK(gpus(root.path(), "0").empty());
  for (const char* name : {"nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm"}) {
    root.put(std::string("dev/") + name, "");
  }
  CHECK(gpus(root.path(), std::nullopt) == List{"0", "1", "2"});
  CHECK(gpus(root.path(), "2,0") == List{"2", "0"});
  CHECK(gpus(root.path(), "1,7,0") == List{"1"});
  CHECK(gpus(root.path(), "").empty());
  CHECK(gpus(root.path(), "-1").empty());
  CHECK(gpus(root.path(), "0,0") == List{"0"});
  CHECK(gpus(root.path(), "GPU-8932f937, 1") == List{"GPU-8932f937", "1"});
}

TEST_CASE("the processors' model") {
  FakeRoot root;
  CHECK(cpu_model(root.path()).empty());
  root.put("proc/cpuinfo",
           "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some CPU @ 2.1 GHz\n\n"
           "processor\t: 1\nmodel name\t: Another\n");
  CHECK(cpu_model(root.path()) == "Some CPU @ 2.1 GHz");
  root.put("proc/cpuinfo", "model name\t:\n");
  CHECK(cpu_model(root.path()).empty());
}

TEST_CASE("what identifies a process and a boot") {
  FakeRoot root;
  CHECK(boot_id(root.path()).empty());
  root.put("proc/sys/kernel/random/boot_id", "abc-def\n");
  CHECK(boot_id(root.path()) == "abc-def");
  root.put("proc/7/stat", "7 (a) b) (c) S 1 7 7 0 -1 4 5 6 7 8 9 10 11 12 20 0 1 0 4242 1 2\n");
  CHECK(process_start_time(7, root.path()) == 4242u);
  root.put("proc/8/stat", "8 (x) S 1\n");
  CHECK_FALSE(process_start_time(8, root.path()));
  CHECK_FALSE(process_start_time(9, root.path()));
}

TEST_CASE("the user's folders follow XDG") {
  const TemporaryDirectory folder;
  setenv("XDG_STATE_HOME", "/x/state", 1);
  CHECK(state_directory() == "/x/state/adaptdl");
  setenv("XDG_STATE_HOME", "relative", 1);
  setenv("HOME", "/home/me", 1);
  CHECK(state_directory() == "/home/me/.local/state/adaptdl");
  unsetenv("XDG_STATE_HOME");
  unsetenv("XDG_CACHE_HOME");
  CHECK(cache_directory() == "/home/me/.cache/adaptdl");
  setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  const std::string runtime = runtime_directory();
  CHECK(runtime == folder.file("adaptdl"));
  CHECK(is_directory(runtime));
  REQUIRE(chmod(runtime.c_str(), 0755) == 0);
  CHECK_ERROR(runtime_directory(), "others cannot enter");
  unsetenv("XDG_RUNTIME_DIR");
}

TEST_CASE("a log line is one write with time, level, name and harmless text") {
  int fds[2];
  REQUIRE(pipe(fds) == 0);
  const int saved = dup(STDERR_FILENO);
  dup2(fds[1], STDERR_FILENO);
  set_log_name("worker 3");
  log_info("loss {}\nsecond \033[31m line\n", 0.5);
  log_debug("not shown");
  set_log_level(parse_log_level("debug", "--log-level"));
  log_debug("shown");
  set_log_level(LogLevel::info);
  set_log_name("");
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(fds[1]);
  char buffer[1000];
  const ssize_t got = read(fds[0], buffer, sizeof(buffer));
  close(fds[0]);
  REQUIRE(got > 0);
  const std::string text(buffer, static_cast<size_t>(got));
  CHECK(text[10] == 'T');
  CHECK(contains(text, "Z info worker 3: loss 0.5\n    second \\x1b[31m line\n"));
  CHECK(contains(text, "Z debug worker 3: shown\n"));
  CHECK_FALSE(contains(text, "not shown"));
  CHECK_ERROR(parse_log_level("loud", "--log-level"), "--log-level: 'loud' is not allowed");
}

}  // namespace adaptdl
