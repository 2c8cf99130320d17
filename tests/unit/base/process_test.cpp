#include "core/base/process.h"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "core/base/files.h"
#include "core/base/poll.h"
#include "core/base/system.h"
#include "core/net/socket.h"
#include "tests/unit/base/expect_error.h"

namespace adaptdl {

namespace {

constexpr Seconds kLong{20.0};

TimePoint in(double seconds) {
  return Monotonic::now() + std::chrono::duration_cast<Monotonic::duration>(Seconds(seconds));
}

std::string shell(const std::string& script, SpawnOptions options = {}) {
  options.argv = {"/bin/sh", "-c", script};
  const CapturedRun run = run_and_capture(std::move(options), kLong);
  CHECK(run.status.success());
  return run.output;
}

}  // namespace

TEST_CASE("a child's end is told apart") {
  SpawnOptions options{.argv = {"sh", "-c", "exit 3"}};
  CHECK(spawn(options).wait().describe() == "exit code 3");
  options.argv = {"sh", "-c", "kill -9 $$"};
  const ExitStatus status = spawn(options).wait();
  CHECK(status.describe() == "killed by signal 9 (Killed)");
  CHECK(status.shell_code() == 137);
  CHECK_FALSE(status.success());
}

TEST_CASE("what cannot start says why, and leaves no child") {
  CHECK_ERROR(spawn({.argv = {"/no/such/program"}}), "/no/such/program: cannot execute: No such");
  CHECK_ERROR(spawn({.argv = {"no-such-program-anywhere"}}), "cannot execute: No such file");
  CHECK_ERROR(spawn({.argv = {"/etc"}}), "cannot execute: Permission denied");
  CHECK_THROWS_AS(spawn({.argv = {"/etc"}}), CannotExecute);
  CHECK_ERROR(spawn({.argv = {"true"}, .directory = "/no/such"}),
              "/no/such: cannot change to this");
  CHECK_ERROR(spawn({.argv = {"true"}, .descriptors = {{987, 3}}}), "cannot pass file descriptors");
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
}

TEST_CASE("arguments, environment and folder reach the child") {
  const TemporaryDirectory folder;
  CHECK(shell("pwd", {.directory = folder.path()}) == folder.path() + "\n");
  CHECK(shell("echo \"$A-$B\"", {.environment = {{"A=1", "B=x y"}}}) == "1-x y\n");
  SpawnOptions options{.argv = {"printf", "%s|", "a b", "", "*"}};
  CHECK(run_and_capture(options, kLong).output == "a b||*|");
  const auto changed = environment_with({{"PATH", "/x"}, {"ADAPTDL_NEW", "1"}, {"HOME", {}}});
  const auto has = [&](const std::string& text) {
    return std::find(changed.begin(), changed.end(), text) != changed.end();
  };
  CHECK(has("PATH=/x"));
  CHECK(has("ADAPTDL_NEW=1"));
  for (const std::string& entry : changed) CHECK_FALSE(entry.starts_with("HOME="));
}

TEST_CASE("the child has the listed descriptors and no others") {
  const TemporaryDirectory folder;
  const Fd leaked(open("/dev/null", O_RDONLY));  // without O_CLOEXEC
  write_file_atomic(folder.file("a"), "file a");
  write_file_atomic(folder.file("b"), "file b");
  const Fd a = open_file(folder.file("a"), O_RDONLY);
  const Fd b = open_file(folder.file("b"), O_RDONLY);
  // Crossed on purpose: each wanted number is the other's present one.
  const SpawnOptions crossed{.descriptors = {{a.get(), b.get()}, {b.get(), a.get()}}};
  CHECK(shell(fmt::format("cat <&{}; cat <&{}", a.get(), b.get()), crossed) == "file bfile a");
  CHECK(fcntl(a.get(), F_GETFD) == FD_CLOEXEC);  // ours are as before

  SpawnOptions options{.argv = {"ls", "/proc/self/fd"}, .descriptors = {{a.get(), 7}}};
  CHECK(run_and_capture(options, kLong).output == "0\n1\n2\n3\n7\n");  // 3: the folder itself
}

TEST_CASE("signal mask and handlers are the defaults") {
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;
  REQUIRE(sigaction(SIGPIPE, &ignore, &before) == 0);
  sigset_t blocked, old;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &old);
  const std::string masks = shell("grep -E 'Sig(Blk|Ign)' /proc/self/status");
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  sigaction(SIGPIPE, &before, nullptr);
  CHECK(masks == "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_CASE("more descriptors for this process are not for its children") {
  rlimit before{}, lower{}, raised{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  lower = before;
  lower.rlim_cur = 256;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &lower) == 0);
  raise_descriptor_limit();
  raise_descriptor_limit();
  REQUIRE(getrlimit(RLIMIT_NOFILE, &raised) == 0);
  CHECK(raised.rlim_cur == std::min<rlim_t>(before.rlim_max, 65'536));
  const CapturedRun run = run_and_capture({.argv = {"sh", "-c", "ulimit -n"}}, kLong);
  CHECK(run.output == "256\n");
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("a child runs on the cores it is given") {
  SpawnOptions options;
  options.argv = {"grep", "Cpus_allowed_list", "/proc/self/status"};
  options.cores = {0};
  const CapturedRun bound = run_and_capture(options, Seconds(20));
  CHECK(bound.output.find(":\t0\n") != std::string::npos);
  for (const int none : {-1, 1023, 1 << 20}) {
    options.cores = {none};
    CHECK_THROWS_AS(run_and_capture(options, Seconds(20)), Error);
  }
}

TEST_CASE("waiting with a deadline, signals, and the end of the owner") {
  Child child = spawn({.argv = {"sleep", "100"}, .new_process_group = true});
  CHECK(getpgid(child.pid()) == child.pid());
  CHECK(getsid(child.pid()) == child.pid());
  CHECK_FALSE(child.poll());
  CHECK_FALSE(child.wait_until(in(0.02)));
  CHECK(child.send_signal(SIGTERM));
  const auto status = child.wait_until(in(10));
  REQUIRE(status);
  CHECK(status->describe() == "killed by signal 15 (Terminated)");
  CHECK(child.wait().value == SIGTERM);
  CHECK_FALSE(child.send_signal(SIGTERM));
  CHECK_FALSE(child.running());

  pid_t pid = 0;
  {
    Child dropped = spawn({.argv = {"sleep", "100"}});
    pid = dropped.pid();
    Child moved = std::move(dropped);
    CHECK_FALSE(bool(dropped));  // NOLINT(bugprone-use-after-move): that is what is tested
  }
  CHECK(kill(pid, 0) == -1);
}

TEST_CASE("a child dies with the process that started it") {
  auto [ours, theirs] = socket_pair();
  // A middle process starts a sleeper, tells its number, and is killed.
  const pid_t middle = fork();
  if (middle == 0) {
    Child sleeper = spawn({.argv = {"sleep", "100"}, .descriptors = {{theirs.get(), 5}}});
    const pid_t pid = sleeper.pid();
    send_all(theirs.get(), {reinterpret_cast<const char*>(&pid), sizeof(pid)});
    theirs.reset();
    pause();
  }
  theirs.reset();
  pid_t sleeper = 0;
  REQUIRE(recv_exactly(ours.get(), std::as_writable_bytes(std::span(&sleeper, 1)), in(10)));
  kill(middle, SIGKILL);
  waitpid(middle, nullptr, 0);
  // The sleeper held the other end; its death closes it.
  std::byte byte;
  CHECK_FALSE(recv_exactly(ours.get(), std::span(&byte, 1), in(10)));
  CHECK(wait_ready(ours.get(), 1 /*POLLIN*/, in(0)));
}

TEST_CASE("a run that prints or lasts too much is stopped") {
  CHECK_ERROR(run_and_capture({.argv = {"sleep", "100"}}, Seconds(0.05)), "did not finish");
  CHECK_ERROR(run_and_capture({.argv = {"cat", "/dev/zero"}}, kLong, false, 100'000),
              "printed more");
  const auto both = run_and_capture({.argv = {"sh", "-c", "echo a; echo b >&2"}}, kLong, true);
  CHECK(both.output == "a\nb\n");
}

TEST_CASE("a program in memory runs, and from the cache where memory may not be executed") {
  const TemporaryDirectory cache;
  const MappedFile program("/bin/echo");
  ExecutableImage image(program.bytes(), "echo-image", cache.file("cache"));
  SpawnOptions options{.argv = {"echo", "hello"}, .image = &image};
  CHECK(run_and_capture(options, kLong).output == "hello\n");

  if (image.in_memory()) image.move_to_file();
  CHECK(run_and_capture(options, kLong).output == "hello\n");
  const auto names = list_directory(cache.file("cache"));
  REQUIRE(names.size() == 1);
  const std::string kept = join_path(cache.file("cache"), names[0]);

  // Somebody damaged the kept file: the next one repairs it.
  write_file_atomic(kept, "#!/bin/sh\necho evil\n", 0700);
  ExecutableImage again(program.bytes(), "echo-image", cache.file("cache"));
  again.move_to_file();
  options.image = &again;
  CHECK(run_and_capture(options, kLong).output == "hello\n");
  CHECK(list_directory(cache.file("cache")) == names);

  ExecutableImage garbage(std::as_bytes(std::span("no program", 10)), "garbage", cache.file("c2"));
  options.image = &garbage;
  CHECK_ERROR(spawn(options), "cannot execute");
}

TEST_CASE("a process is known by number and start") {
  const auto start = process_start_time(getpid());
  REQUIRE(start);
  Child child = spawn({.argv = {"sleep", "100"}});
  const auto later = process_start_time(child.pid());
  REQUIRE(later);
  CHECK(*later >= *start);
  child.send_signal(SIGKILL);
  child.wait();
  CHECK_FALSE(process_start_time(child.pid()));
}

}  // namespace adaptdl
