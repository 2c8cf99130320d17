#include "core/launch/hosts/program_print.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl::launch {

// The file may be rewritten meanwhile, so that it must not be mapped.
ProgramPrint program_print(const std::string& path) {
  const Fd file = open_file(path, O_RDONLY);
  struct stat state {};
  if (::fstat(file.get(), &state) != 0) fail_errno(errno, path);
  const off_t size = state.st_size;
  std::string bytes(1u << 16, '\0');
  const auto read_at = [&](off_t at) {
    const ssize_t n = ::pread(file.get(), bytes.data(), bytes.size(), at);
    if (n < 0) fail_errno(errno, path);
    return std::string_view(bytes).substr(0, static_cast<size_t>(n));
  };
  const bool whole = !path.ends_with(".pt") && !read_at(0).starts_with("PK\x03\x04");
  Sha256 digest;
  for (off_t at = whole ? 0 : std::max<off_t>(size - off_t{kPrintedTail}, 0); at < size;) {
    const std::string_view read = read_at(at);
    if (read.empty()) fail("{}: became shorter while it was read", path);
    digest.add(read);
    at += static_cast<off_t>(read.size());
  }
  return {static_cast<uint64_t>(size), whole, to_hex(digest.finish())};
}

}  // namespace adaptdl::launch
