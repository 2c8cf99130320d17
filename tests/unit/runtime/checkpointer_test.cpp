// Checkpoints of tensors: what is saved, and what may be restored from it.

#include "runtime/session/checkpointer.h"

#include <cmath>
#include <doctest/doctest.h>
#include <mutex>

#include "core/base/files.h"
#include "runtime/torch_compat.h"
#include "tests/unit/base/expect_error.h"

namespace {

using namespace adaptdl;
using nlohmann::json;

CheckpointHeader at_step(int64_t step) {
  CheckpointHeader header;
  header.job = "a";
  header.step = step;
  return header;
}

// One of each type, one without elements and one whose elements lie apart.
std::vector<NamedTensor> various(int64_t number) {
  std::vector<NamedTensor> tensors;
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kComplexFloat,
                          at::kComplexDouble, at::kLong, at::kInt, at::kShort, at::kChar, at::kByte,
                          at::kUInt16, at::kUInt32, at::kUInt64, at::kBool}) {
    tensors.push_back({at::toString(type), at::full({2, 3}, number, at::dtype(type))});
  }
  tensors.push_back({"scalar", at::full({}, number, at::kLong)});
  tensors.push_back({"empty", at::empty({0, 4})});
  tensors.push_back({"apart", (at::arange(6).view({2, 3}) + number).t()});
  return tensors;
}

struct Saved {
  TemporaryDirectory folder;
  std::mutex mutex;
  std::vector<json> events;
  std::string directory = folder.file("checkpoints");
  Checkpointer checkpointer{directory, 2, 600, [this](const json& event, Checkpointer::Kind) {
                              const std::lock_guard lock(mutex);
                              events.push_back(event);
                            }};

  json last() {
    const std::lock_guard lock(mutex);
    REQUIRE(!events.empty());
    return events.back();
  }
  LoadedCheckpoint newest() {
    auto loaded = checkpointer.store()->latest();
    REQUIRE(loaded);
    return std::move(*loaded);
  }
};

}  // namespace

TEST_CASE("tensors of every type come back bit by bit, as they were when the copy was made") {
  Saved saved;
  const auto written = various(1);
  saved.checkpointer.start(at_step(3), written);
  saved.checkpointer.release();
  for (const NamedTensor& named : written) named.tensor.zero_();  // the next step
  saved.checkpointer.wait();
  CHECK(saved.last()["step"] == 3);
  const auto restored = various(0), wanted = various(1);
  restore_tensors(saved.newest(), restored);
  for (size_t i = 0; i < wanted.size(); ++i) {
    CAPTURE(wanted[i].name);
    CHECK(at::equal(restored[i].tensor, wanted[i].tensor));
  }
}

TEST_CASE("a checkpoint of another program is refused, tensor by name") {
  Saved saved;
  saved.checkpointer.write(at_step(1), {{"weight", at::ones({2, 3})}});
  const LoadedCheckpoint loaded = saved.newest();
  CHECK_ERROR(restore_tensors(loaded, {{"bias", at::ones({2, 3})}}), "has no tensor \"bias\"");
  // As many bytes, but not the same numbers.
  for (const at::Tensor& other :
       {at::ones({3, 2}), at::ones({6}), at::ones({2, 3}, at::kInt), at::ones({2, 2})}) {
    CHECK_ERROR(restore_tensors(loaded, {{"weight", other}}),
                "tensor \"weight\" has another shape or type");
    CHECK(at::equal(other, at::ones_like(other)));
  }
}

TEST_CASE("a checkpoint that cannot be written is told, and the one before stays") {
  Saved saved;
  Checkpointer& checkpointer = saved.checkpointer;
  CHECK(checkpointer.write(at_step(1), {{"weight", at::ones({3})}}));
  CHECK(saved.last()["path"].get<std::string>().find("step-") != std::string::npos);
  const at::Tensor spoilt = at::full({3}, NAN);
  CHECK_THROWS_AS(checkpointer.write(at_step(2), {{"weight", spoilt}}), NotFinite);
  CHECK(saved.last()["tensor"] == "weight");
  CHECK(saved.last()["error"].is_string());
  CHECK(saved.newest().header.step == 1);
  checkpointer.allow_any_numbers({"weight"});
  CHECK(checkpointer.write(at_step(2), {{"weight", spoilt}}));
  CHECK(saved.newest().header.step == 2);

  const std::string aside = saved.folder.file("aside");
  REQUIRE(std::rename(saved.directory.c_str(), aside.c_str()) == 0);
  write_file_atomic(saved.directory, "no folder");
  CHECK_ERROR(checkpointer.write(at_step(3), {{"weight", at::ones({3})}}),
              "cannot write a checkpoint to " + saved.directory);
  CHECK(!saved.last().contains("path"));
  remove_tree(saved.directory);
  REQUIRE(std::rename(aside.c_str(), saved.directory.c_str()) == 0);
  CHECK(saved.newest().header.step == 2);
  // A type that has no name in a checkpoint.
  CHECK_ERROR(checkpointer.write(at_step(4), {{"weight", at::empty({1}, at::kComplexHalf)}}),
              "cannot be saved in a checkpoint");
  CHECK(checkpointer.write(at_step(4), {{"weight", at::ones({3})}}));
  CHECK(saved.newest().header.step == 4);
}

TEST_CASE("other frozen tensors than those of a checkpoint are told") {
  const auto checkpoint = [](const json& state) {
    LoadedCheckpoint result;
    result.path = "step-1";
    result.header.state = state;
    return result;
  };
  const LoadedCheckpoint saved = checkpoint({{"frozen_digest", "ab"}});
  CHECK(other_frozen(saved, "ab").empty());
  CHECK(contains(other_frozen(saved, "ac"), "are not those that step-1 was trained with"));
  CHECK(contains(other_frozen(saved, ""), "step-1"));
  // An earlier version saved none, and a program may name none.
  CHECK(other_frozen(checkpoint(json::object()), "ab").empty());
  CHECK(other_frozen(checkpoint({{"frozen_digest", ""}}), "ab").empty());
}

TEST_CASE("what is frozen may hold any numbers") {
  Saved saved;
  CHECK(saved.checkpointer.write(at_step(1), {{"frozen/mask", at::full({3}, -INFINITY)}}));
  const std::vector<NamedTensor> restored{{"frozen/mask", at::zeros({3})}};
  restore_tensors(saved.newest(), restored);
  CHECK(at::equal(restored[0].tensor, at::full({3}, -INFINITY)));
}

TEST_CASE("without a folder nothing is due, written or found") {
  Checkpointer none("", 2, 600,
                    [](const json&, Checkpointer::Kind) { FAIL("nothing was written"); });
  none.begun();
  none.hurry();
  CHECK(!none.due(1));
  CHECK(!none.write(at_step(1), {{"weight", at::ones({3})}}));
  CHECK(!none.store());
}

TEST_CASE("a checkpoint is due after a while, at once in a hurry, and never beside another") {
  Saved saved;
  Checkpointer& checkpointer = saved.checkpointer;
  checkpointer.begun();
  CHECK(!checkpointer.due(0));
  CHECK(checkpointer.due(1000));  // the next step would take that long
  checkpointer.hurry();
  CHECK(checkpointer.due(0));
  checkpointer.write(at_step(1), {{"weight", at::ones({3})}});
  CHECK(!checkpointer.due(0));

  checkpointer.trained(100);
  checkpointer.failed();
  const json state = checkpointer.state();
  Saved other;
  other.checkpointer.load_state(state);
  CHECK(other.checkpointer.state() == state);
  CHECK(state.contains("cost"));
}
