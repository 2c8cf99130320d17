#include <charconv>
#include <cmath>
#include <string_view>

#include "core/base/error.h"
#include "runtime/data/readers.h"
#include "runtime/data/spill.h"

namespace adaptdl::data {
namespace {

constexpr int64_t kMaxFields = 1 << 20;  // of one line

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Goes through the text field by field.
class Scanner {
 public:
  Scanner(std::string_view text, const std::string& name) : text_(text), name_(name) {
    if (text_.substr(0, 3) == "\xef\xbb\xbf") place_ = 3;  // a byte order mark
  }

  bool at_end() const { return place_ >= text_.size(); }
  int64_t line() const { return line_; }

  void skip_line() {
    const size_t end = text_.find('\n', place_);
    place_ = end == std::string_view::npos ? text_.size() : end + 1;
    ++line_;
  }

  // Skips the line if there is nothing on it.
  bool skip_blank_line() {
    size_t end = place_;
    while (end < text_.size() && (text_[end] == ' ' || text_[end] == '\t' || text_[end] == '\r')) {
      ++end;
    }
    if (end < text_.size() && text_[end] != '\n') return false;
    skip_line();
    return true;
  }

  // The next field, without quotes and surrounding blanks (a doubled quote inside stays doubled:
  // numbers have none). `last`: the line ends behind it.
  std::string_view field(bool& last) {
    size_t start = place_;
    while (start < text_.size() && (text_[start] == ' ' || text_[start] == '\t')) ++start;
    std::string_view result;
    if (start < text_.size() && text_[start] == '"') {
      const int64_t opened = line_;
      size_t end = start + 1;
      for (;; ++end) {
        if (end >= text_.size()) fail("{}:{}: a quote is not closed", name_, opened);
        if (text_[end] == '\n') ++line_;
        if (text_[end] != '"') continue;
        if (end + 1 >= text_.size() || text_[end + 1] != '"') break;
        ++end;
      }
      result = text_.substr(start + 1, end - start - 1);
      place_ = end + 1;
      while (!at_end() && (text_[place_] == ' ' || text_[place_] == '\t')) ++place_;
      if (!at_end() && text_[place_] != ',' && text_[place_] != '\n' && text_[place_] != '\r') {
        fail("{}:{}: text follows a closing quote; a comma or the line's end belongs there", name_,
             line_);
      }
    } else {
      const size_t end = std::min(text_.find_first_of(",\n", start), text_.size());
      result = text_.substr(start, end - start);
      place_ = end;
      if (!result.empty() && result.back() == '\r' && (at_end() || text_[place_] == '\n')) {
        result.remove_suffix(1);
      }
    }
    if (!at_end() && text_[place_] == '\r') ++place_;
    last = at_end() || text_[place_] != ',';
    if (!at_end()) ++place_;
    if (last) ++line_;
    return trimmed(result);
  }

 private:
  std::string_view text_;
  const std::string& name_;
  size_t place_ = 0;
  int64_t line_ = 1;
};

// A field as text for a message.
std::string shown(std::string_view field) {
  return std::string(field.substr(0, 40)) + (field.size() > 40 ? "..." : "");
}

template <typename T>
T number(std::string_view field, const std::string& name, int64_t line, int64_t column) {
  std::string_view digits = field;
  if (digits.size() > 1 && digits[0] == '+' && digits[1] != '-') digits.remove_prefix(1);
  const char* end = digits.data() + digits.size();
  if (digits.empty()) {
    fail("{}:{}: column {} is empty; every sample needs a number there", name, line, column);
  }
  if constexpr (std::is_integral_v<T>) {
    T value{};
    const auto [stopped, error] = std::from_chars(digits.data(), end, value);
    if (error == std::errc() && stopped == end) return value;
  }
  double value = 0;
  const auto [stopped, error] = std::from_chars(digits.data(), end, value);
  if (stopped != end || (error != std::errc() && error != std::errc::result_out_of_range)) {
    fail(
        "{}:{}: column {} holds \"{}\", which is no number; `columns` selects some, "
        "`header_lines` skips a heading",
        name, line, column, shown(field));
  }
  if (error != std::errc()) {
    fail("{}:{}: column {} holds {}, beyond what a number can be", name, line, column,
         shown(field));
  }
  if constexpr (std::is_integral_v<T>) {
    // 2^53: beyond it not every integer is a float64.
    if (!(std::abs(value) <= 9007199254740992.0) || value != std::trunc(value)) {
      fail("{}:{}: column {} holds {}, which is no integer; choose a floating dtype", name, line,
           column, shown(field));
    }
  }
  return static_cast<T>(value);
}

template <typename T>
Array parse(std::string_view text, const std::string& name, const CsvOptions& options) {
  Scanner scanner(text, name);
  for (int i = 0; i < options.header_lines && !scanner.at_end(); ++i) scanner.skip_line();
  const int64_t first = options.columns ? options.columns->first : 0;
  const int64_t end = options.columns ? options.columns->second : kMaxFields;
  if (first < 0 || first >= end) fail("{}: columns {}:{} select nothing", name, first, end);

  Spill spill(name);
  std::vector<T> row;
  int64_t rows = 0, fields = 0;
  while (!scanner.at_end()) {
    if (scanner.skip_blank_line()) continue;
    const int64_t line = scanner.line();
    row.clear();
    int64_t count = 0;
    for (bool last = false; !last; ++count) {
      const std::string_view field = scanner.field(last);
      if (count >= kMaxFields) fail("{}:{}: more than {} fields", name, line, kMaxFields);
      if (count >= first && count < end) row.push_back(number<T>(field, name, line, count));
    }
    if (rows == 0) {
      fields = count;
      if (options.columns && end > fields) {
        fail("{}:{}: has {} columns; columns {}:{} are asked for", name, line, fields, first, end);
      }
      if (first >= fields) fail("{}:{}: has only {} columns", name, line, fields);
    } else if (count != fields) {
      fail("{}:{}: has {} fields, the lines before it {}", name, line, count, fields);
    }
    spill.append(std::as_bytes(std::span(row)));
    ++rows;
  }
  if (rows == 0) fail("{}: holds no line of numbers", name);

  auto [bytes, owner] = spill.finish();
  Array array;
  array.name = name;
  array.dtype = options.dtype;
  array.shape = {rows};
  if (row.size() > 1) array.shape.push_back(static_cast<int64_t>(row.size()));
  array.bytes = bytes.data();
  array.owner = std::move(owner);
  return array;
}

}  // namespace

Array read_csv(std::span<const std::byte> bytes, const std::string& name,
               const CsvOptions& options) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  switch (options.dtype) {
    case DType::float32:
      return parse<float>(text, name, options);
    case DType::float64:
      return parse<double>(text, name, options);
    case DType::int64:
      return parse<int64_t>(text, name, options);
    default:
      check_failed("a type that read_csv yields", __FILE__, __LINE__);
  }
}

}  // namespace adaptdl::data
