#pragma once

// Patterns that stand for several files: train-{000..099}.tar, shards/*.tar.

#include <string>
#include <vector>

namespace adaptdl {

// Whether the path has a character of patterns: * ? [ {
bool is_pattern(const std::string& path);

// The paths that `pattern` stands for, each once, in bytewise order. {A,B} and {000..099} are
// replaced as shells do it, whether the files exist or not; *, ? and [...] stand for names on the
// disk (glob(7)). A file that has such a name is taken as it is. A relative pattern is below
// `folder`, whose name is no pattern and begins each path. Throws Error if that is nothing, or more
// than a million.
std::vector<std::string> expand_pattern(const std::string& pattern, const std::string& folder = "");

}  // namespace adaptdl
