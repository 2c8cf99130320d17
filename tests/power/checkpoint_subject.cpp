// The newest checkpoint that was told is there, or the one that was being written.

#include <fmt/format.h>
#include <optional>
#include <set>
#include <sstream>

#include "core/base/error.h"
#include "core/base/files.h"
#include "runtime/checkpoint/store.h"
#include "tests/power/subject.h"
#include "tests/unit/checkpoint/sample.h"

namespace power {
namespace {

using adaptdl::CheckpointStore;

class Checkpoints : public Subject {
 public:
  void mark(const std::string& text) override {
    std::istringstream words(text);
    std::string when, step;
    int64_t tag = 0;
    words >> when >> step >> tag;
    clearing_ = step == "clear" && when == "begin";
    if (step == "clear") {
      if (!clearing_) told_.reset();
      return;
    }
    const std::string written = name(std::stoll(step), tag);
    if (when == "begin") {
      begun_.insert(written);  // its writer may be killed, and another one begin
    } else {
      told_ = written;
      begun_.clear();
    }
  }

  std::string check(const std::string& tree) override {
    const std::string folder = tree + "/checkpoints";
    std::vector<std::string> problems;
    CheckpointStore store(folder, 2);
    const auto newest = store.latest(&problems);
    const std::string is = newest ? name(newest->header.step, newest->header.generation) : "none";
    if (!problems.empty()) return problems.front();
    if (newest && !adaptdl::test::Sample::matches(*newest)) return is + " is not what was written";
    if (is != told_.value_or("none") && !begun_.contains(is) && !clearing_) {
      return fmt::format("the newest is {}, but {} was told", is, told_.value_or("none"));
    }
    // And writing goes on.
    const int64_t next = newest ? newest->header.step + 1 : 1;
    adaptdl::test::Sample sample(next);
    store.write(sample.header, sample.tensors());
    const auto after = store.latest(&problems);
    return after && after->header.step == next && problems.empty() ? "" : "no next checkpoint";
  }

 private:
  static std::string name(int64_t step, int64_t tag) {
    return fmt::format("step {} tag {}", step, tag);
  }

  std::optional<std::string> told_;
  std::set<std::string> begun_;
  bool clearing_ = false;
};

}  // namespace

std::unique_ptr<Subject> checkpoint_subject() {
  return std::make_unique<Checkpoints>();
}

}  // namespace power
