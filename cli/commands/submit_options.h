#pragma once

#include "cli/frame/parse.h"
#include "core/client/submission.h"

namespace adaptdl::cli {

// What the flags of `adaptdl submit` say.
client::SubmitOptions submit_options(const Arguments& arguments);

}  // namespace adaptdl::cli
