#include "core/base/error.h"
#include "core/formats/zip.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/formats/make_zip.h"

using namespace adaptdl;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const ZipReader zip(std::as_bytes(std::span(data, size)), "fuzz", 1000);
    for (const ZipMember& member : zip.members()) {
      ADAPTDL_CHECK(zip.find(member.name) == &member);
      ADAPTDL_CHECK(member.offset + member.compressed_size <= size);
      if (member.stored()) ADAPTDL_CHECK(zip.stored_bytes(member).size() == member.size);
      try {
        ADAPTDL_CHECK(zip.read(member, 1 << 20).size() == member.size);
      } catch (const Error&) {
        // this member is damaged; the others may still be read
      }
    }
  } catch (const Error&) {
    // refused: what a wrong archive deserves
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  std::vector<std::string> seeds;
  for (const bool zip64 : {false, true}) {
    seeds.push_back(make_zip({{"a/", "", false},
                              {"a/data.pkl", "hello", false},
                              {"b", std::string(3000, 'b') + "end", true},
                              {"empty", "", true}},
                             zip64));
    seeds.push_back(make_zip({{"x.npy", "\x93NUMPY", false}}, zip64));
    seeds.push_back(make_zip({}, zip64));
  }
  return {seeds,
          {"PK\x01\x02", "PK\x03\x04", "PK\x05\x06", "PK\x06\x06", "PK\x06\x07", "../", "/",
           std::string("\x01\x00\x10\x00", 4), "\xff\xff\xff\xff"}};
}
