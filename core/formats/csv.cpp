#include "core/formats/csv.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/formats/csv_scanner.h"

namespace adaptdl {
namespace {

constexpr size_t kMaxFields = 64;  // of one line; no table here has as many
constexpr size_t kMaxShown = 40;

std::string list_of(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

// The part of an untrusted text that a message shows.
std::string_view shown(std::string_view text) {
  return text.substr(0, kMaxShown);
}

// Unicode, table 3-7: well-formed UTF-8 byte sequences.
bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t at) { return at < text.size() ? text[at] & 0xff : 0; };
    const int first = byte(i), second = byte(i + 1);
    const int length = first < 0x80   ? 1
                       : first < 0xc2 ? 0
                       : first < 0xe0 ? 2
                       : first < 0xf0 ? 3
                                      : 4;
    const int low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const int high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (length == 0 || first > 0xf4 || (length > 1 && (second < low || second > high)))
      return false;
    for (int k = 2; k < length; ++k) {
      if ((byte(i + static_cast<size_t>(k)) & 0xc0) != 0x80) return false;
    }
    i += static_cast<size_t>(length);
  }
  return true;
}

std::vector<std::string_view> next_line(CsvScanner& scanner, const std::string& path) {
  std::vector<std::string_view> fields;
  const int64_t line = scanner.line();
  for (bool last = false; !last;) {
    if (fields.size() == kMaxFields) {
      fail("{}:{}: the line has more than {} fields", path, line, kMaxFields);
    }
    fields.push_back(scanner.field(last));
  }
  return fields;
}

}  // namespace

CsvTable::CsvTable(std::string text, std::string path, std::vector<std::string> columns,
                   CsvLimits limits)
    : text_(std::move(text)), path_(std::move(path)), columns_(std::move(columns)) {
  if (text_.size() > limits.max_bytes) {
    fail("{}: is too large: {}; at most {} are allowed", path_, format_bytes(text_.size()),
         format_bytes(limits.max_bytes));
  }
  CsvScanner scanner(text_, path_);
  while (!scanner.at_end() && scanner.skip_blank_line()) continue;
  if (scanner.at_end()) {
    fail("{}: is empty; the first line must name the columns {}", path_, list_of(columns_));
  }
  const int64_t header = scanner.line();
  read_header(next_line(scanner, path_), header);
  while (!scanner.at_end()) {
    if (scanner.skip_blank_line()) continue;
    const int64_t line = scanner.line();
    if (lines_.size() == limits.max_rows) {
      fail("{}:{}: has too many rows; at most {} are allowed", path_, line, limits.max_rows);
    }
    const auto fields = next_line(scanner, path_);
    if (fields.size() != columns_.size()) {
      fail("{}:{}: the row has {} fields; the header names {} columns", path_, line, fields.size(),
           columns_.size());
    }
    lines_.push_back(static_cast<int>(line));
    for (const auto& field : fields) {
      fields_.emplace_back(static_cast<size_t>(field.data() - text_.data()), field.size());
    }
  }
  if (lines_.empty()) fail("{}: has no row below its header; at least one is needed", path_);
}

void CsvTable::read_header(const std::vector<std::string_view>& names, int64_t line) {
  for (const auto& column : columns_) {
    const auto found = std::find(names.begin(), names.end(), column);
    if (found == names.end()) {
      fail("{}:{}: {}: the header lacks this column; it must name {}", path_, line, column,
           list_of(columns_));
    }
    if (std::find(found + 1, names.end(), column) != names.end()) {
      fail("{}:{}: {}: the header names this column twice; once is allowed", path_, line, column);
    }
    position_.push_back(static_cast<size_t>(found - names.begin()));
  }
  for (const auto& name : names) {
    if (std::find(columns_.begin(), columns_.end(), name) == columns_.end()) {
      fail("{}:{}: {}: unknown column; known columns: {}", path_, line, shown(name),
           list_of(columns_));
    }
  }
}

std::string_view CsvTable::field(size_t row, std::string_view column) const {
  ADAPTDL_CHECK(row < rows());
  const auto found = std::find(columns_.begin(), columns_.end(), column);
  ADAPTDL_CHECK(found != columns_.end());
  const size_t position = position_[static_cast<size_t>(found - columns_.begin())];
  const auto& [begin, size] = fields_[row * columns_.size() + position];
  return std::string_view(text_).substr(begin, size);
}

std::string CsvTable::place(size_t row, std::string_view column) const {
  return fmt::format("{}:{}: {}", path_, lines_[row], column);
}

void CsvTable::refuse(size_t row, std::string_view column, const std::string& problem) const {
  fail("{}: {}", place(row, column), problem);
}

std::string CsvTable::text(size_t row, std::string_view column) const {
  const std::string_view value = field(row, column);
  if (value.empty()) refuse(row, column, "is empty; give some text");
  if (value.find('"') != std::string_view::npos) {
    refuse(row, column, "contains a quote; give text without quotes");
  }
  if (!is_utf8(value)) refuse(row, column, "is not UTF-8; save the file in that encoding");
  return std::string(value);
}

// Formats the place only for a rejected value, because files have many numbers.
int64_t CsvTable::integer(size_t row, std::string_view column, int64_t low, int64_t high) const {
  const std::string_view value = field(row, column);
  const auto parsed = try_parse<int64_t>(value);
  if (parsed && *parsed >= low && *parsed <= high) return *parsed;
  refuse_long(row, column, value);
  return parse_int(value, place(row, column), low, high);
}

double CsvTable::number(size_t row, std::string_view column, double low, double high) const {
  const std::string_view value = field(row, column);
  const auto parsed = try_parse<double>(value);
  if (parsed && std::isfinite(*parsed) && *parsed >= low && *parsed <= high) return *parsed;
  refuse_long(row, column, value);
  return parse_double(value, place(row, column), low, high);
}

// Keeps the message on one line.
void CsvTable::refuse_long(size_t row, std::string_view column, std::string_view value) const {
  if (value.size() <= kMaxShown) return;
  refuse(row, column, fmt::format("'{}...' is not a number; give a number", shown(value)));
}

}  // namespace adaptdl
