// manifest.json of a checkpoint, as it is and with a checksum that fits.

#include <nlohmann/json.hpp>

#include "core/formats/crc32c.h"
#include "core/formats/json.h"
#include "core/job/checkpoint_summary.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;

namespace {

void read(const std::string& text) {
  try {
    const CheckpointManifest manifest = parse_checkpoint_manifest(text, "manifest.json");
    for (const CheckpointTensor& tensor : manifest.tensors) {
      uint64_t file_bytes = 0;
      for (const CheckpointFile& file : manifest.files) {
        if (file.name == tensor.file) file_bytes = file.bytes;
      }
      ADAPTDL_CHECK(tensor.offset <= file_bytes && tensor.bytes <= file_bytes - tensor.offset);
    }
    for (const CheckpointFile& file : manifest.files) {
      ADAPTDL_CHECK(file.name.find('/') == std::string::npos && file.name[0] != '.');
    }
    checkpoint_manifest_text(manifest);
    progress_of(manifest, "manifest.json");
  } catch (const Error&) {
  }
}

// What the format is made of.
std::vector<std::string> words() {
  return {"-1",
          "18446744073709551615",
          "9223372036854775807",
          "1e400",
          "1.5",
          "null",
          "true",
          "[]",
          "{}",
          "\"../x\"",
          "\"manifest.json\"",
          "\"complex128\"",
          "\"bool\"",
          "[1,2,3]",
          "64",
          "[4294967296,4294967296]",
          "\\u0000",
          "\\ud800",
          "\xff",
          ","};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read(text);
  try {
    Json json = parse_json(text, "manifest.json");
    if (!json.is_object()) return 0;
    json.erase("checksum");
    json["checksum"] = fmt::format("{:08x}", crc32c(json.dump()));
    read(json.dump());
  } catch (const Error&) {
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  CheckpointManifest manifest;
  manifest.header.job = "digits";
  manifest.header.step = 42;
  manifest.header.created = "2026-01-31T08:05:09.123Z";
  manifest.header.settings = {{"optimizer", {{"lr", 0.05}}}};
  manifest.header.state = {{"progress",
                            {{"iterations", 1.5e-7},
                             {"atomic", 8},
                             {"micro_steps", 2},
                             {"batch_replicas", 3},
                             {"validation", {{"loss", 0.5}}}}},
                           {"precision", "fp16"},
                           {"list", {1, 2, nullptr, true}}};
  manifest.files = {{"data.bin", 1000}, {"more.bin", 0}};
  manifest.tensors = {{"a.weight", "float32", {4, 5}, "data.bin", 0, 80, 0x1234abcd},
                      {"a.bias", "bfloat16", {5}, "data.bin", 128, 10, 7},
                      {"empty", "int64", {0, 3}, "more.bin", 0, 0, 0}};
  return {{checkpoint_manifest_text(manifest)}, words()};
}
