#include "core/formats/zip_writer.h"

#include "core/formats/zip.h"
#include "tests/unit/base/expect_error.h"

namespace zip_writer_test {

using namespace adaptdl;

TEST_CASE("what is written is read back, aligned") {
  const std::string large(100'000, 'y');
  std::string archive;
  ZipWriter writer([&](std::string_view bytes) { archive += bytes; });
  writer.add("a/data.pkl", "hello");
  writer.add("a/data/0", large);
  writer.add("a/empty", "");
  writer.finish();
  const ZipReader zip(std::as_bytes(std::span(archive)), "a.zip");
  REQUIRE(zip.members().size() == 3);
  for (const ZipMember& member : zip.members()) {
    CHECK(member.stored());
    CHECK(member.offset % 64 == 0);
  }
  CHECK(zip.read(*zip.find("a/data.pkl"), 10) == "hello");
  CHECK(zip.read(*zip.find("a/data/0"), 1 << 20) == large);
  CHECK(zip.read(*zip.find("a/empty"), 10).empty());
}

TEST_CASE("an archive without members") {
  std::string archive;
  ZipWriter writer([&](std::string_view bytes) { archive += bytes; });
  writer.finish();
  CHECK(ZipReader(std::as_bytes(std::span(archive)), "a.zip").members().empty());
}

TEST_CASE("what the sink throws goes to the caller") {
  ZipWriter writer([](std::string_view) { fail("no space left"); });
  CHECK_ERROR(writer.add("a", "b"), "no space left");
}

}  // namespace zip_writer_test
