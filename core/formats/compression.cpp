#include "core/formats/compression.h"

#include <algorithm>
#include <memory>
#include <zstd.h>

#include "core/base/error.h"

namespace adaptdl {

std::string zstd_decompress(std::span<const std::byte> compressed, size_t max_bytes,
                            std::string_view what) {
  const auto release = [](ZSTD_DCtx* context) { ZSTD_freeDCtx(context); };
  const std::unique_ptr<ZSTD_DCtx, decltype(release)> context(ZSTD_createDCtx(), release);
  ADAPTDL_CHECK(context != nullptr);
  // Streaming, because the declared size is not trusted: memory grows with the output. The declared
  // size only reduces the number of reallocations.
  const unsigned long long declared =
      ZSTD_getFrameContentSize(compressed.data(), compressed.size());
  const bool known = declared != ZSTD_CONTENTSIZE_UNKNOWN && declared != ZSTD_CONTENTSIZE_ERROR;
  const size_t guess = known && declared <= max_bytes ? static_cast<size_t>(declared) : 0;
  const size_t plausible = std::min(guess, compressed.size() * 64 + 65536);

  std::string bytes(plausible + 1, '\0');
  ZSTD_inBuffer in{compressed.data(), compressed.size(), 0};
  size_t used = 0;
  size_t wanted = 0;
  for (;;) {
    ZSTD_outBuffer out{bytes.data(), bytes.size(), used};
    const size_t before = in.pos;
    wanted = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(wanted) != 0) {
      fail("{}: damaged zstd data: {}", what, ZSTD_getErrorName(wanted));
    }
    const bool moved = out.pos != used || in.pos != before;
    used = out.pos;
    if (used > max_bytes) fail("{}: holds more than {} bytes", what, max_bytes);
    if (used == bytes.size()) {
      bytes.resize(std::min(max_bytes, bytes.size() * 2) + 1);
    } else if (in.pos == in.size || !moved) {
      break;
    }
  }
  if (wanted != 0) fail("{}: truncated zstd data", what);
  bytes.resize(used);
  return bytes;
}

std::string zstd_compress(std::string_view bytes, int level) {
  const auto release = [](ZSTD_CCtx* context) { ZSTD_freeCCtx(context); };
  const std::unique_ptr<ZSTD_CCtx, decltype(release)> context(ZSTD_createCCtx(), release);
  ADAPTDL_CHECK(context != nullptr);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  std::string result(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size =
      ZSTD_compress2(context.get(), result.data(), result.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(size) != 0) fail("cannot compress: {}", ZSTD_getErrorName(size));
  result.resize(size);
  return result;
}

}  // namespace adaptdl
