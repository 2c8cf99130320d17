#include "core/client/config_file.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/cluster/local/config.h"

namespace adaptdl::client {
namespace {

using Lines = std::vector<std::string>;

Lines split_lines(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string join_lines(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

size_t indent_of(const std::string& line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

// A blank line or a comment.
bool is_idle(const std::string& line) {
  const size_t begin = line.find_first_not_of(" \t\r");
  return begin == std::string::npos || line[begin] == '#';
}

// The text after "KEY:" if the line has that key at this depth; else null.
const char* value_of(const std::string& line, size_t indent, const std::string& key) {
  if (is_idle(line) || indent_of(line) != indent) return nullptr;
  for (const std::string& spelt : {key + ":", "\"" + key + "\":", "'" + key + "':"}) {
    if (line.compare(indent, spelt.size(), spelt) != 0) continue;
    const char* rest = line.c_str() + indent + spelt.size();
    if (*rest == 0 || *rest == ' ' || *rest == '\t' || *rest == '\r') return rest;
  }
  return nullptr;
}

// The comment after a value, with the blanks before it; "" where quotes make its start uncertain.
std::string comment_of(const std::string& rest) {
  const size_t mark = rest.find(" #");
  if (mark == std::string::npos || rest.find_first_of("\"'") < mark) return "";
  const size_t begin = rest.find_last_not_of(' ', mark);
  return rest.substr(begin == std::string::npos ? 0 : begin + 1);
}

// Whether the text is an empty mapping in braces, and perhaps a comment.
bool is_empty_braces(const std::string& text) {
  const size_t open = text.find_first_not_of(" \t");
  if (open == std::string::npos || text[open] != '{') return false;
  const size_t close = text.find_first_not_of(" \t", open + 1);
  return close != std::string::npos && text[close] == '}' && is_idle(text.substr(close + 1));
}

[[noreturn]] void refuse_one_line(const std::string& file, size_t at, const std::string& what) {
  fail(
      "{}:{}: {} is written on one line; write its keys on lines of their own to have them "
      "changed here, or change them by hand",
      file, at + 1, what);
}

// Where the document's mapping ends: "..." ends a document.
size_t end_of_document(const Lines& lines) {
  const auto ends = [](const std::string& line) {
    return line.starts_with("...") && is_idle(line.substr(3));
  };
  return static_cast<size_t>(std::find_if(lines.begin(), lines.end(), ends) - lines.begin());
}

// Removes a whole document that is {}; refuses another one in braces.
void open_braces(Lines& lines, const std::string& file) {
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string& line = lines[i];
    const std::string mark = line.starts_with("---") ? "---" : "";
    const std::string text = line.substr(mark.size());
    if (is_idle(text) || line.starts_with("%")) continue;
    if (text[indent_of(text)] != '{') return;
    if (!is_empty_braces(text)) refuse_one_line(file, i, "the mapping");
    line = mark + comment_of(text);
    if (line.empty()) lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
}

// The line after the value of the key on line `at`. Idle lines before the next key belong to that
// key.
size_t end_of_value(const Lines& lines, size_t at, size_t end, size_t indent) {
  size_t last = at + 1;
  for (size_t i = at + 1; i < end; ++i) {
    if (is_idle(lines[i])) continue;
    const bool item = indent_of(lines[i]) == indent && lines[i].compare(indent, 1, "-") == 0;
    if (indent_of(lines[i]) <= indent && !item) break;
    last = i + 1;
  }
  return last;
}

}  // namespace

std::string with_yaml_value(std::string_view text, const std::vector<std::string>& path,
                            const std::string& value, const std::string& file) {
  Lines lines = split_lines(text);
  open_braces(lines, file);
  size_t begin = 0, end = end_of_document(lines), indent = 0, depth = 0;
  for (; depth < path.size(); ++depth) {
    for (size_t i = begin; i < end; ++i) {  // the first key determines the mapping's indentation
      if (is_idle(lines[i]) || lines[i].starts_with("---") || lines[i].starts_with("%")) continue;
      indent = indent_of(lines[i]);
      break;
    }
    size_t at = begin;
    while (at < end && value_of(lines[at], indent, path[depth]) == nullptr) ++at;
    if (at == end) break;
    const std::string rest = value_of(lines[at], indent, path[depth]);
    const size_t value_end = end_of_value(lines, at, end, indent);
    if (depth + 1 == path.size()) {
      lines[at] = std::string(indent, ' ') + path[depth] + ": " + value + comment_of(rest);
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at + 1),
                  lines.begin() + static_cast<std::ptrdiff_t>(value_end));
      return join_lines(lines);
    }
    if (is_empty_braces(rest)) {
      lines[at] = std::string(indent, ' ') + path[depth] + ":" + comment_of(rest);
    } else if (!is_idle(rest)) {
      refuse_one_line(file, at, path[depth]);
    }
    begin = at + 1;
    end = value_end;
    indent += 2;  // unless a key shows another indentation
  }
  // Missing: append to the mapping that it belongs to.
  Lines added;
  for (size_t i = depth; i < path.size(); ++i) {
    added.push_back(std::string(indent + 2 * (i - depth), ' ') + path[i] +
                    (i + 1 == path.size() ? ": " + value : ":"));
  }
  lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(end), added.begin(), added.end());
  return join_lines(lines);
}

void change_config(const std::vector<ConfigChange>& changes, const ConfigCheck& check) {
  const std::string path = local::config_path();
  std::string text = path_exists(path) ? read_file(path, kMaxConfig) : "";
  for (const ConfigChange& change : changes) {
    text = with_yaml_value(text, change.path, change.value, path);
  }
  check(text, path);
  make_directories(parent_directory(path), 0700);
  write_user_file(path, text, 0600);
}

}  // namespace adaptdl::client
