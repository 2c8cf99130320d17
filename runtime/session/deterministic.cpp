#include "runtime/session/deterministic.h"

#include "core/base/error.h"
#include "runtime/torch_compat.h"

namespace adaptdl {

void compute_deterministically(const TrainingSpec& spec, at::Device device) {
  if (!device.is_cpu()) {
    fail("deterministic: true needs CPUs, but the device is {}; use --device cpu",
         c10::str(device));
  }
  at::set_num_threads(1);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  // That would also write all new memory once, for programs that read what they never wrote.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  torch::jit::setGraphExecutorOptimize(false);
  at::manual_seed(spec.seed);  // for a program that draws its first parameters
}

void check_stateless(Program& program) {
  if (!program.state().empty()) {
    fail(
        "deterministic: true works only with programs without state() of their own: it would "
        "depend on which samples a replica has seen; keep it in buffers, or remove the setting");
  }
}

void check_deterministic(const data::Data& data) {
  if (data.train.in_order()) {
    fail(
        "deterministic: true does not work with a stream: which samples it gives depends on the "
        "replicas; bring a MapDataset, or remove the setting");
  }
}

}  // namespace adaptdl
