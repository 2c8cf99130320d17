// Build tool: compresses a file with zstd, and writes the assembler source that takes it into a
// binary between adaptdl_worker_begin and adaptdl_worker_end. pack INPUT COMPRESSED SOURCE

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <zstd.h>

namespace {

bool write(const char* path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  return bool(out.flush());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  std::ifstream in(argv[1], std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size = ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), 12);
  if (bytes.empty() || ZSTD_isError(size)) {
    std::fprintf(stderr, "pack: cannot compress %s\n", argv[1]);
    return 1;
  }
  packed.resize(size);
  const std::string source =
      "    .section .rodata\n"
      "    .global adaptdl_worker_begin\n"
      "    .global adaptdl_worker_end\n"
      "adaptdl_worker_begin:\n"
      "    .incbin \"" +
      std::filesystem::absolute(argv[2]).string() +
      "\"\n"
      "adaptdl_worker_end:\n"
      "    .section .note.GNU-stack,\"\",%progbits\n";
  return write(argv[2], packed) && write(argv[3], source) ? 0 : 1;
}
