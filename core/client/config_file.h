#pragma once

// Changes the user's configuration file (local::config_path()), and keeps its comments and other
// keys.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace adaptdl::client {

inline constexpr size_t kMaxConfig = 1u << 20;

// The text with `value` (YAML on one line) at the key `path`, such as {"local", "policy"}. The
// value replaces the previous one with all its lines. Missing mappings on the way are created.
// Throws Error "FILE:LINE: ..." if one is written in braces, which this does not change unless it
// is empty. Pure.
std::string with_yaml_value(std::string_view text, const std::vector<std::string>& path,
                            const std::string& value, const std::string& file);

struct ConfigChange {
  std::vector<std::string> path;
  std::string value;
};
// Called with the new text before it is written, and the file's name; throws Error to reject it.
using ConfigCheck = std::function<void(const std::string& text, const std::string& file)>;

// Makes all of the changes in the file or none; creates a missing file (0600). A symlink there
// stays one, and an existing file keeps its mode.
void change_config(const std::vector<ConfigChange>& changes, const ConfigCheck& check);

}  // namespace adaptdl::client
