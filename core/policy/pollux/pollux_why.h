#pragma once

#include <string>

#include "core/policy/pollux/pollux_choices.h"

namespace adaptdl {

// Why the job has that row of the answer, in a sentence for its user.
std::string why_row(PolluxProblem& problem, int job, const PolluxRow& row);

}  // namespace adaptdl
