// Writes checkpoints for the tests of power cuts and failing disks.
//
// Usage: power_writer record FOLDER SEED ROUNDS   writes, marks what it begins and what is done;
// some
//                                                 writers are killed
//        power_writer faults FOLDER               fails each call of a write in turn; prints how
//        many
// Both run with the recorder (recorder.cpp). Exits 1 after a failure.

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <fmt/format.h>
#include <random>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "runtime/checkpoint/store.h"
#include "tests/power/log.h"
#include "tests/unit/checkpoint/sample.h"

namespace {

using adaptdl::CheckpointStore;
using adaptdl::test::Sample;
using power::Control;

constexpr uint32_t kEvery = ~0u;
constexpr uint64_t kCalls = 24;  // of a write, about

void write(CheckpointStore& store, int64_t step, int64_t tag) {
  Sample sample(step);
  sample.header.generation = tag;
  store.write(sample.header, sample.tensors());
}

void write_marked(CheckpointStore& store, int64_t step, int64_t tag) {
  power::mark(fmt::format("begin {} {}", step, tag));
  write(store, step, tag);
  power::mark(fmt::format("done {} {}", step, tag));
}

// A writer that is killed at the call that `kill` names, unless it ends before.
void write_killed(Control& control, const std::string& folder, int64_t step, int64_t tag,
                  const Control& kill) {
  const pid_t child = ::fork();
  if (child == 0) {
    CheckpointStore store(folder, 2);
    power::mark(fmt::format("begin {} {}", step, tag));
    control = kill;
    write(store, step, tag);
    control = {};
    power::mark(fmt::format("done {} {}", step, tag));
    ::_exit(0);
  }
  if (child < 0 || ::waitpid(child, nullptr, 0) != child) throw std::runtime_error("no child");
  control = {};
}

void record(Control& control, const std::string& folder, uint64_t seed, int rounds) {
  std::mt19937_64 random(seed);
  CheckpointStore store(folder, 2);
  int64_t step = 0, tag = 0;
  for (int round = 0; round < rounds; ++round) {
    const uint64_t kind = random() % 10;
    ++tag;
    if (kind == 0 && step > 3) step -= 3;  // a history that this one replaces
    if (kind > 2) ++step;                  // else another one of the same step
    if (kind >= 8) {
      // Half of them at a sync: what comes before it is then done, but not durable.
      const bool at_sync = random() % 2 == 0;
      const Control kill{.kinds = at_sync ? Control::kSync : kEvery,
                         .countdown = static_cast<int32_t>(1 + random() % (at_sync ? 6 : kCalls))};
      if (kind == 9 && step > 1) --step;  // it replaces the newest
      write_killed(control, folder, step, tag, kill);
    } else {
      write_marked(store, step, tag);
    }
    if (round == rounds / 2) {
      power::mark("begin clear");
      store.clear();
      power::mark("done clear");
      step = 0;
    }
  }
}

std::string newest(const CheckpointStore& store) {
  std::vector<std::string> problems;
  const auto loaded = store.latest(&problems);
  if (!problems.empty()) throw std::runtime_error(problems.front());
  if (!loaded || !Sample::matches(*loaded)) return "none";
  return fmt::format("step {} tag {}", loaded->header.step, loaded->header.generation);
}

// Whether a call was there to fail. `step`: of the write, after one of step 2 with tag 2.
bool fails(Control& control, const std::string& folder, const Control& how, int64_t step) {
  adaptdl::remove_tree(folder);
  CheckpointStore store(folder, 2);
  write(store, 1, 1);
  write(store, 2, 2);
  control = how;
  std::string error;
  try {
    write(store, step, 3);
  } catch (const adaptdl::Error& problem) {
    error = problem.what();
  }
  const bool hit = control.hits > 0;
  control = {};
  const std::string is = newest(store), wanted = fmt::format("step {} tag 3", step);
  // A failed write may be there all the same, but nothing else than it or the one before.
  if (is != wanted && (error.empty() || is != "step 2 tag 2")) {
    throw std::runtime_error(
        fmt::format("the newest is {}, not {} (error: {})", is, wanted, error));
  }
  write(store, 4, 4);
  if (newest(store) != "step 4 tag 4") throw std::runtime_error("no next checkpoint");
  return hit;
}

void faults(Control& control, const std::string& folder) {
  int count = 0;
  for (const int64_t step : {2, 3}) {
    for (const int error : {EIO, ENOSPC}) {
      for (const uint32_t lasting : {0u, 1u}) {
        for (uint32_t kind = Control::kWrite; kind <= Control::kTruncate; kind *= 2) {
          for (int32_t call = 1;; ++call, ++count) {
            const Control how{.kinds = kind, .countdown = call, .error = error, .lasting = lasting};
            try {
              if (!fails(control, folder, how, step)) break;
            } catch (const std::exception& problem) {
              throw std::runtime_error(fmt::format("call {} of kind {} fails with {}: {}", call,
                                                   kind, error, problem.what()));
            }
          }
        }
      }
    }
  }
  fmt::print("{} calls failed, each told, nothing lost\n", count);
}

}  // namespace

int main(int count, char** words) {
  try {
    Control* const control = power::map_control();
    if (count < 3 || control == nullptr) throw std::runtime_error("see the head of writer.cpp");
    const std::string what = words[1], folder = std::string(words[2]) + "/checkpoints";
    if (what == "record" && count == 5) {
      record(*control, folder, std::stoull(words[3]), std::stoi(words[4]));
    } else if (what == "faults") {
      faults(*control, folder);
    } else {
      throw std::runtime_error("see the head of writer.cpp");
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "power_writer: {}\n", error.what());
    return 1;
  }
}
