#include "cli/frame/output.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <unistd.h>
#include <utility>

#include "core/base/system.h"
#include "core/base/text.h"

namespace adaptdl::cli {
namespace {

constexpr size_t kLeastWrapped = 30;  // columns; narrower text is hard to read

// The columns of UTF-8 text on a terminal, if each character takes one.
size_t columns_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  }));
}

}  // namespace

void print_json(const Json& value) {
  print_line(printable_json(value));
}

bool is_fancy(int fd, bool no_color) {
  return !no_color && wants_color(fd);
}

bool is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == 0) continue;
    const std::string locale = lower_case(value);
    return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

std::string table(const std::vector<std::string>& head, std::vector<std::vector<std::string>> rows,
                  std::vector<size_t>* widths_of_all) {
  for (auto& row : rows) {
    for (std::string& cell : row) cell = without_controls(std::move(cell));
  }
  std::vector<size_t> own;
  std::vector<size_t>& widths = widths_of_all != nullptr ? *widths_of_all : own;
  widths.resize(head.size());
  for (size_t i = 0; i < head.size(); ++i) widths[i] = std::max(widths[i], columns_of(head[i]));
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i]));
  }
  std::string text;
  const auto add = [&](const std::vector<std::string>& row) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text.append(widths[i] - columns_of(row[i]) + 2, ' ');
    }
    while (text.ends_with(' ')) text.pop_back();  // the last columns may be empty
    text += '\n';
  };
  add(head);
  for (const auto& row : rows) add(row);
  return text;
}

std::string wrapped_table(const std::vector<std::string>& head,
                          const std::vector<std::vector<std::string>>& rows, size_t width) {
  const size_t last = head.size() - 1;
  size_t before = 0;  // the columns of all but the last text
  for (size_t i = 0; i < last; ++i) {
    size_t most = columns_of(head[i]);
    for (const auto& row : rows) most = std::max(most, columns_of(row[i]));
    before += most + 2;
  }
  if (width < before + kLeastWrapped) return table(head, rows);
  std::vector<std::vector<std::string>> lines;
  for (const auto& row : rows) {
    std::vector<std::string> line = row;
    for (std::string& part : split(wrap(without_controls(row[last]), width - before, 0), '\n')) {
      line[last] = std::move(part);
      lines.push_back(std::exchange(line, std::vector<std::string>(head.size())));
    }
  }
  return table(head, std::move(lines));
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, " x "));
}

std::string short_number(double value) {
  const char* suffix = "";
  for (const char* next : {"k", "M", "G"}) {
    if (std::abs(value) < 999.5) break;
    value /= 1000.0;
    suffix = next;
  }
  const int digits = std::abs(value) >= 100.0 ? 0 : std::abs(value) >= 10.0 ? 1 : 2;
  return fmt::format("{:.{}f}{}", value, digits, suffix);
}

std::string network_rate(double bytes_per_s) {
  return bytes_per_s < 1e9 ? fmt::format("{:.3g} MB/s", bytes_per_s / 1e6)
                           : fmt::format("{:.3g} GB/s", bytes_per_s / 1e9);
}

std::string shell_word(std::string_view word) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./+,:@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted + "'";
}

std::string wrap(std::string_view text, size_t width, size_t indent) {
  std::string result;
  size_t column = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (column > 0 && indent + column + 1 + word.size() > width) {
      result += '\n';
      result.append(indent, ' ');
      column = 0;
    } else if (column > 0) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result;
}

}  // namespace adaptdl::cli
