#pragma once

// Changing the user's configuration file (local::config_path()), of which comments and other keys
// stay as they are.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace adaptdl::client {

inline constexpr size_t kMaxConfig = 1u << 20;

// The text with `value` (YAML on one line) at the key `path`, such as {"local", "policy"}; what
// stood there goes, with its lines. Mappings on the way are made where they are missing. Throws
// Error "FILE:LINE: ..." where one is written in braces, which this does not change. Pure.
std::string with_yaml_value(std::string_view text, const std::vector<std::string>& path,
                            const std::string& value, const std::string& file);

struct ConfigChange {
  std::vector<std::string> path;
  std::string value;
};
// Gets the new text before it is written, and the file's name; throws Error if it is no good.
using ConfigCheck = std::function<void(const std::string& text, const std::string& file)>;

// Makes the changes in the file, all or none; a file that is missing is made (0600).
void change_config(const std::vector<ConfigChange>& changes, const ConfigCheck& check);

}  // namespace adaptdl::client
