#include <charconv>
#include <cmath>
#include <string_view>

#include "core/base/error.h"
#include "core/formats/csv_scanner.h"
#include "runtime/data/formats/readers.h"
#include "runtime/data/spill.h"

namespace adaptdl::data {
namespace {

constexpr int64_t kMaxFields = 1 << 20;  // of one line

// A field as text for a message.
std::string quoted(std::string_view field) {
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
        "{}:{}: column {} holds \"{}\", which is not a number; select columns with "
        "`columns`, skip a heading with `header_lines`",
        name, line, column, quoted(field));
  }
  if (error != std::errc()) {
    fail("{}:{}: column {} holds {}, which is out of range", name, line, column, quoted(field));
  }
  if (!std::isfinite(value)) {
    fail(
        "{}:{}: column {} holds {}; every sample needs a finite number there (a file in .npy "
        "format "
        "may have others)",
        name, line, column, quoted(field));
  }
  if constexpr (std::is_integral_v<T>) {
    // Above 2^53 not every integer is exact in float64.
    if (!(std::abs(value) <= 9007199254740992.0) || value != std::trunc(value)) {
      fail("{}:{}: column {} holds {}, which is not an integer; choose a floating-point dtype",
           name, line, column, quoted(field));
    }
  } else if (!std::isfinite(static_cast<T>(value))) {
    fail("{}:{}: column {} holds {}, which is out of range for float32; choose the dtype float64",
         name, line, column, quoted(field));
  }
  return static_cast<T>(value);
}

template <typename T>
Array parse(std::string_view text, const std::string& name, const CsvOptions& options) {
  CsvScanner scanner(text, name);
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
        fail("{}:{}: has {} columns; columns {}:{} are requested", name, line, fields, first, end);
      }
      if (first >= fields) fail("{}:{}: has only {} columns", name, line, fields);
    } else if (count != fields) {
      fail("{}:{}: has {} fields, the lines before it {}", name, line, count, fields);
    }
    spill.append(std::as_bytes(std::span(row)));
    ++rows;
  }
  if (rows == 0) fail("{}: holds no lines of numbers", name);

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
