#include "core/launch/run/still_watch.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include "core/base/files.h"
#include "core/base/process.h"
#include "core/base/temporary.h"
#include "core/launch/run/process_look.h"

using namespace adaptdl;
using namespace adaptdl::launch;

namespace {

// A made-up history, looked at every second.
struct History {
  StillWatch watch{Seconds(300)};
  TimePoint now = TimePoint{} + std::chrono::hours(1);

  void jump(double seconds) {
    now += std::chrono::duration_cast<Monotonic::duration>(Seconds(seconds));
  }
  // Whether the watch called it a hang within that time.
  bool hung_within(double seconds, bool active = false) {
    for (; seconds > 0; seconds -= 1) {
      jump(1);
      watch.look(now, active);
      if (watch.over()) return true;
    }
    return false;
  }
  void progress(const char* kind, double after) {
    CHECK_FALSE(hung_within(after));
    watch.progress(now, kind);
  }
  void steps(int count, double each) {
    for (int i = 0; i < count; ++i) progress("step", each);
  }
};

}  // namespace

TEST_CASE("still: nothing happens any more") {
  History run;
  run.watch.look(run.now, false);
  run.steps(100, 1);
  CHECK_FALSE(run.hung_within(299));
  CHECK(run.hung_within(2));
}

TEST_CASE("still: the patience grows with the longest gap after such an event") {
  History run;
  run.steps(10, 200);
  CHECK_FALSE(run.hung_within(999));
  CHECK(run.hung_within(2));
}

TEST_CASE("still: a long first start, and the first long validation, are no hang") {
  History run;
  CHECK_FALSE(run.hung_within(2990));
  run.steps(50, 1);
  run.watch.progress(run.now, "epoch");
  CHECK_FALSE(run.hung_within(2990));
  run.watch.progress(run.now, "validation");
  run.steps(50, 1);
  run.watch.progress(run.now, "epoch");
  CHECK_FALSE(run.hung_within(10000));  // 5 times what the first one took
  run.watch.progress(run.now, "validation");
  run.steps(10, 1);
  CHECK(run.hung_within(301));  // between steps nothing was ever so long
}

TEST_CASE("still: but they do not last for ever") {
  History run;
  CHECK(run.hung_within(3010));
}

TEST_CASE("still: processes that compute, read or write get ten times the patience") {
  History run;
  run.steps(50, 1);
  // Other work has made the program slower by orders of magnitude.
  for (int i = 0; i < 5; ++i) {
    CHECK_FALSE(run.hung_within(2900, true));
    run.watch.progress(run.now, "step");
  }
  History spins;
  spins.steps(50, 1);
  CHECK(spins.hung_within(3010, true));
}

TEST_CASE("still: time in which nobody looked does not count") {
  History run;
  run.steps(50, 1);
  for (int i = 0; i < 50; ++i) {  // a machine that is suspended often
    CHECK_FALSE(run.hung_within(3));
    run.jump(36000);
    run.watch.look(run.now, false);
  }
  CHECK(run.watch.waited() < Seconds(300));
  run.watch.progress(run.now, "step");
  CHECK(run.watch.patience() < Seconds(1300));
}

TEST_CASE("still: a hang that was found does not make the next one longer") {
  History run;
  run.steps(50, 1);
  CHECK(run.hung_within(301));
  run.watch.restart();
  CHECK_FALSE(run.hung_within(100));
  run.steps(3, 1);
  CHECK(run.hung_within(301));
}

TEST_CASE("still: a kill that may have been wrong makes the next patience longer") {
  History run;
  run.steps(50, 1);
  run.watch.progress(run.now, "epoch");
  CHECK(run.hung_within(3001, true));  // the first validation, at full speed
  run.watch.remember(/*doubt=*/true);
  run.watch.restart();
  run.steps(5, 1);
  run.watch.progress(run.now, "epoch");
  CHECK(run.watch.known());
  CHECK_FALSE(run.hung_within(14900, true));  // five times as long
  CHECK(run.hung_within(200, true));
  run.watch.restart();
  run.steps(5, 1);
  CHECK(run.hung_within(301));  // other silences are as before
}

TEST_CASE("still: time that others judge belongs to the gap, and to no wait") {
  History run;
  run.steps(50, 1);
  run.watch.progress(run.now, "epoch");
  CHECK_FALSE(run.hung_within(100));
  for (int i = 0; i < 1000; ++i) {
    run.jump(1);
    run.watch.elapse(run.now);
  }
  CHECK(run.watch.waited() < Seconds(11));
  run.watch.progress(run.now, "validation");
  run.steps(5, 1);
  run.watch.progress(run.now, "epoch");
  CHECK(run.watch.patience() >= Seconds(5499));
  CHECK_FALSE(run.hung_within(5490));
  CHECK(run.hung_within(20));
}

TEST_CASE("still: what a process does is seen from outside") {
  const ProcessWork idle{.cpu_s = 5, .bytes = 1000};
  CHECK_FALSE(is_active(idle, idle, Seconds(1)));
  CHECK_FALSE(is_active(idle, {.cpu_s = 5.01, .bytes = 2000}, Seconds(1)));
  CHECK(is_active(idle, {.cpu_s = 5.1, .bytes = 1000}, Seconds(1)));
  CHECK(is_active(idle, {.cpu_s = 5, .bytes = 100'000}, Seconds(1)));
  CHECK(is_active(idle, {.cpu_s = 5, .bytes = 1000, .in_the_kernel = true}, Seconds(1)));

  const TemporaryDirectory root;
  make_directories(root.file("proc/7/task/8"));
  const std::string fields = " 1 7 7 0 -1 4194560 0 0 0 0 120 30 0 0 20 0 1 0 9 0\n";
  write_file_atomic(root.file("proc/7/stat"), "7 (a (b) c) S" + fields);
  write_file_atomic(root.file("proc/7/task/8/stat"), "8 (x) D" + fields);
  write_file_atomic(root.file("proc/7/io"), "rchar: 100\nwchar: 23\nsyscr: 9\n");
  const auto work = process_work(7, root.path());
  REQUIRE(work);
  CHECK(work->cpu_s == doctest::Approx(150.0 / static_cast<double>(sysconf(_SC_CLK_TCK))));
  CHECK(work->bytes == 123);
  CHECK(work->in_the_kernel);
  CHECK_FALSE(process_work(8, root.path()));
  CHECK_FALSE(is_ending(7, root.path()));
  write_file_atomic(root.file("proc/7/stat"), "7 (x) R 1 7 7 0 -1 4194564 0 0 0 0 1 3 0\n");
  CHECK(is_ending(7, root.path()));

  Child child = spawn({.argv = {"sleep", "60"}});
  CHECK_FALSE(is_ending(child.pid()));
  const std::string text = describe_process(child.pid());
  CHECK(text.find(fmt::format("thread {} (", child.pid())) != std::string::npos);
  child.send_signal(9);
  while (!is_ending(child.pid())) usleep(1000);  // a zombie until it is reaped
  CHECK(child.wait().value == 9);
}
