#pragma once

// A program's own data as the loader reads it.

#include <memory>

#include "adaptdl/map_dataset.h"
#include "runtime/data/dataset.h"

namespace adaptdl {

// Throws Error if it is empty. The loader's batches hold `std::vector<at::Tensor>` (to_tensors).
data::Dataset rows_of(std::shared_ptr<const MapDataset> dataset);

}  // namespace adaptdl
