#include "core/launch/run/mirror_index.h"

#include <doctest/doctest.h>
#include <string>
#include <vector>

#include "core/base/error.h"

using namespace adaptdl;
using namespace adaptdl::launch;

namespace {

MirroredCheckpoint mirrored(int64_t step, char digit = 'a', int64_t fresh_at = 0) {
  const std::string digest(64, digit);
  return {step,
          mirror_folder(step, digest),
          {{"manifest.json", 10, digest}, {"data.bin", 20, std::string(64, '0')}},
          fresh_at};
}

std::vector<int64_t> mirrored_steps(const MirrorIndex& index) {
  std::vector<int64_t> steps;
  for (const MirroredCheckpoint& checkpoint : index.checkpoints) steps.push_back(checkpoint.step);
  return steps;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

}  // namespace

TEST_CASE("mirror index: a checkpoint is valid only when all of it is there") {
  MirrorIndex index{.run = "digits", .checkpoints = {}, .leftovers = {}};
  for (const int64_t step : {1, 2, 3, 4}) {
    const MirroredCheckpoint next = mirrored(step);
    const MirrorIndex cut = before_upload(index, next);
    CHECK(cut.checkpoints == index.checkpoints);
    CHECK(cut.leftovers ==
          std::vector<std::string>{next.folder + "/data.bin", next.folder + "/manifest.json"});
    index = after_upload(cut, next, 3);
    CHECK(index.checkpoints.front() == next);
    if (step < 4) CHECK(index.leftovers.empty());
  }
  CHECK(mirrored_steps(index) == std::vector<int64_t>{4, 3, 2});
  CHECK(index.leftovers.size() == 2);
  CHECK(index.leftovers.front() == mirrored(1).folder + "/data.bin");
}

TEST_CASE("mirror index: a new history replaces later steps, and the same one") {
  MirrorIndex index{
      .run = "digits", .checkpoints = {mirrored(30), mirrored(20), mirrored(10)}, .leftovers = {}};
  const MirrorIndex after = after_upload(index, mirrored(20, 'b'), 3);
  CHECK(mirrored_steps(after) == std::vector<int64_t>{20, 10});
  CHECK(after.checkpoints.front().folder == mirrored(20, 'b').folder);
  CHECK(after.leftovers.size() == 4);  // of 30, and of the other 20
}

TEST_CASE("mirror index: a training that began later is newer, whatever its steps") {
  const MirrorIndex index{
      .run = "digits", .checkpoints = {mirrored(30), mirrored(20)}, .leftovers = {}};
  const MirrorIndex after = after_upload(index, mirrored(5, 'b', 1000), 2);
  CHECK(mirrored_steps(after) == std::vector<int64_t>{5, 30});
  CHECK(parse_mirror_index(mirror_index_text(after), "-") == after);
  CHECK(mirrored_steps(after_upload(after, mirrored(6, 'b', 1000), 3)) ==
        std::vector<int64_t>{6, 5, 30});
  const std::string unsorted =
      replaced(mirror_index_text(after), "\"fresh_at\": 1000", "\"fresh_at\": 0");
  CHECK_THROWS_AS(parse_mirror_index(unsorted, "-"), Error);
}

TEST_CASE("mirror index: one of an earlier version knows no time of a fresh start") {
  const MirrorIndex index{.run = "digits", .checkpoints = {mirrored(7)}, .leftovers = {}};
  const std::string text = mirror_index_text(index);
  const MirrorIndex earlier = parse_mirror_index(replaced(text, "\"fresh_at\": 0,", ""), "-");
  CHECK(earlier.checkpoints.front().fresh_at == -1);
  CHECK(parse_mirror_index(mirror_index_text(earlier), "-") == earlier);
  // Its steps alone count.
  CHECK(mirrored(6, 'b', 1000).older_than(earlier.checkpoints.front()));
  CHECK(earlier.checkpoints.front().older_than(mirrored(8, 'b', 0)));
  CHECK(mirrored_steps(after_upload(earlier, mirrored(8, 'b', 1000), 2)) ==
        std::vector<int64_t>{8, 7});
  CHECK_THROWS_AS(parse_mirror_index(replaced(text, "\"fresh_at\": 0", "\"fresh_at\": -2"), "-"),
                  Error);
}

TEST_CASE("mirror index: what is sent again is no leftover") {
  const MirrorIndex cut =
      before_upload({.run = "digits", .checkpoints = {}, .leftovers = {}}, mirrored(5));
  CHECK(after_upload(before_upload(cut, mirrored(5)), mirrored(5), 1).leftovers.empty());
}

TEST_CASE("mirror index: the text is read as it was written") {
  const MirrorIndex index{.run = "digits",
                          .checkpoints = {mirrored(7), mirrored(0)},
                          .leftovers = {"step-000000000001-aaaaaaaa/data.bin"}};
  CHECK(parse_mirror_index(mirror_index_text(index), "-") == index);
}

TEST_CASE("mirror index: names that could lead elsewhere are refused") {
  const std::string good =
      mirror_index_text({.run = "digits", .checkpoints = {mirrored(7)}, .leftovers = {"a/b"}});
  const auto refused = [&](const std::string& what, const std::string& by) {
    CAPTURE(by);
    CHECK_THROWS_AS(parse_mirror_index(replaced(good, what, by), "-"), Error);
  };
  refused("\"data.bin\"", "\"../data.bin\"");
  refused("\"data.bin\"", "\".data\"");
  refused("\"data.bin\"", "\"manifest.json\"");
  refused("\"manifest.json\"", "\"other.json\"");
  refused(mirrored(7).folder, "step-000000000008-aaaaaaaa");
  refused(std::string(64, '0'), std::string(64, 'A'));
  refused("\"a/b\"", "\"a/../b\"");
  refused("\"a/b\"", "\"a\"");
  refused("\"format\": 1", "\"format\": 2");
  refused("\"step\": 7", "\"step\": -7");
  CHECK_THROWS_AS(parse_mirror_index("[]", "-"), Error);
  CHECK_THROWS_AS(parse_mirror_index("", "-"), Error);
}
