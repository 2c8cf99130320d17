#pragma once

// What the fuzz targets of data formats share: reads the array that a file yielded, as training
// would, so that a wrong size is met by the sanitizers.

#include <limits>
#include <vector>

#include "core/base/error.h"
#include "runtime/data/dataset.h"

namespace adaptdl::data {

inline void read_some_rows(const Array& array) {
  for (const int64_t window : {0, 3}) {
    DataSource source;
    source.window = window;
    source.window_shift = window / 2;
    try {
      const auto column = make_column(array, source);
      if (column->rows() == 0 || column->row_bytes() > (1 << 20)) continue;
      std::vector<std::byte> out(2 * column->row_bytes());
      column->copy_rows(std::vector<int64_t>{0, column->rows() - 1}, out.data());
    } catch (const Error&) {
      // the array is sound, but no column can be made of it
    }
  }
}

}  // namespace adaptdl::data
