// The writer is killed at random instants; what is there afterwards always verifies.

#include <csignal>
#include <ctime>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/checkpoint/sample.h"

using namespace adaptdl;
using test::Sample;

namespace {

constexpr size_t kWeights = 300'000;  // 1.2 MB: writing takes a while

// Writes step after step until killed; after each, tells its number through the pipe.
[[noreturn]] void write_forever(const std::string& folder, int64_t first, int report) {
  try {
    CheckpointStore store(folder, 2);
    for (int64_t step = first;; ++step) {
      const Sample sample(step, kWeights);
      store.write(sample.header, sample.tensors());
      if (::write(report, &step, sizeof step) != sizeof step) break;
    }
  } catch (...) {
  }
  ::_exit(1);
}

}  // namespace

TEST_CASE("kill -9 at any instant costs no checkpoint that was finished") {
  const TemporaryDirectory folder;
  std::mt19937 random(20260131);
  int64_t last = 0;
  for (int round = 0; round < 100; ++round) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const Fd reader(ends[0]);
    Fd report(ends[1]);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) write_forever(folder.path(), last + 1, report.get());
    report.reset();
    // A busy disk may take longer for the first one.
    const long longest = 30'000'000L * (last > 0 ? 1 : 1 + round / 4);
    const timespec pause = {0, static_cast<long>(random()) % longest};
    ::nanosleep(&pause, nullptr);
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));

    int64_t told = last;
    for (int64_t step = 0; ::read(reader.get(), &step, sizeof step) == sizeof step;) told = step;

    std::vector<std::string> problems;
    const CheckpointStore store(folder.path(), 2);
    const auto loaded = store.latest(&problems);
    CHECK(problems.empty());
    if (told > 0) REQUIRE(loaded.has_value());
    if (loaded) {
      CHECK(Sample::matches(*loaded, kWeights));
      // It may have been renamed without its number having been told yet.
      CHECK(loaded->header.step >= told);
      CHECK(loaded->header.step <= told + 1);
      last = loaded->header.step;
    }
  }
  CHECK(last > 0);
  // Nothing of the dead stays once somebody lives on.
  CheckpointStore store(folder.path(), 2);
  const Sample sample(last + 1, kWeights);
  store.write(sample.header, sample.tensors());
  CHECK(list_directory(folder.path()).size() <= 2);
}
