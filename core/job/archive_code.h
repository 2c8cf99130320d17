#pragma once

// Reads a TorchScript archive's code/**.py for the classes, their methods, and which attributes are
// parameters and buffers. Internal to core/job.

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace adaptdl {

struct ArchiveClass {
  std::set<std::string, std::less<>> parameters, buffers;
  std::vector<std::string> methods;
};

// By qualified name: "__torch__.digits.Model".
using ArchiveClasses = std::map<std::string, ArchiveClass, std::less<>>;

// Adds the classes of one file; `path` as in __torch__/digits.py. Skips code that it cannot parse.
void scan_archive_code(std::string_view path, std::string_view code, ArchiveClasses& classes);

}  // namespace adaptdl
