// checkpoints.json of a mirror: what is accepted leads nowhere else, and is written as it was read.

#include <string>

#include "core/base/error.h"
#include "core/launch/run/mirror_index.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;
using namespace adaptdl::launch;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const MirrorIndex index = parse_mirror_index(fuzz_text(data, size), "checkpoints.json");
    for (const MirroredCheckpoint& checkpoint : index.checkpoints) {
      for (const MirroredFile& file : checkpoint.files) {
        ADAPTDL_CHECK(file.name.find('/') == std::string::npos && file.name[0] != '.');
      }
    }
    ADAPTDL_CHECK(parse_mirror_index(mirror_index_text(index), "-") == index);
  } catch (const Error&) {
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  const std::string digest(64, 'a');
  const MirroredCheckpoint checkpoint{
      7, mirror_folder(7, digest), {{"manifest.json", 10, digest}, {"data.bin", 20, digest}}};
  return {{mirror_index_text({"digits", {checkpoint}, {"step-000000000001-aaaaaaaa/data.bin"}})},
          {"-1", "18446744073709551615", "\"../x\"", "[]", "{}", "null", "\\u0000", "/"}};
}
