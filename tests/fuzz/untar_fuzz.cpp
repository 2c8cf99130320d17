// Archives of strangers are unpacked into a folder, and touch nothing beside it.

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/oci/untar.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;
using namespace adaptdl::oci;

namespace {

constexpr const char* kVictim = "untouched";

std::string sample() {
  TemporaryDirectory folder("adaptdl-fuzz");
  const std::string file = folder.file("f");
  replace_file(file, "content");
  std::string tar;
  TarWriter writer([&](std::string_view bytes) { tar += bytes; });
  writer.add({"top", TarEntry::Kind::folder, "", 0755}, 1);
  writer.add({"top/file", TarEntry::Kind::file, file, 0644}, 2);
  writer.add({"top/link", TarEntry::Kind::link, "file"}, 3);
  writer.add({"top/out", TarEntry::Kind::link, "../../victim"}, 3);
  writer.add({"top/out/x", TarEntry::Kind::bytes, "x"}, 4);
  writer.close();
  return tar;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const TemporaryDirectory folder("adaptdl-fuzz");
  const std::string here = folder.file("here");
  make_directories(here);
  replace_file(folder.file("victim"), kVictim);
  bool given = false;
  const TarSource source = [&]() -> std::string_view {
    return std::exchange(given, true) ? std::string_view() : fuzz_text(data, size);
  };
  UntarOptions options;
  options.placed = [](const TarEntry& entry) {
    ADAPTDL_CHECK(!entry.path.empty() && entry.path[0] != '/');
  };
  for (const bool named : {false, true}) {
    if (named) options.names = {{"top", "renamed"}};
    given = false;
    try {
      untar(source, here, options);
    } catch (const Error&) {
    }
    ADAPTDL_CHECK(list_directory(folder.path()).size() == 2);
    ADAPTDL_CHECK(read_file(folder.file("victim"), 100) == kVictim);
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  const std::string tar = sample();
  return {{tar, tar.substr(0, 2048)},
          {"../victim", "/etc", "ustar", std::string(1, '1'), std::string(1, '2'),
           std::string(1, '5'), "x", "g", "L", "K", "S", std::string(8, '\0'),
           "27 path=../victim\n", "0000644", "GNU.sparse.major=1\n"}};
}
