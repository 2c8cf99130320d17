#pragma once

// Strict reading of tables: comma-separated values below a header row that names the columns. Every
// problem is an Error
//   PATH:LINE: COLUMN: what is wrong; what is allowed
//
//   const CsvTable table(read_file(path, kLargest), path, {"name", "time"});
//   for (size_t row = 0; row < table.rows(); ++row) {
//     table.text(row, "name"), table.number(row, "time", 0), ...

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace adaptdl {

struct CsvLimits {
  size_t max_bytes = 16u << 20;
  size_t max_rows = 200'000;
};

// Immutable after construction; safe to read from many threads. Owns its text.
class CsvTable {
 public:
  // The header must name exactly `columns`, in any order; every row must have that many fields; at
  // least one row is needed. Blank lines are skipped. Throws Error.
  CsvTable(std::string text, std::string path, std::vector<std::string> columns,
           CsvLimits limits = {});

  size_t rows() const { return lines_.size(); }

  // Requires: row < rows(), and a column given to the constructor. Throws Error unless text is
  // non-empty UTF-8 and numbers are finite and within [low, high].
  std::string text(size_t row, std::string_view column) const;
  int64_t integer(size_t row, std::string_view column,
                  int64_t low = std::numeric_limits<int64_t>::min(),
                  int64_t high = std::numeric_limits<int64_t>::max()) const;
  double number(size_t row, std::string_view column,
                double low = -std::numeric_limits<double>::infinity(),
                double high = std::numeric_limits<double>::infinity()) const;

  // Throws the Error for this place. `problem` = "what is wrong; what is allowed".
  [[noreturn]] void refuse(size_t row, std::string_view column, const std::string& problem) const;

 private:
  using Field = std::pair<size_t, size_t>;  // where in the text, how long

  void read_header(const std::vector<std::string_view>& names, int64_t line);
  std::string_view field(size_t row, std::string_view column) const;
  void refuse_long(size_t row, std::string_view column, std::string_view value) const;
  std::string place(size_t row, std::string_view column) const;

  std::string text_, path_;
  std::vector<std::string> columns_;  // as asked for
  std::vector<size_t> position_;      // of each of these in a row
  std::vector<int> lines_;            // of each row, from 1
  std::vector<Field> fields_;         // row by row
};

}  // namespace adaptdl
