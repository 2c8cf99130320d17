#pragma once

#include "cli/frame/parse.h"
#include "core/client/tensorboards.h"

namespace adaptdl::cli {

// What the flags of `adaptdl tensorboard create` say.
client::TensorBoardOptions tensorboard_options(const Arguments& arguments);

}  // namespace adaptdl::cli
