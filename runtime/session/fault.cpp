#include "runtime/session/fault.h"

#include <cstdlib>
#include <signal.h>
#include <string>
#include <unistd.h>

namespace adaptdl {
namespace {

constexpr const char* kNames[] = {"reduced", "prepared",  "committed",
                                  "applied", "announced", "syncing"};

}  // namespace

void fault_point(FaultPoint point, int64_t step, uint64_t member) {
  static const char* const wanted = std::getenv("ADAPTDL_FAULT");
  if (!wanted) return;
  const std::string here =
      std::string(kNames[static_cast<int>(point)]) + ":" + std::to_string(step) + ":";
  for (const std::string& who : {std::string("any"), std::to_string(member)}) {
    if (here + who == wanted) kill(getpid(), SIGKILL);
    if (here + who + ":stop" == wanted) kill(getpid(), SIGSTOP);
  }
}

}  // namespace adaptdl
