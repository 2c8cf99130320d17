#pragma once

// PyTorch 2.6 and newer: torch.load reads weights, and refuses pickles, which run code, unless
// kLoadPicklesVariable (core/job/worker_environment.h) is 1. Python AdaptDL 0.2's checkpoints
// contain pickles that its programs load in this way, so each restart of them would fail.

#include <string_view>

namespace adaptdl::launch {

// Whether a program's output, or its last part, ends with the traceback of torch.load's refusal
// while AdaptDL's own code restored the program's checkpoint. A torch.load of other data does not
// count, wherever it was called. Pure; never throws.
bool refused_own_pickle(std::string_view output);

}  // namespace adaptdl::launch
