#pragma once

// One run of the real launcher in a process of its own, with the fake worker; its events come back
// through a file.

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "core/base/files.h"
#include "core/launch/run/run.h"

namespace adaptdl::launch::testing {

class TestRun {
 public:
  TestRun();   // with a folder of its own
  ~TestRun();  // kills what is left, and removes the folder
  TestRun(const TestRun&) = delete;

  // To be changed before start(). Worker arguments as in fake_worker.cpp.
  RunOptions options;
  std::function<void(const nlohmann::json&)> extra_sink;  // in the launcher's process
  // What is run instead of run(options, ...), in the launcher's process.
  std::function<int(const std::vector<EventSink>&, const Talk&)> body;

  void start();
  // Exit code; fails the test if it takes longer.
  int wait(double seconds = 60);
  void signal(int number) const;
  pid_t pid() const { return pid_; }

  std::vector<nlohmann::json> events() const;  // of the newest start
  std::vector<nlohmann::json> events(const std::string& kind) const;
  std::string talk() const;
  // The first event that the function likes; fails the test if there is none in time.
  nlohmann::json wait_for(const std::function<bool(const nlohmann::json&)>& likes,
                          double seconds = 60) const;
  void wait_for_step(int64_t step, double seconds = 60) const;

  nlohmann::json request(const nlohmann::json& request) const;
  // The processes of members that train, by member number.
  std::vector<std::pair<uint64_t, pid_t>> members() const;
  std::string folder() const { return folder_.path(); }

 private:
  TemporaryDirectory folder_;
  pid_t pid_ = -1;
  int starts_ = 0;
};

// Whether the steps are first, first + 1, ... last, each once.
bool steps_complete(const std::vector<nlohmann::json>& steps, int64_t first, int64_t last);

bool alive(pid_t pid);

}  // namespace adaptdl::launch::testing
