#pragma once

// `adaptdl inspect` of a checkpoint.

#include <string>
#include <vector>

#include "core/formats/json.h"
#include "core/job/checkpoint_summary.h"

namespace adaptdl::cli {

// `older`: paths of the run's other checkpoints, the newest first.
Json checkpoint_json(const CheckpointSummary& checkpoint, const std::vector<std::string>& older);
std::string checkpoint_text(const CheckpointSummary& checkpoint,
                            const std::vector<std::string>& older);

}  // namespace adaptdl::cli
