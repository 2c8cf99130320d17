#include "core/sim/profiles/profile_files.h"

#include <cstdlib>
#include <doctest/doctest.h>

#include "core/base/files.h"
#include "core/sim/profiles/profile_folder.h"
#include "core/sim/profiles/profile_yaml.h"
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
  CHECK(bert.times().at(Placement{4, 4}, 4) == StepTime{0.5, 0.1});
  const Profile& mine = profiles.at("mine");
  CHECK(mine.batch().max == 384);
  CHECK(mine.max_replicas() == 40);
  CHECK(mine.rescale_s() == 2.5);
  CHECK(mine.start_s() == 4);
  CHECK_FALSE(bert.start_s().has_value());
  CHECK_FALSE(bert.rescale_s().has_value());
  CHECK(mine.times().at(Placement{16, 16}, 4) == StepTime{0.5, 0.1});
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

TEST_CASE("files by kind of accelerator are measurements of that kind") {
  const TemporaryDirectory folder;
  const std::string app = folder.file("mine");
  make_directories(app);
  const auto write = [&](const char* name, const std::string& text) {
    write_file_atomic(join_path(app, name), text);
  };
  const std::string columns = "local_bsz,step_time,sync_time,placement\n";
  write("placements-fast.csv", columns + "4,0.2,0,1\n8,0.4,0,1\n4,0.3,0.1,11\n");
  write("placements-slow.csv", columns + "4,0.4,0,1\n");
  write("validation-12.csv", kValidation);
  const Profile plain = read_profile_folder(app);
  CHECK(plain.kinds() == std::vector<std::string>{"fast", "slow"});
  CHECK_FALSE(plain.runs_on("other"));
  CHECK_FALSE(plain.runs_on(""));
  CHECK(plain.measured_kind("slow") == "slow");
  CHECK(plain.batch("fast").atomic_max == 8);
  CHECK(plain.batch("slow").atomic_max == 4);
  CHECK(plain.max_replicas() == 2);
  CHECK(plain.times("fast").speed() == doctest::Approx(20));
  CHECK(plain.times("slow").at(Placement{1}, 4) == StepTime{0.4, 0});

  write("bounds.yaml",
        "slowdown: 1.5\nrescale_s: 50\ntold_rescale_s: 30\nmax_replicas: 1\n"
        "kinds: {fast: {atomic_max: 6}}\n");
  const Profile bounded = read_profile_folder(app);
  CHECK(bounded.batch("fast").atomic_max == 6);
  CHECK(bounded.max_replicas() == 1);
  CHECK(bounded.told_rescale_s() == 30);
  CHECK(bounded.times("slow").at(Placement{1}, 4).step_s == doctest::Approx(0.6));
  write("bounds.yaml", "kinds: {quick: {atomic_max: 6}}\n");
  CHECK_ERROR(read_profile_folder(app), "bounds.yaml:1: kinds.quick");
  write("bounds.yaml", "kinds: {fast: {max_replicas: 1}}\n");
  CHECK_ERROR(read_profile_folder(app),
              "bounds.yaml:1: kinds.fast.max_replicas: is the same for all kinds");
}

TEST_CASE("of rows that are there twice the mean counts, and sizes repeat no placements") {
  const TemporaryDirectory folder;
  const std::string app = folder.file("mine");
  make_directories(app);
  write_file_atomic(join_path(app, "placements-a.csv"),
                    "placement,local_bsz,step_time,sync_time\n"
                    "1,4,0.4,0\n12,4,0.5,0.1\n21,4,0.7,0.3\n");
  write_file_atomic(join_path(app, "scalability-a.csv"),
                    "num_nodes,num_replicas,local_bsz,step_time,sync_time\n"
                    "2,3,4,9,1\n3,3,4,1,0\n3,3,4,2,1\n");
  write_file_atomic(join_path(app, "validation-12.csv"), kValidation);
  const Profile profile = read_profile_folder(app);
  const StepTimes& times = profile.times("a");
  CHECK(times.at(Placement{2, 1}, 4).step_s == doctest::Approx(0.6));
  CHECK(times.at(Placement{1, 2}, 4).sync_s == doctest::Approx(0.2));
  CHECK(times.max_replicas() == 3);
}

TEST_CASE("a YAML profile has lists for any kind, by kind, or both") {
  const std::string by_kind =
      replaced(kYaml, "validation:",
               "kinds:\n  a100:\n    atomic_max: 64\n"
               "    placements: [{gpus: [1], atomic: 4, step_s: 0.1, sync_s: 0}]\nvalidation:");
  const Profile both(yaml(by_kind));
  CHECK(both.kinds() == std::vector<std::string>{"", "a100"});
  CHECK(both.times("a100").at(Placement{1}, 4).step_s == 0.1);
  CHECK(both.times("t4").at(Placement{1}, 4).step_s == 0.4);
  CHECK(both.measured_kind("t4").empty());
  CHECK(both.batch("a100").atomic_max == 64);
  const std::string again = profile_yaml(yaml(by_kind), "");
  CHECK(profile_yaml(yaml(again), "") == again);

  const size_t from = by_kind.find("placements:"), to = by_kind.find("kinds:");
  const Profile only(yaml(std::string(by_kind).erase(from, to - from)));
  CHECK(only.kinds() == std::vector<std::string>{"a100"});
  CHECK_ERROR(yaml(replaced(by_kind, "a100:\n    atomic_max: 64", "a100:\n    atomic_most: 64")),
              "kinds.a100");
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
    CHECK(got.times().interpolation() != nullptr);
  }
}

TEST_CASE("the profiles published with Sia are read as they are") {
  const char* data = std::getenv("ADAPTDL_TEST_DATA");
  if (!data) {
    MESSAGE("skipped: ADAPTDL_TEST_DATA names no folder with data/sosp23");
    return;
  }
  const Profiles profiles = read_profiles(join_path(data, "data/sosp23/profiles/published"));
  const Profile& bert = profiles.at("bert");
  CHECK(bert.kinds() == std::vector<std::string>{"aws", "dgx-ext", "quad", "rtx"});
  CHECK(bert.rescale_s() == 120);
  CHECK(bert.batch("aws").atomic_max == 12);
  CHECK(bert.batch("dgx-ext").atomic_max == 48);
  // Samples/s of one GPU, without the slowdown of 1.2.
  CHECK(1.2 * bert.times("aws").speed() == doctest::Approx(13).epsilon(0.01));
  CHECK(1.2 * bert.times("rtx").speed() == doctest::Approx(26.9).epsilon(0.01));
  CHECK(1.2 * bert.times("dgx-ext").speed() == doctest::Approx(140).epsilon(0.01));
  CHECK(profiles.at("yolov3").told_rescale_s() == 45);
  CHECK(profiles.at("yolov3").batch("aws").atomic_max == 16);
}
