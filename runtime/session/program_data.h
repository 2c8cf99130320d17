#pragma once

// A program's own data, and its transforms, as the loader reads them.

#include <string>

#include "adaptdl/program_data.h"
#include "core/job/training_spec.h"
#include "runtime/data/dataset.h"

namespace adaptdl {

// Throws Error where the program's data contradict the settings.
void check_program_data(const ProgramData& program, const DataSpec& spec);

// What a run reads: the program's own data, or those of the settings, relative to `folder`, each
// with the program's transforms. The loader's batches hold `std::vector<at::Tensor>` (to_tensors).
// Throws Error as the above and data::open_data(), if there are no data, and if the settings need
// validations without data for them.
data::Data open_program_data(const ProgramData& program, const TrainingSpec& spec,
                             const std::string& folder);

}  // namespace adaptdl
