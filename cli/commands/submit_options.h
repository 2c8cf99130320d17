#pragma once

#include "cli/frame/parse.h"
#include "core/client/submission.h"

namespace adaptdl::cli {

// The options from the flags of `adaptdl submit`.
client::SubmitOptions submit_options(const Arguments& arguments);

}  // namespace adaptdl::cli
