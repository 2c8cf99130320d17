#include "core/formats/zip.h"

#include "core/base/crypto.h"
#include "core/base/files.h"
#include "core/formats/compression.h"
#include "tests/unit/base/expect_error.h"
#include "tests/unit/formats/make_zip.h"

namespace adaptdl {

namespace {

ZipReader open(const std::string& archive, size_t max_members = 1000) {
  return ZipReader(std::as_bytes(std::span(archive)), "a.zip", max_members);
}

}  // namespace

TEST_CASE("members are listed, found and read") {
  const std::string large(100'000, 'x');
  for (const bool zip64 : {false, true}) {
    const std::string bytes = make_zip({{"dir/", "", false},
                                        {"dir/a.txt", "hello", false},
                                        {"b", large, true},
                                        {"empty", "", false},
                                        {"deflated-empty", "", true}},
                                       zip64);
    const ZipReader zip = open(bytes);
    REQUIRE(zip.members().size() == 4);
    const ZipMember* a = zip.find("dir/a.txt");
    REQUIRE(a);
    CHECK(a->stored());
    CHECK(bytes.substr(a->offset, a->size) == "hello");
    CHECK(zip.stored_bytes(*a).size() == 5);
    CHECK(zip.read(*a, 5) == "hello");
    CHECK_ERROR(zip.read(*a, 4), "a.zip: dir/a.txt: its 5 bytes are more than the 4 allowed");
    const ZipMember* b = zip.find("b");
    REQUIRE(b);
    CHECK_FALSE(b->stored());
    CHECK(b->compressed_size < 1000);
    CHECK(zip.read(*b, large.size()) == large);
    CHECK(zip.read(*zip.find("empty"), 0).empty());
    CHECK(zip.read(*zip.find("deflated-empty"), 0).empty());
    CHECK(zip.find("none") == nullptr);
    CHECK(zip.find("dir/") == nullptr);
  }
}

TEST_CASE("compressed data of every size around the buffer's end") {
  const std::vector<uint8_t> random = random_bytes(3000);
  for (size_t size = 0; size < random.size(); size += 97) {
    const std::string text(random.begin(), random.begin() + static_cast<long>(size));
    const std::string bytes = make_zip({{"r", text, true}});
    const ZipReader zip = open(bytes);
    CHECK(zip.read(zip.members()[0], size) == text);
  }
}

TEST_CASE("names that leave the archive, or come twice, are refused") {
  for (const char* name : {"/etc/passwd", "../x", "a/../../x", "a/..", "..", "", "a\\b", "a\nb"}) {
    CAPTURE(name);
    const std::string bytes = make_zip({{name, "x", false}});
    CHECK_ERROR(open(bytes), "forbidden name");
  }
  const std::string fine = make_zip({{"a..b/..c/...", "x", false}});
  CHECK(open(fine).members().size() == 1);
  const std::string twice = make_zip({{"a", "1", false}, {"a", "2", false}});
  CHECK_ERROR(open(twice), "it contains a twice");
  CHECK_ERROR(open(make_zip({{"a", "", false}, {"b", "", false}}), 1), "more than the 1 allowed");
}

TEST_CASE("a truncated or damaged archive is refused, wherever it is cut") {
  const std::string bytes = make_zip({{"a", "hello", false}, {"b", std::string(500, 'b'), true}});
  for (size_t size = 0; size < bytes.size(); ++size) {
    CHECK_ERROR(open(bytes.substr(0, size)), "a.zip: not a ZIP archive, or a damaged one");
  }
  std::string flipped = bytes;
  flipped[bytes.find("hello")] = 'j';
  const ZipReader zip = open(flipped);
  CHECK_ERROR(zip.read(*zip.find("a"), 100), "its checksum is wrong");
  CHECK_ERROR(open(bytes + "trailing"), "no end record");
}

TEST_CASE("sizes that lie are refused before memory is taken") {
  std::string bytes = make_zip({{"b", std::string(500, 'b'), true}});
  const size_t entry = bytes.find("PK\x01\x02");
  for (int i = 0; i < 4; ++i) bytes[entry + 24 + size_t(i)] = i == 3 ? '\x70' : '\xff';  // 1.9 GB
  {
    const ZipReader zip = open(bytes);
    CHECK_ERROR(zip.read(zip.members()[0], UINT64_MAX), "its size is impossible");
  }
  // Half a size too small or too large: the data decide.
  for (const char low : {'\xf3', '\xf5'}) {
    bytes = make_zip({{"b", std::string(500, 'b'), true}});  // 500 = 0x1f4
    bytes[entry + 24] = low;
    const ZipReader zip = open(bytes);
    CHECK_ERROR(zip.read(zip.members()[0], 1000), "compressed data are damaged");
  }
}

TEST_CASE("encryption and other methods are named") {
  std::string bytes = make_zip({{"b", "x", false}});
  const size_t entry = bytes.find("PK\x01\x02");
  bytes[entry + 8] = 1;
  {
    const ZipReader zip = open(bytes);
    CHECK_ERROR(zip.read(zip.members()[0], 10), "is encrypted");
  }
  bytes[entry + 8] = 0;
  bytes[entry + 10] = 93;
  const ZipReader zip = open(bytes);
  CHECK_ERROR(zip.read(zip.members()[0], 10), "is compressed by method 93");
}

TEST_CASE("members that overlap are refused") {
  std::string bytes = make_zip({{"a", "x", false}, {"a", "x", false}});
  // Point the second entry at the first header.
  const size_t second = bytes.rfind("PK\x01\x02");
  for (size_t i = 42; i < 46; ++i) bytes[second + i] = '\0';
  bytes[second + 46] = 'a';
  CHECK_ERROR(open(bytes), "a.zip");
}

TEST_CASE("zstd goes there and back, within bounds") {
  const std::string text(1 << 20, 'z');
  const std::string small = zstd_compress(text);
  CHECK(small.size() < 1000);
  const auto bytes = std::as_bytes(std::span(small));
  CHECK(zstd_decompress(bytes, text.size(), "w") == text);
  CHECK_ERROR(zstd_decompress(bytes, text.size() - 1, "worker"), "worker: holds more than 1048575");
  CHECK_ERROR(zstd_decompress(bytes.first(bytes.size() - 1), text.size(), "w"), "truncated");
  CHECK_ERROR(zstd_decompress(bytes.first(0), 10, "w"), "w: ");
  const std::string damaged = "not zstd at all";
  CHECK_ERROR(zstd_decompress(std::as_bytes(std::span(damaged)), 10, "w"), "damaged zstd data");
  const std::string nothing = zstd_compress("");
  CHECK(zstd_decompress(std::as_bytes(std::span(nothing)), 0, "w").empty());
  const std::vector<uint8_t> random = random_bytes(300'000);
  const std::string noise(random.begin(), random.end());
  const std::string frame = zstd_compress(noise, 19);
  CHECK(zstd_decompress(std::as_bytes(std::span(frame)), noise.size(), "w") == noise);
}

}  // namespace adaptdl
