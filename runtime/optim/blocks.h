#pragma once

#include <cstdint>
#include <functional>

namespace adaptdl {

constexpr int64_t kBlock = 1 << 15;  // elements; as LibTorch divides work among threads

inline int64_t block_of(int64_t element) {
  return element / kBlock;
}

// Calls f(begin, end) for each block of the elements [0, count), on LibTorch's threads if there are
// several. The blocks do not depend on the number of threads.
void for_blocks(int64_t count, const std::function<void(int64_t begin, int64_t end)>& f);

}  // namespace adaptdl
