#include <algorithm>

#include "core/base/error.h"
#include "runtime/data/formats/tar.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/data/make_tar.h"

using namespace adaptdl;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto read = [&](uint64_t offset, std::span<std::byte> out) {
    ADAPTDL_CHECK(offset <= size && out.size() <= size - offset);
    std::copy_n(std::as_bytes(std::span(data, size)).begin() + static_cast<ptrdiff_t>(offset),
                out.size(), out.begin());
  };
  try {
    data::TarReader reader(read, size, "fuzz");
    while (const auto member = reader.next()) {
      ADAPTDL_CHECK(member->content <= size && member->size <= size - member->content);
      // Read again from its own header, it is the same.
      const auto again = data::TarReader(read, size, "fuzz", member->header).next();
      ADAPTDL_CHECK(again && again->name == member->name && again->content == member->content);
    }
  } catch (const Error&) {
    // refused: what a wrong file deserves
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  using fixtures::tar_end;
  using fixtures::tar_entry;
  return {
      {tar_entry("a.cls", "1") + tar_entry("b/", "", '5') + tar_entry("b/c.jpg", "23") + tar_end(),
       tar_entry("././@LongLink", std::string(150, 'n') + '\0', 'L') + tar_entry("n", "1") +
           tar_end(),
       tar_entry("p", "12 path=a.x\n9 size=1\n", 'x') + tar_entry("b", "1") + tar_end()},
      {"ustar", "ustar  ", "GNU.sparse.size", "path=", "size=", "x", "L", "S", "\x80"}};
}
