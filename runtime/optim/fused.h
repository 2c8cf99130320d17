#pragma once

// LibTorch's fused updates: one pass over all tensors of an update, where lists (tensor_list.h)
// take one for each operation. The results are those of the rules, but for rounding.

#include "adaptdl/optimizer.h"
#include "core/job/training_spec.h"

namespace adaptdl {

// Whether a fused update is to be used: on a GPU, for tensors that are alike(). Memory of a CPU has
// a pass of ours (kernels.h), or lists: for 16 bits LibTorch 2.11's fused SGD is wrong there.
bool can_fuse(const Update& update);

// Whether all are of one type on one device, each parameter is dense, and its state laid out so.
bool alike(const Update& update);

// Both require alike(). `beta1`: that of this update. `decoupled`: AdamW.
void fused_adam(const Update& update, const OptimizerSettings& settings, double beta1,
                bool decoupled);
// `momentum`: that of this update; 0 only without buffers.
void fused_sgd(const Update& update, const OptimizerSettings& settings, double momentum);

}  // namespace adaptdl
