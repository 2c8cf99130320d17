#include "core/launch/oom.h"

#include <csignal>
#include <doctest/doctest.h>

#include "core/base/files.h"

using namespace adaptdl;
using namespace adaptdl::launch;

namespace {

struct Machine {
  TemporaryDirectory folder;
  void write(const std::string& path, const std::string& text) const {
    make_directories(parent_directory(folder.file(path)));
    write_file_atomic(folder.file(path), text);
  }
};

}  // namespace

TEST_CASE("oom: counted by the group, v2 or v1, else by the machine") {
  Machine machine;
  CHECK_FALSE(oom_kills(machine.folder.path()));
  machine.write("proc/vmstat", "pgfault 3\noom_kill 7\nfoo 1\n");
  CHECK(oom_kills(machine.folder.path()) == 7u);
  machine.write("proc/self/cgroup", "0::/a/b\n");
  CHECK(oom_kills(machine.folder.path()) == 7u);
  machine.write("sys/fs/cgroup/memory.events", "low 0\noom 9\noom_kill 5\n");
  CHECK(oom_kills(machine.folder.path()) == 5u);
  machine.write("sys/fs/cgroup/a/b/memory.events", "low 0\noom 9\noom_kill 2\n");
  CHECK(oom_kills(machine.folder.path()) == 2u);
  machine.write("proc/self/cgroup", "4:memory:/x\n1:cpu:/\n0::/a/b\n");
  machine.write("sys/fs/cgroup/memory/x/memory.oom_control", "oom_kill_disable 0\noom_kill 1\n");
  CHECK(oom_kills(machine.folder.path()) == 1u);
  machine.write("sys/fs/cgroup/memory/x/memory.oom_control", "oom_kill many\n");
  CHECK(oom_kills(machine.folder.path()) == 2u);
}

TEST_CASE("oom: explains a SIGKILL only when the count has risen") {
  Machine machine;
  machine.write("proc/vmstat", "oom_kill 7\n");
  OomWatch watch(machine.folder.path());
  const ExitStatus killed{true, SIGKILL};
  CHECK_FALSE(watch.explains(killed));
  machine.write("proc/vmstat", "oom_kill 8\n");
  CHECK_FALSE(watch.explains({true, SIGSEGV}));
  CHECK_FALSE(watch.explains({false, 1}));
  CHECK(watch.explains(killed));
  CHECK(watch.explains(killed));  // its neighbour, a moment later
}
