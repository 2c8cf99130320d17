#pragma once

// What the setting `deterministic` asks of this process, its program and its data. The arithmetic
// of a step is elsewhere: shards (data/sampler.h), their sum (parallel/shard_tree.h), buffers
// (shard_buffers.h), validations (validator.h).

#include <ATen/core/Tensor.h>

#include "adaptdl/program.h"
#include "core/job/training_spec.h"
#include "runtime/data/dataset.h"

namespace adaptdl {

// Makes LibTorch compute the same bits in every process: on one thread, as reductions are cut by
// threads; by deterministic algorithms, where others are refused when they are called; and without
// TorchScript's optimiser, whose code depends on which batches a process has seen before. Call it
// on the training thread, before the program is made. Throws Error for a device other than a CPU.
void compute_deterministically(const TrainingSpec& spec, at::Device device);

// Throw Error if the data, or the program at present, keep what depends on the replicas.
void check_deterministic(const data::Data& data);
void check_stateless(Program& program);

}  // namespace adaptdl
