#pragma once

// --policy and --policy-option OPTION=NUMBER of the commands that schedule.

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace adaptdl::cli {

// Those that schedule jobs, for completion.
std::vector<std::string_view> policy_names();

// Throws UsageError for an invalid word.
std::map<std::string, double> policy_options(const std::vector<std::string>& words);

}  // namespace adaptdl::cli
