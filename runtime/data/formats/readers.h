#pragma once

// The file formats behind open_column. Each reader works on bytes in memory (a mapping, as a rule)
// and yields an Array that keeps `owner`. An Array is contiguous: a reader whose columns are
// interleaved copies them out (spill.h), as read_csv does. Each throws Error "NAME: what is wrong"
// and checks sizes before it takes memory. Thread-safe.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/data/dataset.h"

namespace adaptdl::data {

// NumPy's .npy, versions 1 to 3 (numpy.lib.format). Big-endian elements are not converted
// (Array::swapped). An array in Fortran order is copied into memory if it has at most 1 GiB, and
// refused otherwise. Objects, structures, text and complex numbers are refused too.
Array read_npy(std::span<const std::byte> bytes, const std::string& name,
               std::shared_ptr<const void> owner);

// A member of a .npz, "KEY" or "KEY.npy"; without a key, the only one. A stored member is mapped; a
// compressed one is unpacked into memory if it has at most 4 GiB.
Array read_npz(const std::string& path, const std::string& key);

// The IDX format of the MNIST files: big-endian, of 1 to 8 dimensions.
Array read_idx(std::span<const std::byte> bytes, const std::string& name,
               std::shared_ptr<const void> owner);

struct CsvOptions {
  int header_lines = 0;
  std::optional<std::pair<int, int>> columns;  // 0-based, end exclusive; default: all
  DType dtype = DType::float32;                // of the result: float32, float64 or int64
};

// Comma-separated numbers, one sample per line, LF or CRLF, fields optionally in double quotes,
// blank lines skipped. One selected column gives the shape {lines}, several give {lines, columns}.
// Fields of other columns are not checked. Errors name the line.
Array read_csv(std::span<const std::byte> bytes, const std::string& name,
               const CsvOptions& options);

// The tokens of a text as int32, shape {tokens}: their places in the vocabulary. A vocabulary has
// one token a line, none twice; \n, \t, \r and \\ stand for a line's end, a tab, a carriage return
// and a backslash. `words`: a token is a run of letters, digits, _ and bytes of other alphabets, or
// any other single character; blanks between them do not count, except that a line's end is a token
// if the vocabulary has it. Else a token is the longest one of the vocabulary that follows. What is
// not in the vocabulary (a word, or one character) becomes <unk>, if that is a line of it; if not,
// it is an Error that names its line.
Array read_text(std::string_view text, const std::string& name, std::string_view vocabulary,
                const std::string& vocabulary_name, bool words);

// The product of the dimensions times `element_bytes`; throws Error with `name` if a dimension is
// negative or the product is larger than `limit`.
size_t array_bytes(std::span<const int64_t> shape, size_t element_bytes, size_t limit,
                   const std::string& name);

}  // namespace adaptdl::data
