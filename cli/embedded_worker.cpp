// Linked into a build with Torch only: the embedded worker (pack.cpp), unpacked when asked for.

#include <span>

#include "core/formats/compression.h"
#include "core/launch/run/worker_image.h"

extern "C" const char adaptdl_worker_begin[], adaptdl_worker_end[];

namespace adaptdl::launch {

std::string_view worker_image() {
  constexpr size_t kMaxWorker = 256u << 20;
  static const std::string unpacked =
      zstd_decompress(std::as_bytes(std::span(adaptdl_worker_begin, adaptdl_worker_end)),
                      kMaxWorker, "the embedded worker");
  return unpacked;
}

}  // namespace adaptdl::launch
