#include "core/job/archive_code.h"

#include <algorithm>

namespace adaptdl {
namespace {

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::string_view identifier(std::string_view text) {
  const auto end = std::find_if(text.begin(), text.end(), [](char c) {
    return !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_');
  });
  return text.substr(0, static_cast<size_t>(end - text.begin()));
}

// The names in: ["weight", "bias", ]
void quoted_names(std::string_view text, std::set<std::string, std::less<>>& names) {
  for (;;) {
    const size_t open = text.find('"');
    if (open == std::string_view::npos) return;
    text.remove_prefix(open + 1);
    const size_t close = text.find('"');
    if (close == std::string_view::npos) return;
    names.emplace(text.substr(0, close));
    text.remove_prefix(close + 1);
  }
}

}  // namespace

void scan_archive_code(std::string_view path, std::string_view code, ArchiveClasses& classes) {
  if (path.ends_with(".py")) path.remove_suffix(3);
  std::string module(path);
  std::replace(module.begin(), module.end(), '/', '.');

  ArchiveClass* current = nullptr;
  while (!code.empty()) {
    const size_t end = std::min(code.find('\n'), code.size());
    std::string_view line = code.substr(0, end);
    code.remove_prefix(std::min(end + 1, code.size()));
    if (take_prefix(line, "class ")) {
      current = &classes[module + "." + std::string(identifier(line))];
    } else if (current == nullptr) {
      continue;
    } else if (take_prefix(line, "  __parameters__ = ")) {
      quoted_names(line, current->parameters);
    } else if (take_prefix(line, "  __buffers__ = ")) {
      quoted_names(line, current->buffers);
    } else if (take_prefix(line, "  def ")) {
      current->methods.emplace_back(identifier(line));
    }
  }
}

}  // namespace adaptdl
