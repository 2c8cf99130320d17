#include "tests/unit/launch/test_run.h"

#include <chrono>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/launch/client.h"

namespace adaptdl::launch::testing {

namespace {

TimePoint in(double seconds) {
  return Monotonic::now() + std::chrono::duration_cast<Monotonic::duration>(Seconds(seconds));
}

void nap() {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

// Complete lines of a file that somebody may be writing.
std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  if (!path_exists(path)) return lines;
  std::istringstream text(read_file(path, 64u << 20));
  for (std::string line; std::getline(text, line) && !text.eof();) lines.push_back(line);
  return lines;
}

}  // namespace

TestRun::TestRun() : folder_("adaptdl-launch") {
  options.name = "test";
  options.program = folder_.file("train.pt");
  options.checkpoint_dir = folder_.file("checkpoints");
  options.output_dir = folder_.file("output");
  options.log_dir = folder_.file("logs");
  options.control_socket = folder_.file("control.sock");
  options.record_file = folder_.file("record.json");
  const char* worker = std::getenv("ADAPTDL_FAKE_WORKER");
  options.worker_path = worker != nullptr ? worker : ADAPTDL_FAKE_WORKER;
  options.arguments = {"dir=" + folder_.path()};
  options.grace_s = 10;
  options.threads = 1;
  write_file_atomic(options.program, "program");
}

TestRun::~TestRun() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void TestRun::start() {
  REQUIRE(pid_ < 0);
  ++starts_;
  const std::string events = folder_.file("events" + std::to_string(starts_));
  const std::string talk = folder_.file("talk" + std::to_string(starts_));
  pid_ = fork();
  REQUIRE(pid_ >= 0);
  if (pid_ > 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // tests that are killed leave nothing behind
  try {
    const Fd stream = open_file(events, O_WRONLY | O_CREAT | O_APPEND);
    const Fd said = open_file(talk, O_WRONLY | O_CREAT | O_APPEND);
    std::vector<EventSink> sinks{[&](const nlohmann::json& event) {
      write_all(stream.get(), event.dump() + "\n", "events");
    }};
    if (extra_sink) sinks.push_back(extra_sink);
    const Talk say = [&](const std::string& line) { write_all(said.get(), line + "\n", "talk"); };
    int code = 99;
    try {
      code = body ? body(sinks, say) : run(options, sinks, say);
    } catch (const Error& error) {
      say(error.what());
      code = static_cast<int>(error.exit_code());
    } catch (const std::exception& error) {
      say(error.what());
    }
    _exit(code);
  } catch (...) {
    _exit(98);
  }
}

int TestRun::wait(double seconds) {
  const TimePoint deadline = in(seconds);
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (Monotonic::now() >= deadline) {
      FAIL("the run does not end; it said:\n", talk());
    }
    nap();
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

void TestRun::signal(int number) const {
  REQUIRE(::kill(pid_, number) == 0);
}

std::vector<nlohmann::json> TestRun::events() const {
  std::vector<nlohmann::json> result;
  for (const std::string& line : lines_of(folder_.file("events" + std::to_string(starts_)))) {
    result.push_back(nlohmann::json::parse(line));
  }
  return result;
}

std::vector<nlohmann::json> TestRun::events(const std::string& kind) const {
  std::vector<nlohmann::json> result;
  for (auto& event : events()) {
    if (event["event"] == kind) result.push_back(std::move(event));
  }
  return result;
}

std::string TestRun::talk() const {
  const std::string path = folder_.file("talk" + std::to_string(starts_));
  return path_exists(path) ? read_file(path, 1u << 20) : "";
}

nlohmann::json TestRun::wait_for(const std::function<bool(const nlohmann::json&)>& likes,
                                 double seconds) const {
  const TimePoint deadline = in(seconds);
  for (;;) {
    // Looked at before its events: it may write the one that is waited for, and end.
    const bool over = Monotonic::now() >= deadline || !alive(pid_);
    for (const auto& event : events()) {
      if (likes(event)) return event;
    }
    if (over) {
      const auto all = events();
      FAIL("no such event; the last one was ", all.empty() ? "none" : all.back().dump(),
           "; it said:\n", talk());
    }
    nap();
  }
}

void TestRun::wait_for_step(int64_t step, double seconds) const {
  wait_for([&](const nlohmann::json& e) { return e["event"] == "step" && e["step"] >= step; },
           seconds);
}

nlohmann::json TestRun::request(const nlohmann::json& request) const {
  const TimePoint deadline = in(30);
  while (!path_exists(options.control_socket) && Monotonic::now() < deadline) nap();
  return request_at(options.control_socket, request, Seconds(30), "the run");
}

std::vector<std::pair<uint64_t, pid_t>> TestRun::members() const {
  std::vector<std::pair<uint64_t, pid_t>> result;
  const nlohmann::json status = request({{"request", "status"}});
  for (const auto& member : status["members"]) {
    if (member["state"] == "active") result.emplace_back(member["member"], member["pid"]);
  }
  return result;
}

bool steps_complete(const std::vector<nlohmann::json>& steps, int64_t first, int64_t last) {
  if (static_cast<int64_t>(steps.size()) != last - first + 1) return false;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i]["step"] != first + static_cast<int64_t>(i)) return false;
  }
  return true;
}

bool alive(pid_t pid) {
  // A zombie is dead; it waits for its parent only.
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  try {
    const std::string text = read_file(path, 4096);
    const size_t name_end = text.rfind(')');
    return name_end != std::string::npos && text.size() > name_end + 2 &&
           text[name_end + 2] != 'Z' && text[name_end + 2] != 'X';
  } catch (const Error&) {
    return false;
  }
}

}  // namespace adaptdl::launch::testing
