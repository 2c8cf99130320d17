// A train.pt as read without LibTorch: the pickle alone, the pickle inside an archive, the archive.

#include "core/base/error.h"
#include "core/job/pickle.h"
#include "core/job/training_archive.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/formats/make_zip.h"

using namespace adaptdl;
using namespace std::string_literals;

namespace {

const char* const kCode =
    "class M(Module):\n  __parameters__ = [\"w\", ]\n  __buffers__ = [\"b\", ]\n  w : Tensor\n"
    "  def training_step(self: __torch__.M,\n";

void inspect(std::string_view archive) {
  try {
    const ArchiveSummary summary =
        inspect_archive(std::as_bytes(std::span(archive.data(), archive.size())), "train.pt");
    ADAPTDL_CHECK(summary.parameter_bytes <= 1024 || summary.file_bytes > 1024 ||
                  summary.tensors.size() > 1);
  } catch (const Error&) {
  }
}

std::string archive_of(const std::string& pickle) {
  return make_zip({{"m/data/0", std::string(64, 'x')},
                   {"m/data/1", std::string(8, 'x')},
                   {"m/data.pkl", pickle},
                   {"m/code/__torch__.py", kCode}});
}

std::string tensor(const std::string& key, const std::string& type, const std::string& rest) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\n"s + type +
         "\nX\x01\0\0\0"s + key + "X\x03\0\0\0cpuK\x10tQ"s + rest + "\x89" +
         "ccollections\nOrderedDict\n)RtR";
}

// What the format is made of.
std::vector<std::string> words() {
  return {"(",
          ")",
          "t",
          "}",
          "]",
          "u",
          "s",
          "e",
          "a",
          "b",
          "R",
          "\x81",
          "h\0"s,
          "h\1",
          "q\0"s,
          "Q",
          "N",
          ".",
          "\x85",
          "\x86",
          "\x87",
          "\x88",
          "j\1\0\0\0"s,
          "r\2\0\0\0"s,
          "K\xff",
          "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f",
          "J\xff\xff\xff\xff",
          "c__torch__\nM\n",
          "torch\nBFloat16Storage\n",
          "PK\1\2",
          "PK\3\4",
          "PK\5\6",
          "PK\6\6",
          "PK\6\7",
          "m/data/0",
          "m/data.pkl"};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    PickleTree(text, "data.pkl", 10'000);
  } catch (const Error&) {
  }
  inspect(archive_of(std::string(text)));
  inspect(text);
  return 0;
}

FuzzSeeds fuzz_seeds() {
  const std::string object = "c__torch__\nM\nq\0)\x81q\x01}(X\x01\0\0\0w"s;
  const std::string pickle =
      "\x80\x02"s + object + tensor("0", "FloatStorage", "K\0(K\x04K\x04t(K\x04K\x01t"s) +
      "X\x01\0\0\0b"s + tensor("1", "LongStorage", "K\0(t(t"s) + "X\x01\0\0\0m"s + object +
      tensor("0", "HalfStorage", "K\x01(K\x02t(K\x01t"s) + "ub"s +
      "X\x01\0\0\0l](K\x01M\1\2J\1\2\3\4\x8a\x02\1\2e"s + "X\x01\0\0\0fG\x3f\xe0\0\0\0\0\0\0ub."s;
  return {{pickle, archive_of(pickle)}, words()};
}
