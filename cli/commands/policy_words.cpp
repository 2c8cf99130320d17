#include "cli/commands/policy_words.h"

#include <optional>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/policy/policy.h"

namespace adaptdl::cli {

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names;
  for (const PolicyInfo& policy : policies()) names.push_back(policy.name);
  return names;
}

std::map<std::string, double> policy_options(const std::vector<std::string>& words) {
  std::map<std::string, double> options;
  for (const std::string& word : words) {
    const size_t sign = word.find('=');
    const auto value = sign == word.npos
                           ? std::nullopt
                           : try_parse<double>(std::string_view(word).substr(sign + 1));
    if (!value) {
      throw UsageError(
          fmt::format("--policy-option: {} is not OPTION=NUMBER, such as idle=1.", word));
    }
    options[word.substr(0, sign)] = *value;
  }
  return options;
}

}  // namespace adaptdl::cli
