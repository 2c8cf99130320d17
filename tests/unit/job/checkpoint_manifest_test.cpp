#include "core/job/checkpoint_manifest.h"

#include <doctest/doctest.h>
#include <functional>

#include "core/base/files.h"
#include "core/formats/crc32c.h"

using namespace adaptdl;

namespace {

CheckpointManifest small() {
  CheckpointManifest manifest;
  manifest.header.job = "digits";
  manifest.header.step = 42;
  manifest.header.generation = 3;
  manifest.header.created = "2026-01-31T08:05:09.123Z";
  manifest.header.settings = {{"optimizer", {{"lr", 0.05}}}};
  manifest.header.state = {{"progress", 1.5e-7}, {"big", UINT64_MAX}, {"negative", -0.0}};
  manifest.files = {{"data.bin", 1000}};
  manifest.tensors = {{"a.weight", "float32", {4, 5}, "data.bin", 0, 80, 0x1234abcd},
                      {"a.bias", "bfloat16", {5}, "data.bin", 128, 10, 7}};
  return manifest;
}

// The manifest with one thing changed, and a checksum that fits again.
std::string changed(const std::function<void(nlohmann::json&)>& change) {
  auto json = nlohmann::json::parse(checkpoint_manifest_text(small()));
  json.erase("checksum");
  change(json);
  json["checksum"] = fmt::format("{:08x}", crc32c(json.dump()));
  return json.dump();
}

std::string manifest_refusal(const std::string& text) {
  try {
    parse_checkpoint_manifest(text, "manifest.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void check_refused(const std::string& part, const std::function<void(nlohmann::json&)>& change) {
  const std::string message = manifest_refusal(changed(change));
  CHECK_MESSAGE(message.find(part) != std::string::npos, "'" << message << "' lacks " << part);
}

}  // namespace

TEST_CASE("a manifest reads back as it was written") {
  const CheckpointManifest manifest = small();
  const CheckpointManifest read =
      parse_checkpoint_manifest(checkpoint_manifest_text(manifest), "manifest.json");
  CHECK(read.header.job == "digits");
  CHECK(read.header.step == 42);
  CHECK(read.header.generation == 3);
  CHECK(read.header.created == manifest.header.created);
  CHECK_FALSE(read.header.finished);
  CHECK(read.header.settings == manifest.header.settings);
  CHECK(read.header.state == manifest.header.state);
  REQUIRE(read.tensors.size() == 2);
  CHECK(read.tensors[0].shape == std::vector<int64_t>{4, 5});
  CHECK(read.tensors[0].crc32c == 0x1234abcd);
  CHECK(read.tensors[1].dtype == "bfloat16");
  CHECK(read.tensors[1].offset == 128);
}

TEST_CASE("every change of any byte is noticed or changes nothing") {
  const std::string text = checkpoint_manifest_text(small());
  const auto meaning = nlohmann::json::parse(text);
  for (size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      if (!manifest_refusal(flipped).empty()) continue;
      CHECK(nlohmann::json::parse(flipped) == meaning);
    }
  }
}

TEST_CASE("every truncation is refused") {
  const std::string text = checkpoint_manifest_text(small());
  for (size_t size = 0; size + 1 < text.size(); ++size) {
    CHECK_FALSE(manifest_refusal(text.substr(0, size)).empty());
  }
}

TEST_CASE("a newer format is refused with a sentence, as itself") {
  const std::string text = changed([](auto& json) { json["format"] = 2; });
  CHECK_THROWS_AS(parse_checkpoint_manifest(text, "manifest.json"), NewerCheckpointFormat);
  CHECK(manifest_refusal(text).find("newer adaptdl") != std::string::npos);
}

TEST_CASE("what a hostile manifest may try") {
  check_refused("step", [](auto& json) { json["step"] = -1; });
  check_refused("step", [](auto& json) { json["step"] = 1'000'000'000'000; });
  check_refused("step", [](auto& json) { json["step"] = 1.5; });
  check_refused("plain file name", [](auto& json) { json["files"][0]["name"] = "../data.bin"; });
  check_refused("plain file name", [](auto& json) { json["files"][0]["name"] = "/etc/passwd"; });
  check_refused("plain file name", [](auto& json) { json["files"][0]["name"] = ".."; });
  check_refused("plain file name", [](auto& json) { json["files"][0]["name"] = ""; });
  check_refused("plain file name", [](auto& json) { json["files"][0]["name"] = "manifest.json"; });
  check_refused("is too large", [](auto& json) { json["files"][0]["bytes"] = UINT64_MAX; });
  check_refused("twice", [](auto& json) { json["files"].push_back(json["files"][0]); });
  check_refused("twice", [](auto& json) { json["tensors"][1]["name"] = "a.weight"; });
  check_refused("not listed", [](auto& json) { json["tensors"][0]["file"] = "other.bin"; });
  check_refused("offset", [](auto& json) { json["tensors"][0]["offset"] = 960; });
  check_refused("offset", [](auto& json) { json["tensors"][0]["offset"] = 1; });
  check_refused("offset", [](auto& json) { json["tensors"][0]["offset"] = UINT64_MAX - 63; });
  check_refused("offset", [](auto& json) { json["tensors"][0]["offset"] = -64; });
  check_refused("bytes", [](auto& json) { json["tensors"][0]["bytes"] = 81; });
  check_refused("dtype", [](auto& json) { json["tensors"][0]["dtype"] = "float31"; });
  check_refused("shape", [](auto& json) { json["tensors"][0]["shape"] = {-4, -5}; });
  check_refused("shape", [](auto& json) {
    json["tensors"][0]["shape"] = {int64_t{1} << 32, int64_t{1} << 32, 20};
  });
  check_refused("shape",
                [](auto& json) { json["tensors"][0]["shape"] = std::vector<int64_t>(65, 1); });
  check_refused("crc32c", [](auto& json) { json["tensors"][0]["crc32c"] = "12345678 "; });
  check_refused("name", [](auto& json) { json["tensors"][0]["name"] = "a\nb"; });
  check_refused("name", [](auto& json) { json["tensors"][0]["name"] = std::string(2000, 'a'); });
  check_refused("tensors", [](auto& json) { json["tensors"] = "none"; });
  check_refused("finished", [](auto& json) { json["finished"] = "no"; });
  check_refused("settings", [](auto& json) { json.erase("settings"); });
  CHECK_FALSE(manifest_refusal(std::string(100'000, '[')).empty());
  CHECK_FALSE(manifest_refusal("").empty());
  CHECK_FALSE(manifest_refusal("[]").empty());
  CHECK_FALSE(manifest_refusal("{\"checksum\": \"00000000\"}").empty());
}

TEST_CASE("what could not be read is not written") {
  CheckpointManifest manifest = small();
  manifest.header.job = "\xff";
  CHECK_THROWS_AS(checkpoint_manifest_text(manifest), Error);
  manifest = small();
  manifest.tensors[0].name.clear();
  CHECK_THROWS_AS(checkpoint_manifest_text(manifest), Error);
}

TEST_CASE("adaptdl-checkpoint(5) names every key of a manifest") {
  const std::string page = read_file(ADAPTDL_SOURCE_DIR "/man/adaptdl-checkpoint.5", 1 << 20);
  const auto json = nlohmann::json::parse(checkpoint_manifest_text(small()));
  const auto named = [&](const std::string& key) {
    return page.find(".B " + key + "\n") != std::string::npos ||
           page.find(".BR " + key + " ") != std::string::npos;
  };
  for (const auto* object : {&json, &json.at("files")[0], &json.at("tensors")[0]}) {
    for (const auto& item : object->items()) CHECK_MESSAGE(named(item.key()), item.key());
  }
  CHECK(page.find(fmt::format("format, {}.", kCheckpointFormat)) != std::string::npos);
}
