#include "core/oci/digest.h"

#include <array>
#include <cerrno>
#include <fcntl.h>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl::oci {

std::string Digester::finish() {
  return "sha256:" + to_hex(state_.finish());
}

std::string digest_of(std::string_view bytes) {
  return "sha256:" + to_hex(sha256(bytes_of(bytes)));
}

std::string digest_of_file(const std::string& path) {
  const Fd file = open_file(path, O_RDONLY);
  Digester digester;
  std::array<char, 1 << 16> piece;
  for (;;) {
    const ssize_t size = ::read(file.get(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) fail_errno(errno, path + ": cannot read");
    if (size == 0) return digester.finish();
    digester.add({piece.data(), static_cast<size_t>(size)});
  }
}

}  // namespace adaptdl::oci
