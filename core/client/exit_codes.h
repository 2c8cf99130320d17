#pragma once

#include "core/base/error.h"

namespace adaptdl::client {

// Exit codes, beside those of ExitCode, for how a job ended, that it has not, or that there is none
// (adaptdl(1), EXIT STATUS).
inline constexpr ExitCode kJobFailed{100}, kJobUnfinished{101}, kJobMissing{102},
    kJobCancelled{103};

}  // namespace adaptdl::client
