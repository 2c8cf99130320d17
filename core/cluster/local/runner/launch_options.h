#pragma once

// What the launcher needs to run a job in its folder.

#include <string>
#include <vector>

#include "core/cluster/local/runner/granted_job.h"
#include "core/launch/command/command_run.h"
#include "core/launch/run/run.h"

namespace adaptdl::local {

// All paths are below `folder`; the replicas are as many as the slots allow. Throws UsageError when
// the slots are too few for one replica. command_options() is for jobs of kind command; for the
// other kinds the caller still has to choose the program's worker (choose_trainer).
launch::CommandOptions command_options(const GrantedJob& job, const JobFolder& folder,
                                       const std::vector<int>& slots,
                                       const std::string& supervisor);
launch::RunOptions training_options(const GrantedJob& job, const JobFolder& folder,
                                    const std::vector<int>& slots);

// "0,3": a list of numbers, all different. Throws UsageError.
std::vector<int> parse_slots(const std::string& text);

}  // namespace adaptdl::local
