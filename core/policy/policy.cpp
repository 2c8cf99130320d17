#include "core/policy/policy.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/policy/fixed.h"
#include "core/policy/pollux/pollux.h"
#include "core/policy/proportional.h"
#include "core/policy/sia/sia.h"

namespace adaptdl {
namespace {

template <typename Items>
std::string names_of(const Items& items) {
  std::string names;
  for (const auto& item : items) names += (names.empty() ? "" : ", ") + std::string(item.name);
  return names.empty() ? "none" : names;
}

}  // namespace

std::span<const PolicyInfo> policies() {
  static const std::array table = {proportional_policy(), pollux_policy(), sia_policy(),
                                   fixed_policy()};
  return table;
}

std::string_view default_policy() {
  return policies().front().name;
}

std::unique_ptr<Policy> make_policy(std::string_view name,
                                    const std::map<std::string, double>& options) {
  for (const PolicyInfo& policy : policies()) {
    if (policy.name != name) continue;
    std::map<std::string, double> values;
    for (const PolicyOption& option : policy.options) {
      values[std::string(option.name)] = option.fallback;
    }
    for (const auto& given : options) {
      const auto& [key, value] = given;
      const auto option =
          std::find_if(policy.options.begin(), policy.options.end(),
                       [&](const PolicyOption& o) { return o.name == given.first; });
      if (option == policy.options.end()) {
        fail("policy {}: unknown option {}; available: {}", name, key, names_of(policy.options));
      }
      if (!(value >= option->low && value <= option->high)) {
        fail("policy {}: {} is {}; it must be from {} to {}", name, key, format_number(value),
             format_number(option->low), format_number(option->high));
      }
      values[key] = value;
    }
    return policy.make(values);
  }
  fail("unknown policy {}; the policies are: {}", name, names_of(policies()));
}

}  // namespace adaptdl
