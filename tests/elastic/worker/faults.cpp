#include "tests/elastic/worker/faults.h"

#include <chrono>
#include <new>
#include <signal.h>
#include <thread>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/system.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

constexpr const char* kNames[] = {"reduced",   "prepared", "committed",  "applied",
                                  "announced", "syncing",  "saving_best"};

constexpr std::chrono::seconds kSlow{10};

void flip(const at::Tensor& tensor) {
  auto* bytes = static_cast<unsigned char*>(tensor.detach().mutable_data_ptr());
  bytes[2] ^= 0x10;  // of the mantissa of an fp32 number
}

}  // namespace

Faults::Faults() : wanted_(environment_variable("ADAPTDL_FAULT").value_or("")) {}

void Faults::reached(StepHooks::Point point, int64_t step, uint64_t member) const {
  if (wanted_.empty()) return;
  const std::string here =
      std::string(kNames[static_cast<int>(point)]) + ":" + std::to_string(step) + ":";
  for (const std::string& who : {std::string("any"), std::to_string(member)}) {
    if (here + who == wanted_) kill(getpid(), SIGKILL);
    if (here + who + ":stop" == wanted_) kill(getpid(), SIGSTOP);
    // Once for each member whose file is there.
    if (here + who + ":hang" == wanted_ && unlink(fmt::format("hang-{}", member).c_str()) == 0) {
      for (;;) pause();
    }
    if (here + who + ":throw" == wanted_) fail("the exception that was asked for");
    if (here + who + ":slow" == wanted_) std::this_thread::sleep_for(kSlow);
    if (here + who + ":no_memory" == wanted_) throw std::bad_alloc();
    if (here + who + ":flip" == wanted_) flip(program_->parameters().front().tensor);
  }
}

}  // namespace adaptdl
