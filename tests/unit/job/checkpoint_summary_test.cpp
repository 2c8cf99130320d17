// What `adaptdl inspect` says of a checkpoint; the golden tests read whole ones.

#include "core/job/checkpoint_summary.h"

#include <doctest/doctest.h>

#include "core/base/files.h"
#include "core/formats/crc32c.h"
#include "tests/unit/base/expect_error.h"

using namespace adaptdl;

namespace {

CheckpointManifest manifest_with(const nlohmann::json& progress) {
  CheckpointManifest manifest;
  manifest.header.settings = {{"precision", "bf16"}};
  manifest.header.state = {{"progress", progress}};
  return manifest;
}

}  // namespace

TEST_CASE("progress: what a checkpoint says, and defaults for what earlier versions did not") {
  CheckpointProgress progress = progress_of(manifest_with({{"iterations", 7.5}}), "m");
  CHECK(progress.iterations == 7.5);
  CHECK(progress.batch == 0);
  CHECK(progress.atomic_limit == 0);
  CHECK(progress.precision == "bf16");  // of the settings
  CHECK(progress.validation.empty());

  CheckpointManifest manifest = manifest_with({{"iterations", 7.5},
                                               {"atomic", 8},
                                               {"micro_steps", 2},
                                               {"batch_replicas", 3},
                                               {"atomic_limit", 9},
                                               {"validation", {{"loss", "nan"}}}});
  manifest.header.state["precision"] = "fp16";
  progress = progress_of(manifest, "m");
  CHECK(progress.batch == 48);
  CHECK(progress.atomic_limit == 9);
  CHECK(progress.precision == "fp16");
  CHECK(progress.validation.at("loss") == "nan");
}

TEST_CASE("reading a checkpoint can be cut off") {
  const TemporaryDirectory folder;
  const std::string data(1000, 'x');
  write_file_atomic(folder.file("data"), data);
  CheckpointManifest manifest = manifest_with({{"iterations", 1}});
  manifest.files = {{.name = "data", .bytes = data.size()}};
  CheckpointTensor tensor;
  tensor.name = "weight";
  tensor.dtype = "float32";
  tensor.shape = {250};
  tensor.file = "data";
  tensor.bytes = data.size();
  tensor.crc32c = crc32c(data);
  manifest.tensors = {tensor};
  write_file_atomic(folder.file(kCheckpointManifest), checkpoint_manifest_text(manifest));
  Cancellation cancelled;
  CHECK(inspect_checkpoint(folder.path(), &cancelled).damages.empty());
  cancelled.cancel();
  CHECK_THROWS_AS(inspect_checkpoint(folder.path(), &cancelled), Cancelled);
}

TEST_CASE("progress: what is not of a training of ours") {
  const auto read = [](const nlohmann::json& progress) {
    return progress_of(manifest_with(progress), "m");
  };
  CHECK_ERROR(read({{"step", 3}}), "m: state.progress: iterations");
  CHECK_ERROR(read({{"iterations", 1}, {"epoch", -1}}), "epoch: is -1");
  CHECK_ERROR(read({{"iterations", 1}, {"validation", {{"loss", {1}}}}}), "metrics by name");
  CHECK_ERROR(read({{"iterations", 1},
                    {"atomic", int64_t{1} << 40},
                    {"micro_steps", int64_t{1} << 40},
                    {"batch_replicas", 1}}),
              "too large");
  CheckpointManifest other = manifest_with({{"iterations", 1}});
  other.header.state = nlohmann::json::array();
  CHECK_ERROR(progress_of(other, "m"), "m: state");
}
