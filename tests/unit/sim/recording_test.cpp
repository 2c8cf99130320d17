#include "core/sim/profiles/recording.h"

#include <doctest/doctest.h>
#include <sstream>

#include "core/sim/profiles/profile_yaml.h"
#include "tests/unit/base/expect_error.h"

using namespace adaptdl;

namespace {

// A run of `epochs` epochs of `steps` steps at the initial batch, 40 samples; the first half on one
// replica, the second on two.
struct Run {
  int epochs = 2, steps = 20, initial = 40;
  double step_s = 0.4, noise = 120;
  double overshoot = 0;    // of the last step's progress, beyond the total that was expected
  bool estimated = false;  // the total, which then differs from step to step
  double started_s = -1;   // the time of the first step's end; the others have none. < 0: neither
  std::string bounds = R"(,"bounds":{"initial":40,"max":160,"atomic_min":10,"atomic_max":80})";

  std::string start() const {
    return R"({"event":"start","format":1,"name":"sample","time_s":0})"
           "\n";
  }
  std::string batch(int replicas) const {
    return fmt::format(R"({{"event":"batch","replicas":{},"batch":40,"scale":{}{}}})"
                       "\n",
                       replicas, 40.0 / initial, bounds);
  }
  std::string step(int number, int replicas, int samples = 40) const {
    const double progress = number + (number == epochs * steps ? overshoot : 0);
    const double total = std::max(progress, epochs * steps + (estimated ? 0.7 * number : 0));
    const std::string time =
        number == 1 && started_s >= 0 ? fmt::format(R"("time_s":{},)", started_s) : "";
    return fmt::format(
        R"({{"event":"step",{}"step":{},"epoch":{},"progress":{},"progress_total":{},"replicas":{},)"
        R"("batch":{},"atomic":{},"accumulation":0,"accum_s":0,"step_s":{},"sync_s":{},)"
        R"("noise_scale":{}}})"
        "\n",
        time, number, progress / steps, progress, total, replicas, samples, 40 / replicas,
        step_s / replicas, replicas > 1 ? 0.05 : 0.0, noise);
  }
  std::string text(int from = 1, int to = 1000) const {
    std::string all = start() + batch(1);
    for (int i = from; i <= std::min(to, epochs * steps); ++i) {
      const int replicas = i <= epochs * steps / 2 ? 1 : 2;
      if (i == epochs * steps / 2 + 1) {
        all += R"({"event":"generation","from":1,"to":2})"
               "\n" +
               batch(2);
        all += R"({"event":"rescale","cause":"scale","from":1,"to":2,"pause_s":0.25})"
               "\n";
        all += R"({"event":"rescale","cause":"death","from":2,"to":2,"pause_s":9})"
               "\n";
      }
      all += step(i, replicas);
      if (i % steps == 0) all += fmt::format("{{\"event\":\"epoch\",\"epoch\":{}}}\n", i / steps);
    }
    return all;
  }
  static std::string end(const std::string& by) {
    return R"({"event":"end","result":"finished","ended_by":")" + by + "\"}\n";
  }
};

void add(Recording& recording, const std::string& text, const std::string& path = "run.jsonl") {
  std::istringstream stream(text);
  recording.add(stream, path);
}

ProfileData profile_of(const std::vector<std::string>& texts) {
  Recording recording;
  for (const std::string& text : texts) add(recording, text);
  return recording.profile("mine");
}

}  // namespace

TEST_CASE("times on several kinds of accelerators are kept apart, those on one count for all") {
  const auto on = [](const std::string& kind, double step_s) {
    Run run;
    run.step_s = step_s;
    std::string text = run.text();
    text.insert(run.start().size(), fmt::format(R"({{"event":"generation","accelerator":{}}})"
                                                "\n",
                                                kind));
    const std::string later = R"({"event":"generation",)";
    text.replace(text.rfind(later), later.size(), later + R"("accelerator":)" + kind + ",");
    return text;
  };
  Recording recording;
  add(recording, on("\"T4\"", 0.4));
  CHECK(recording.profile("sample").kinds.empty());
  CHECK(recording.profile("sample").placements.size() > 2);
  add(recording, on("\"A100\"", 0.1));
  CHECK(recording.kinds() == std::vector<std::string>{"A100", "T4"});
  const ProfileData data = recording.profile("sample");
  CHECK(data.placements.empty());
  CHECK(data.kinds.at("T4").placements[0].time.step_s == doctest::Approx(0.4));
  CHECK(data.kinds.at("A100").placements[0].time.step_s == doctest::Approx(0.1));
  CHECK(data.kinds.at("A100").atomic_max == 80);
  const std::string text = profile_yaml(data, "two kinds");
  CHECK(profile_yaml(parse_profile_yaml(text, "two.yaml"), "two kinds") == text);

  Recording unnamed;
  add(unnamed, on("null", 0.4));
  CHECK(unnamed.kinds().empty());
}

TEST_CASE("a run becomes a profile") {
  const ProfileData data = profile_of({Run().text()});
  CHECK(data.application == "mine");
  REQUIRE(data.placements.size() == 6);  // and both ends of the bounds for each
  CHECK(data.placements[0].gpus == Placement{1});
  CHECK(data.placements[0].atomic == 40);
  CHECK(data.placements[0].time.step_s == doctest::Approx(0.4));
  CHECK(data.placements[1].gpus == Placement{2});
  CHECK(data.placements[1].time.step_s == doctest::Approx(0.2));
  CHECK(data.placements[1].time.sync_s == doctest::Approx(0.05));
  CHECK(data.placements[2].atomic == 10);
  CHECK(data.placements[3].atomic == 80);
  CHECK(data.placements[3].time.step_s > 0.5);  // twice the batch
  CHECK(data.placements[3].time.step_s < 0.85);
  CHECK(*data.rescale_s == doctest::Approx(0.25));  // a death's is another matter
  CHECK(*data.initial_batch == 40);
  CHECK(*data.max_batch == 160);
  CHECK(*data.atomic_min == 10);
  CHECK(*data.atomic_max == 80);
  REQUIRE(data.runs.size() == 3);
  CHECK(data.runs[1].batch == 80);
  CHECK(data.runs[0].epochs[1].progress == 40);
  CHECK(data.runs[0].epochs[1].iterations == 40);
  // Noise of 120 samples at a batch of 40: at scale 4 a step is worth 4 / (3/4 + 1) = 16/7.
  CHECK(data.runs[2].epochs[1].iterations == doctest::Approx(17.5));
  CHECK(data.runs[0].epochs[0].grad.var == doctest::Approx(3 * data.runs[0].epochs[0].grad.sqr));
}

TEST_CASE("what is written reads back") {
  const ProfileData data = profile_of({Run().text()});
  const ProfileData again = parse_profile_yaml(profile_yaml(data, "two\nlines"), "mine.yaml");
  REQUIRE(again.placements.size() == data.placements.size());
  CHECK(again.placements[1].time.step_s == doctest::Approx(0.2));
  CHECK(again.runs.size() == data.runs.size());
  CHECK(again.runs[2].epochs[1].iterations == doctest::Approx(17.5));
  CHECK(again.atomic_max == data.atomic_max);
  CHECK(again.rescale_s == data.rescale_s);
}

TEST_CASE("a run may go on in another stream, and short ones add placements") {
  Run fast;
  fast.epochs = 1;
  fast.step_s = 0.2;
  const ProfileData data = profile_of({Run().text(1, 20), fast.text(), Run().text(21)});
  CHECK(data.runs[0].epochs.size() == 2);
  CHECK(data.placements[0].time.step_s < 0.4);
}

TEST_CASE("the last step may go beyond the total that was expected") {
  Run run;
  run.overshoot = 0.3;
  const ProfileData data = profile_of({run.text() + Run::end("epochs")});
  REQUIRE(data.runs[0].epochs.size() == 2);
  CHECK(data.runs[0].epochs[0].progress == 20);
  CHECK(data.runs[0].epochs[1].progress == doctest::Approx(40.3));
  CHECK(profile_of({run.text(1, 30), run.text(31)}).runs[0].epochs.size() == 2);
}

TEST_CASE("a training that ended early is complete with what it has") {
  Run run;
  run.epochs = 10;
  const auto ends = [](const ProfileData& data) {
    std::vector<double> progress;
    for (const auto& row : data.runs[0].epochs) progress.push_back(row.progress);
    return progress;
  };
  CHECK_ERROR(profile_of({run.text(1, 60)}), "epoch 4 of 10 is missing");
  const std::string early = Run::end("early_stopping");
  CHECK(ends(profile_of({run.text(1, 60) + early})) == std::vector<double>{20, 40, 60});
  CHECK(ends(profile_of({run.text(1, 50) + early})) == std::vector<double>{20, 40, 50});
  CHECK(ends(profile_of({run.text(1, 10) + early})) == std::vector<double>{10});
  CHECK_ERROR(profile_of({run.text(41, 60) + early}), "epoch 1 of 3 is missing");

  run.estimated = true;  // as with max_steps
  const std::string most = Run::end("max_steps");
  CHECK(ends(profile_of({run.text(1, 60) + most})) == std::vector<double>{20, 40, 60});
  CHECK(ends(profile_of({run.text(1, 35), run.text(36, 50) + most})) ==
        std::vector<double>{20, 40, 50});
  // Another training under the same name, from its first step.
  CHECK(ends(profile_of({run.text(1, 70), run.text(1, 50) + most})) ==
        std::vector<double>{20, 40, 50});
  CHECK_ERROR(profile_of({run.text(1, 60) + R"({"event":"end","result":"stopped"})"}), "missing");
}

TEST_CASE("a start takes until the first step, less the time of a usual one") {
  CHECK_FALSE(profile_of({Run().text()}).start_s.has_value());
  Run run;
  run.started_s = 3.4;
  const ProfileData data = profile_of({run.text()});
  REQUIRE(data.start_s.has_value());
  CHECK(*data.start_s == doctest::Approx(3));
  CHECK(parse_profile_yaml(profile_yaml(data, ""), "mine.yaml").start_s == doctest::Approx(3));
  Run slow, fast;
  slow.started_s = 60;
  fast.started_s = 0.1;  // in less than a step, by clocks that are not exact
  CHECK(*profile_of({slow.text(), run.text(), fast.text()}).start_s == doctest::Approx(3));
}

TEST_CASE("older streams have no bounds") {
  Run run;
  run.bounds.clear();
  const ProfileData data = profile_of({run.text()});
  CHECK(*data.initial_batch == 40);
  CHECK_FALSE(data.atomic_min.has_value());
}

TEST_CASE("the last line may be cut short, no other") {
  const std::string whole = Run().text();
  Recording recording;
  add(recording, whole + "{\"event\":\"st");
  CHECK(recording.profile("mine").runs[0].epochs.size() == 2);
  Recording other;
  CHECK_ERROR(add(other, Run().start() + "{\"ev\n" + whole), "run.jsonl:2: ");
}

TEST_CASE("what is no recording is refused") {
  Recording recording;
  CHECK_ERROR(recording.profile("mine"), "no step was recorded");
  CHECK_ERROR(add(recording, ""), "run.jsonl: contains no event");
  CHECK_ERROR(add(recording, "epoch 1\n"), "run.jsonl:1: ");
  CHECK_ERROR(add(recording, "{\"event\":\"end\"}\n"), "starts with 'end' instead of 'start'");
  CHECK_ERROR(add(recording, Run().start() + Run().step(1, 1)), "run.jsonl:2: no 'batch' event");
  CHECK_ERROR(add(recording, R"({"event":"start","format":2,"name":"a"})"
                             "\n"),
              "this adaptdl reads up to 1");
  CHECK_ERROR(add(recording, Run().start() + Run().batch(1) + "{\"event\":\"step\"}\n"),
              "run.jsonl:3: ");
}

TEST_CASE("absurd sizes are refused, and do not take for ever") {
  const auto with = [](const std::string& bounds) {
    Run run;
    run.bounds = bounds;
    Recording recording;
    add(recording, run.text());
    return recording.profile("mine");
  };
  CHECK_ERROR(with(R"(,"bounds":{"initial":1,"max":9223372036854775807,"atomic_min":1,)"
                   R"("atomic_max":80})"),
              "run.jsonl:2: the largest batch is 9.223372036854776e+18 samples");
  CHECK_ERROR(with(R"(,"bounds":{"initial":0,"max":8,"atomic_min":1,"atomic_max":80})"),
              "run.jsonl:2: the initial batch is 0 samples; from 1 to 1099511627776 are allowed");
  const std::string end = "\"progress_total\":40,";
  std::string text = Run().text();
  for (size_t at = 0; (at = text.find(end, at)) != std::string::npos;) {
    text.replace(at, end.size(), "\"progress_total\":1e300,");
  }
  Recording endless;
  add(endless, text);
  CHECK_ERROR(endless.profile("mine"), "epoch 3 of 5e+298 is missing");
}

TEST_CASE("runs of another training are refused") {
  Recording recording;
  add(recording, Run().text());
  Run other;
  other.bounds.clear();
  other.initial = 20;
  CHECK_ERROR(add(recording, other.text(), "b.jsonl"), "b.jsonl:2: the initial batch is 20");
  Run longer;
  longer.steps = 30;
  CHECK_ERROR(add(recording, longer.text(), "c.jsonl"), "c.jsonl:3: an epoch has 30 steps");
}

TEST_CASE("a training must have been recorded to its end") {
  CHECK_ERROR(profile_of({Run().text(1, 39)}), "epoch 2 of 2 is missing");
  CHECK_ERROR(profile_of({Run().text(1, 10)}), "no epoch was recorded");
  Run noiseless;
  noiseless.noise = 0;
  CHECK_ERROR(profile_of({noiseless.text()}), "noise_scale");
}
