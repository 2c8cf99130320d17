#pragma once

#include "cli/frame/parse.h"
#include "core/client/tensorboards.h"

namespace adaptdl::cli {

// The options from the flags of `adaptdl tensorboard create`.
client::TensorBoardOptions tensorboard_options(const Arguments& arguments);

}  // namespace adaptdl::cli
