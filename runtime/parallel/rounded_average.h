#pragma once

// An average over replicas of numbers that travel as bf16, which halves what links between hosts
// carry. The rounding error of a replica's numbers is added to its numbers of the next step (error
// feedback: Karimireddy et al., Error Feedback Fixes SignSGD, ICML 2019, algorithm 2, but of the
// gradient, not of the learning rate's product with it), so that small gradients count in the long
// run. Errors of sums on the way are not: each is at most 2^-8 of the sum, once a host with several
// replicas and once at the end.

#include <ATen/core/Tensor.h>

namespace adaptdl {

namespace comm {
class Communicator;
}

// For one bucket of one replica. One thread. It takes 6 bytes of the device's memory per element.
class RoundedAverage {
 public:
  // Replaces `values` (flat, fp32) by their average, bitwise the same on all replicas, all of which
  // call it. The error of the last step counts unless it is greater than `values`, as after a step
  // with a huge gradient, which was skipped or clipped. Numbers that are not finite stay so, and
  // leave no error. On a GPU the result is queued on the current stream. Throws comm::Aborted; if
  // the step is then repeated, the error before it is lost.
  void average(comm::Communicator& communicator, const at::Tensor& values);

 private:
  at::Tensor error_;    // fp32
  at::Tensor rounded_;  // bf16; undefined: there are none yet
};

}  // namespace adaptdl
