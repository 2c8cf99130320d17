#pragma once

// --policy-option OPTION=NUMBER of the commands that schedule.

#include <map>
#include <string>
#include <vector>

namespace adaptdl::cli {

// Throws UsageError for an invalid word.
std::map<std::string, double> policy_options(const std::vector<std::string>& words);

}  // namespace adaptdl::cli
