#include "runtime/optim/blocks.h"

#include <algorithm>

#include <ATen/TensorIterator.h>

#include "runtime/torch_compat.h"

namespace adaptdl {

void for_blocks(int64_t count, const std::function<void(int64_t begin, int64_t end)>& f) {
  const auto run = [&](int64_t block) { f(block * kBlock, std::min(count, (block + 1) * kBlock)); };
  const int64_t blocks = (count + kBlock - 1) / kBlock;
  if (blocks <= 1 || at::get_num_threads() == 1) {
    for (int64_t block = 0; block < blocks; ++block) run(block);
    return;
  }
  // at::parallel_for is an inline function, which has one thread in a program that is not compiled
  // with LibTorch's OpenMP. An iterator's loop is compiled in LibTorch: here it visits the bytes
  // of an array, whose contents do not matter, and their places are the numbers of the blocks.
  at::Tensor places = at::empty({blocks}, at::kByte);
  const auto* first = static_cast<const char*>(places.const_data_ptr());
  at::TensorIterator::nullary_op(places).for_each(
      [&](char** data, const int64_t* strides, int64_t columns, int64_t rows) {
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t column = 0; column < columns; ++column) {
            run(data[0] + row * strides[1] + column * strides[0] - first);
          }
        }
      },
      /*grain_size=*/1);
}

}  // namespace adaptdl
