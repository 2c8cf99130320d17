// Measures the policies that choose configurations on large clusters whose jobs partly run. Prints
// one line of JSON for each policy and cluster: the processor time of a call (least and median),
// how far the objective is from its bound at most, and the memory that a call takes for each job
// at its peak, over what the snapshot takes.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <vector>

#include "core/formats/json.h"
#include "core/policy/policy.h"
#include "tests/unit/policy/large_snapshot.h"

using namespace adaptdl;

namespace {

const std::vector<std::string> kThreeKinds = {"a100", "t4", "v100"};

struct Size {
  const char* name;
  LargeShape shape;
  int calls;
};

double processor_seconds() {
  timespec time;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double resident_bytes() {
  long size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

double peak_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

void measure(const char* name, const Size& size) {
  const Snapshot snapshot = large_snapshot(1, size.shape);
  const auto policy = make_policy(name);
  const double before = resident_bytes();
  std::vector<double> seconds;
  Decision decision;
  for (int call = 0; call < size.calls; ++call) {
    const double started = processor_seconds();
    decision = policy->decide(snapshot, 1, {});
    seconds.push_back(processor_seconds() - started);
  }
  std::sort(seconds.begin(), seconds.end());
  const Json record = {{"name", "large_policy_call"},
                       {"policy", name},
                       {"size", size.name},
                       {"unit", "s"},
                       {"least", seconds.front()},
                       {"median", seconds[seconds.size() / 2]},
                       {"n", size.calls},
                       {"gap", decision.gap / std::max(std::abs(decision.objective), 1e-12)},
                       {"bytes_per_job", (peak_bytes() - before) / size.shape.jobs}};
  std::printf("%s\n", dump_json(record).c_str());
  std::fflush(stdout);
}

}  // namespace

int main() {
  for (const Size& size :
       {Size{"160 jobs on 64 GPUs", {160, 16, 4}, 41},
        Size{"160 jobs on 64 GPUs of 3 kinds", {160, 16, 4, kThreeKinds}, 41},
        Size{"2000 jobs on 10000 GPUs", {2000, 1250}, 5},
        Size{"2000 jobs on 10000 GPUs of 3 kinds", {2000, 1250, 8, kThreeKinds}, 5},
        Size{"20000 jobs on 100000 GPUs", {}, 3},
        Size{"20000 jobs on 100000 GPUs of 3 kinds", {20'000, 12'500, 8, kThreeKinds}, 3}}) {
    for (const char* name : {"proportional", "sia"}) {
      const pid_t child = ::fork();  // a peak of its own
      if (child == 0) {
        measure(name, size);
        ::_exit(0);
      }
      int status = 0;
      if (child < 0 || ::waitpid(child, &status, 0) < 0 || status != 0) return 1;
    }
  }
}
