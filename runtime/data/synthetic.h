#pragma once

#include <memory>

#include "runtime/data/dataset.h"

namespace adaptdl::data {

// Samples made up from (seed, row), the same on every machine: for benchmarks and tests. With
// `synthetic_classes` labels drawn evenly from [0, classes), int64 if `dtype` is empty; else
// numbers of mean 0 and variance 1 (a sum of four evenly drawn ones: close to normal, at most 3.46
// from the mean), float32 if `dtype` is empty; scale and offset apply. Throws Error for settings
// that do not fit together.
std::shared_ptr<const Column> make_synthetic(const DataSource& source);

}  // namespace adaptdl::data
