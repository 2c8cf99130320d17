#pragma once

// Writes weights for other programs.

#include <cstdint>
#include <string>

#include "core/job/weights_file.h"

namespace adaptdl {

enum class WeightsFormat {
  safetensors,  // tensors that share their elements get a copy each
  state_dict,   // what torch.save(model.state_dict(), path) writes: torch.load reads it
};

// The format for a file of this name: .safetensors, .pt or .pth. Throws UsageError for others.
WeightsFormat weights_format(const std::string& path);

// Replaces `path`, or what a symlink there leads to, once everything is on disk. Throws Error.
void export_weights(const WeightsFile& weights, WeightsFormat format, const std::string& path);

}  // namespace adaptdl
