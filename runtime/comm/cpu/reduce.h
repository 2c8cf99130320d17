#pragma once

// The arithmetic of a reduction: plain buffers, no communication.

#include <cstddef>

#include "runtime/comm/communicator.h"

namespace adaptdl::comm {

// result[i] = sources[0][i] op sources[1][i] op ..., from left to right, for i < count; the sum is
// divided by `divisor` if that is not 1 (Op::average sums; the caller knows the divisor).
// `copy`, if not null, receives the same values. 16-bit floats are summed in f32 and rounded once
// (to nearest even). `result` may be one of the sources; nothing else may overlap.
// Requires: 1 <= number; buffers aligned to the element (slower, not wrong, beyond 32 bytes).
// The result does not depend on the instruction set. Thread-safe.
void reduce(void* result, void* copy, const void* const* sources, int number, size_t count,
            Type type, Op op, double divisor);

}  // namespace adaptdl::comm
