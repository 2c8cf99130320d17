#pragma once

#include <memory>

#include "runtime/data/dataset.h"

namespace adaptdl::data {

// Samples generated from (seed, row), the same on every machine, for benchmarks and tests. With
// `synthetic_classes`: labels drawn uniformly from [0, classes), int64 if `dtype` is empty. Else
// numbers with mean 0 and variance 1 (sums of four uniform numbers: close to normal, at most 3.46
// from the mean), float32 if `dtype` is empty; scale and offset apply. Throws Error for
// inconsistent settings.
std::shared_ptr<const Column> make_synthetic(const DataSource& source);

}  // namespace adaptdl::data
