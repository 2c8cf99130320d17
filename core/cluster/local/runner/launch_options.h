#pragma once

// What the launcher needs to run a job in its folder.

#include <string>
#include <vector>

#include "core/cluster/local/runner/granted_job.h"
#include "core/launch/command/command_run.h"
#include "core/launch/run/run.h"

namespace adaptdl::local {

// All paths below `folder`, replicas as the slots allow. Throws UsageError when there are too few
// for one. For a job of kind command; for the others the program's worker is still to be chosen
// (choose_trainer).
launch::CommandOptions command_options(const GrantedJob& job, const JobFolder& folder,
                                       const std::vector<int>& slots,
                                       const std::string& supervisor);
launch::RunOptions training_options(const GrantedJob& job, const JobFolder& folder,
                                    const std::vector<int>& slots);

// "0,3": a list of numbers, all different. Throws UsageError.
std::vector<int> parse_slots(const std::string& text);

}  // namespace adaptdl::local
