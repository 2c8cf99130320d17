#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace adaptdl {

// Decompresses zstd frames (RFC 8878) to at most `max_bytes` in total. Throws an Error naming
// `what` if they are damaged, truncated or larger. Thread-safe.
std::string zstd_decompress(std::span<const std::byte> compressed, size_t max_bytes,
                            std::string_view what);

// One frame with a checksum. Level 1 (fast) to 19 (small).
std::string zstd_compress(std::string_view bytes, int level = 3);

}  // namespace adaptdl
