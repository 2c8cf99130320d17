// Weights of other programs: a safetensors file, a dictionary of torch.save, and its pickle alone.

#include "core/base/error.h"
#include "core/formats/safetensors.h"
#include "core/job/weights_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/formats/make_zip.h"

using namespace adaptdl;
using namespace std::string_literals;

namespace {

void read(std::string_view bytes) {
  try {
    for (const StoredTensor& tensor : read_weights(std::as_bytes(std::span(bytes)), "weights")) {
      ADAPTDL_CHECK(tensor.shape.size() == tensor.strides.size());
      ADAPTDL_CHECK(tensor.size() <= bytes.size());
      ADAPTDL_CHECK(dense_bytes(tensor).size() == tensor.size());
    }
  } catch (const Error&) {
    // refused: what a wrong file deserves
  }
}

std::string archive_of(const std::string& pickle) {
  return make_zip({{"m/data/0", std::string(64, 'x')}, {"m/data.pkl", pickle}});
}

std::string tensor(const std::string& name, const std::string& type, const std::string& rest) {
  return "X\x01\0\0\0"s + name +
         "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\n"s + type +
         "\nX\x01\0\0\0"s + "0X\x03\0\0\0cpuK\x10tQ"s + rest +
         "\x89"
         "ccollections\nOrderedDict\n)RtR";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(fuzz_text(data, size));
  read(text);
  read(archive_of(text));
  // The header alone: its length is always right.
  read(little_endian(text.size(), 8) + text + std::string(16, 'y'));
  return 0;
}

FuzzSeeds fuzz_seeds() {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"I64","shape":[],"data_offsets":[8,16]}})";
  const std::string pickle =
      "\x80\x02"
      "ccollections\nOrderedDict\n)R("s +
      tensor("w", "FloatStorage", "K\0(K\x04K\x02t(K\x01K\x04t"s) +
      tensor("v", "HalfStorage", "K\x01(K\x02t(K\x01t"s) + "u.";
  const std::string whole =
      safetensors_header({{"w", "float32", {2, 2}, 0, 16}, {"v", "bool", {0}, 0, 0}}, "seed") +
      std::string(16, 'z');
  return {{header, whole, pickle, archive_of(pickle)},
          {"\"dtype\":",
           "\"shape\":",
           "\"data_offsets\":",
           "[0,8]",
           "[8,16]",
           "BF16",
           "U8",
           "C64",
           "BOOL",
           "-1",
           "4294967296",
           "18446744073709551615",
           "[0]",
           "[]",
           "{}",
           "K\xff",
           "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f",
           "(",
           "t",
           "u",
           "s",
           "b",
           "}",
           "torch\nBFloat16Storage\n",
           "PK\3\4"}};
}
