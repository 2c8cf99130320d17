#include "core/sim/profiles/profile_files.h"

#include <cstdlib>
#include <doctest/doctest.h>

#include "core/base/files.h"
#include "tests/unit/base/expect_error.h"

using namespace adaptdl;

namespace {

const std::string kPlacements =
    "placement,local_bsz,step_time,sync_time\n1,4,0.4,0\n1,8,0.8,0.01\n44,4,0.5,0.1\n";
const std::string kValidation =
    "progress,iteration,metric,grad_sqr,grad_var\n10.5,10,-0.5,1,2\n20,20,0.7,3,4\n";

const std::string kYaml =
    "max_replicas: 40\nrescale_s: 2.5\nstart_s: 4\n"
    "placements:\n"
    "  - {gpus: [1], atomic: 4, step_s: 0.4, sync_s: 0}\n"
    "  - {gpus: [16, 16], atomic: 4, step_s: 0.5, sync_s: 0.1}\n"
    "sizes:\n"
    "  - {nodes: 6, replicas: 60, atomic: 4, step_s: 0.7, sync_s: 0.3}\n"
    "validation:\n"
    "  - batch: 12\n"
    "    epochs: [{progress: 10.5, iterations: 10, grad_sqr: 1, grad_var: 2}]\n"
    "  - batch: 384\n"
    "    epochs: [{progress: 10, iterations: 4, grad_sqr: 3, grad_var: 4}]\n";

void write_folder(const std::string& folder) {
  make_directories(folder);
  write_file_atomic(join_path(folder, "placements.csv"), kPlacements);
  write_file_atomic(join_path(folder, "validation-12.csv"), kValidation);
  write_file_atomic(join_path(folder, "validation-best.csv"), "somebody's notes");
}

ProfileData yaml(const std::string& text) {
  return parse_profile_yaml(text, "profiles/mine.yaml");
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

}  // namespace

TEST_CASE("a folder and a YAML file are profiles beside each other") {
  const TemporaryDirectory folder;
  write_folder(folder.file("bert"));
  write_file_atomic(folder.file("mine.yaml"), kYaml);
  write_file_atomic(folder.file("README"), "about");
  make_directories(folder.file("empty"));
  const Profiles profiles = read_profiles(folder.path());
  REQUIRE(profiles.size() == 2);
  const Profile& bert = profiles.at("bert");
  CHECK(bert.application() == "bert");
  CHECK(bert.batch().initial == 12);
  CHECK(bert.max_replicas() == 3);
  CHECK(bert.step_time(Placement{4, 4}, 4) == StepTime{0.5, 0.1});
  const Profile& mine = profiles.at("mine");
  CHECK(mine.batch().max == 384);
  CHECK(mine.max_replicas() == 40);
  CHECK(mine.rescale_s() == 2.5);
  CHECK(mine.start_s() == 4);
  CHECK_FALSE(bert.start_s().has_value());
  CHECK_FALSE(bert.rescale_s().has_value());
  CHECK(mine.step_time(Placement{16, 16}, 4) == StepTime{0.5, 0.1});
  CHECK(mine.iterations(0, 384) == 4);

  write_file_atomic(folder.file("bert.yaml"), kYaml);
  CHECK_ERROR(read_profiles(folder.path()), "application bert has a folder and a YAML file");
  CHECK_ERROR(read_profiles(folder.file("empty")), "contains no profile");
}

TEST_CASE("bounds come from a file, or are those of published applications") {
  const TemporaryDirectory folder;
  write_folder(folder.file("ncf"));
  write_folder(folder.file("yolov3"));
  CHECK(read_profile_folder(folder.file("ncf")).fixed_batch() == 32768);
  CHECK(read_profile_folder(folder.file("ncf")).max_replicas() == 1);
  CHECK(read_profile_folder(folder.file("yolov3")).batch().atomic_max == 8);
  write_file_atomic(folder.file("ncf/bounds.yaml"), "max_batch: 100\natomic_max: 6\n");
  const Profile own = read_profile_folder(folder.file("ncf"));
  CHECK_FALSE(own.fixed_batch().has_value());
  CHECK(own.batch().max == 100);
  CHECK(own.batch().atomic_max == 6);
  write_file_atomic(folder.file("ncf/bounds.yaml"), "max_bach: 100\n");
  CHECK_ERROR(read_profile_folder(folder.file("ncf")), "bounds.yaml:1: max_bach");
  write_file_atomic(folder.file("yolov3/scalability.csv"),
                    "num_nodes,num_replicas,local_bsz,step_time,sync_time\n4,2,4,1,0\n");
  CHECK_ERROR(read_profile_folder(folder.file("yolov3")), "yolov3: 2 replicas on 4 nodes");
}

TEST_CASE("what is wrong with a table of measurements is told with its place") {
  ProfileData data;
  const auto placements = [&](const std::string& row) {
    parse_placements_csv("placement,local_bsz,step_time,sync_time\n" + row, "p.csv", data);
  };
  CHECK_ERROR(placements("404,4,1,0\n"), "p.csv:2: placement: is not a placement");
  CHECK_ERROR(placements("4,0,1,0\n"), "p.csv:2: local_bsz");
  CHECK_ERROR(placements("4,4,-1,0\n"), "p.csv:2: step_time");
  CHECK_ERROR(placements("4,4,1,nan\n"), "p.csv:2: sync_time");
  CHECK_ERROR(parse_scalability_csv("num_nodes\n1\n", "s.csv", data), "s.csv:1: num_replicas");
  CHECK_ERROR(parse_validation_csv(replaced(kValidation, "-0.5", "good"), "v.csv", 12, data),
              "v.csv:2: metric");
}

TEST_CASE("what is wrong with a YAML profile is told with its place") {
  CHECK(yaml(kYaml).application == "mine");
  CHECK_ERROR(yaml(""), "placements");
  CHECK_ERROR(yaml(replaced(kYaml, "gpus: [1]", "gpus: []")), "placements.0.gpus");
  CHECK_ERROR(yaml(replaced(kYaml, "gpus: [1]", "gpu: [1]")), "mine.yaml:5: placements.0");
  CHECK_ERROR(yaml(replaced(kYaml, "replicas: 60", "replicas: 5")), "sizes.0.replicas");
  CHECK_ERROR(yaml(replaced(kYaml, "step_s: 0.4", "step_s: 0")), "placements.0.step_s");
  CHECK_ERROR(yaml(replaced(kYaml, "max_replicas: 40", "max_replicas: 0")), "max_replicas");
  CHECK_ERROR(yaml(replaced(kYaml, "batch: 12", "batch: x")), "mine.yaml:10: validation.0.batch");
  CHECK_ERROR(yaml(kYaml + "epochs: 1\n"), "mine.yaml:14: epochs");
}

TEST_CASE("the published profiles have the bounds that they were simulated with") {
  const char* data = std::getenv("ADAPTDL_TEST_DATA");
  if (!data) {
    MESSAGE("skipped: ADAPTDL_TEST_DATA names no folder with data/osdi21");
    return;
  }
  struct Expected {
    const char* application;
    BatchBounds batch;
    int epochs, max_replicas;
  };
  const Expected expected[] = {
      {"bert", {12, 384, 4, 12}, 2, 64},          {"cifar10", {128, 4096, 32, 1024}, 100, 64},
      {"ncf", {256, 32768, 32, 32768}, 10, 1},    {"imagenet", {200, 12800, 20, 200}, 90, 64},
      {"deepspeech2", {20, 640, 10, 80}, 80, 64}, {"yolov3", {8, 512, 4, 8}, 50, 64}};
  const Profiles profiles = read_profiles(join_path(data, "data/osdi21/profiles"));
  CHECK(profiles.size() == std::size(expected));
  for (const auto& want : expected) {
    CAPTURE(want.application);
    const Profile& got = profiles.at(want.application);
    CHECK(got.batch().initial == want.batch.initial);
    CHECK(got.batch().max == want.batch.max);
    CHECK(got.batch().atomic_min == want.batch.atomic_min);
    CHECK(got.batch().atomic_max == want.batch.atomic_max);
    CHECK(got.epochs() == want.epochs);
    CHECK(got.max_replicas() == want.max_replicas);
    CHECK(got.interpolation() != nullptr);
  }
}
