#include "core/base/file_pattern.h"

#include <algorithm>
#include <cstdint>
#include <glob.h>
#include <memory>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl {
namespace {

constexpr size_t kMaxPaths = 1'000'000;

// A group in braces: its alternatives, and where it ends.
struct Braces {
  std::vector<std::string> alternatives;
  size_t end = 0;  // behind the closing one
};

// The numbers of "000..099", as wide as the wider end that begins with a zero.
std::optional<std::vector<std::string>> numbers(std::string_view text) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) return {};
  const std::string_view ends[] = {text.substr(0, dots), text.substr(dots + 2)};
  size_t width = 0;
  int64_t values[2] = {};
  for (int i = 0; i < 2; ++i) {
    const bool digits =
        std::all_of(ends[i].begin(), ends[i].end(), [](char c) { return c >= '0' && c <= '9'; });
    if (ends[i].empty() || ends[i].size() > 18 || !digits) return {};
    values[i] = std::stoll(std::string(ends[i]));
    if (ends[i].size() > 1 && ends[i][0] == '0') width = std::max(width, ends[i].size());
  }
  if (values[1] < values[0]) std::swap(values[0], values[1]);
  if (values[1] - values[0] >= static_cast<int64_t>(kMaxPaths)) {
    fail("{{{}}}: stands for more than {} names", text, kMaxPaths);
  }
  std::vector<std::string> result;
  for (int64_t n = values[0]; n <= values[1]; ++n) {
    result.push_back(fmt::format("{:0{}}", n, width));
  }
  return result;
}

// The group that begins at `open`; nothing if it is none, as in a shell.
std::optional<Braces> braces_at(std::string_view pattern, size_t open) {
  Braces braces;
  size_t begin = open + 1, depth = 0;
  for (size_t i = open; i < pattern.size(); ++i) {
    if (pattern[i] == '{') ++depth;
    if (pattern[i] == '}') --depth;
    if ((pattern[i] == ',' && depth == 1) || depth == 0) {
      braces.alternatives.emplace_back(pattern.substr(begin, i - begin));
      begin = i + 1;
    }
    if (depth > 0) continue;
    braces.end = i + 1;
    if (braces.alternatives.size() > 1) return braces;
    auto range = numbers(braces.alternatives.front());
    if (!range) return {};
    braces.alternatives = std::move(*range);
    return braces;
  }
  return {};
}

void expand_braces(const std::string& pattern, size_t from, std::vector<std::string>& result) {
  for (size_t open = pattern.find('{', from); open != std::string::npos;
       open = pattern.find('{', open + 1)) {
    const std::optional<Braces> braces = braces_at(pattern, open);
    if (!braces) continue;
    for (const std::string& alternative : braces->alternatives) {
      // What is in the alternative may have braces, too.
      expand_braces(pattern.substr(0, open) + alternative + pattern.substr(braces->end), open,
                    result);
    }
    return;
  }
  if (result.size() >= kMaxPaths) fail("{}: stands for more than {} files", pattern, kMaxPaths);
  result.push_back(pattern);
}

// The pattern that stands for this name only.
std::string literal_pattern(const std::string& name) {
  std::string pattern;
  for (const char c : name) {
    if (std::string_view("*?[\\").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

void expand_names(const std::string& pattern, const std::string& folder,
                  std::vector<std::string>& result) {
  const std::string whole = join_path(literal_pattern(folder), pattern);
  glob_t found = {};
  const int code = ::glob(whole.c_str(), GLOB_NOSORT, nullptr, &found);
  const std::unique_ptr<glob_t, void (*)(glob_t*)> owner(&found, ::globfree);
  if (code == GLOB_NOMATCH) fail("{}: no such file", join_path(folder, pattern));
  if (code != 0) fail("{}: the folder cannot be read", join_path(folder, pattern));
  result.insert(result.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
}

}  // namespace

bool is_pattern(const std::string& path) {
  return path.find_first_of("*?[{") != std::string::npos;
}

std::vector<std::string> expand_pattern(const std::string& pattern, const std::string& folder) {
  if (const std::string path = join_path(folder, pattern); path_exists(path)) return {path};
  std::vector<std::string> expanded, result;
  expand_braces(pattern, 0, expanded);
  for (const std::string& name : expanded) {
    const std::string path = join_path(folder, name);
    if (name.find_first_of("*?[") == std::string::npos || path_exists(path)) {
      result.push_back(path);
    } else {
      expand_names(name, folder, result);
    }
  }
  if (result.size() > kMaxPaths) fail("{}: stands for more than {} files", pattern, kMaxPaths);
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

}  // namespace adaptdl
