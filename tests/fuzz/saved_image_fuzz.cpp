// Images that tools have saved: whatever the archive holds, it is an image or an Error.

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/oci/saved_image.h"
#include "core/oci/tar.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;
using namespace adaptdl::oci;

namespace {

std::string sample() {
  std::string tar;
  TarWriter writer([&](std::string_view bytes) { tar += bytes; });
  const auto add = [&](const char* path, const char* text) {
    writer.add({path, TarEntry::Kind::bytes, text}, 1);
  };
  add("manifest.json", R"([{"Config": "c.json", "RepoTags": ["a:b"], "Layers": ["l/layer.tar"]}])");
  add("c.json", R"({"architecture": "amd64", "os": "linux", "config": {},
                    "rootfs": {"type": "layers", "diff_ids": ["sha256:00"]}})");
  add("l/layer.tar", "layer");
  writer.close();
  return tar;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const TemporaryDirectory folder("adaptdl-fuzz");
  const std::string layers = folder.file("layers");
  make_directories(layers);
  replace_file(folder.file("saved"), std::string(fuzz_text(data, size)));
  try {
    const Image image = read_saved_image(folder.file("saved"), layers);
    for (const auto& [digest, file] : image.files) ADAPTDL_CHECK(file.starts_with(layers));
  } catch (const Error&) {
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {{sample()},
          {"manifest.json", "c.json", "\"Config\"", "\"Layers\"", "\"rootfs\"", "\"diff_ids\"",
           "null", "[]", "{}", "0", "l", "..", "/etc/passwd", "\"a\"", "ustar", "sha256:"}};
}
