#include "core/launch/io/run_progress.h"

#include <cmath>
#include <doctest/doctest.h>

#include "core/base/files.h"
#include "core/base/rng.h"
#include "core/launch/run/run_tensorboard.h"

using namespace adaptdl;
using namespace adaptdl::launch;
using nlohmann::json;

namespace {

json step(int64_t number, double time_s, double progress) {
  return {{"event", "step"},
          {"time_s", time_s},
          {"step", number},
          {"epoch", progress / 50},
          {"progress", progress},
          {"progress_total", 1000},
          {"loss", 0.5},
          {"batch", 192},
          {"samples_per_s", 400.0},
          {"goodput", 300.0}};
}

TEST_CASE("charts: the longer a run lasts, the fewer of its steps are written") {
  const TemporaryDirectory folder;
  TensorBoard charts(folder.path(), "run");
  const std::string run = folder.file("run");
  const std::string file = join_path(run, list_directory(run).at(0));
  int64_t number = 0;
  const auto written = [&](double from_s, double interval_s, int steps) {
    const size_t before = read_file(file, 64 << 20).size();
    for (int i = 0; i < steps; ++i) charts.event(step(++number, from_s + i * interval_s, 1));
    charts.event({{"event", "end"}, {"time_s", from_s + steps * interval_s}});
    return static_cast<double>(read_file(file, 64 << 20).size() - before);
  };
  const double one = written(0, 0.001, 10'000) / 10'000;  // bytes of a step
  CHECK(one > 100);
  CHECK(written(100, 0.01, 1000) / one == doctest::Approx(100).epsilon(0.2));       // in 10 s
  CHECK(written(200'000, 0.1, 10'000) / one == doctest::Approx(100).epsilon(0.2));  // in 1000 s
}

TEST_CASE("charts: a folder that cannot be written is told, and stops nobody") {
  const TemporaryDirectory folder;
  write_file_atomic(folder.file("file"), "");
  std::string said;
  const auto talk = [&](const std::string& line) { said += line; };
  CHECK(charts_if_possible(folder.file("file"), "run", talk) == nullptr);
  CHECK(said.find("the run goes on without TensorBoard's charts") != std::string::npos);
  CHECK(charts_if_possible(folder.file("new"), "run", talk) != nullptr);
}

TEST_CASE("nothing is known until there was progress for some time") {
  ProgressRate rate;
  CHECK_FALSE(rate.per_s());
  rate.add(1, 0);
  CHECK_FALSE(rate.seconds_to(10));
  rate.add(1, 5);  // in no time
  CHECK_FALSE(rate.per_s());
  rate.add(2, 5);
  CHECK(rate.per_s() == doctest::Approx(5).epsilon(0.02));
  CHECK(rate.seconds_to(15) == doctest::Approx(2).epsilon(0.02));
  CHECK(rate.seconds_to(5) == 0.0);
  CHECK(rate.seconds_to(4) == 0.0);
}

TEST_CASE("the jitter of single steps hardly changes the time left") {
  ProgressRate rate;
  Rng rng(7);
  double time_s = 0, least = INFINITY, most = 0;
  for (int i = 1; i <= 2000; ++i) {  // half of the steps take almost no time, half take 0.2 s
    time_s += rng.uniform() < 0.5 ? 0.001 : 0.2;
    rate.add(time_s, i);
    if (time_s < 60) continue;
    const double left = *rate.seconds_to(i + 1000);
    least = std::min(least, left);
    most = std::max(most, left);
  }
  CHECK(least > 75);  // 100 s on average
  CHECK(most < 130);
}

TEST_CASE("a pause counts, and is forgotten after some minutes") {
  ProgressRate rate;
  double time_s = 0, progress = 0;
  const auto train = [&](double seconds, double per_s) {
    for (int i = 0; i < seconds; ++i) rate.add(time_s += 1, progress += per_s);
  };
  train(120, 10);
  rate.add(time_s += 30, progress);
  CHECK(*rate.per_s() < 7);
  train(300, 10);
  CHECK(rate.per_s() == doctest::Approx(10).epsilon(0.01));
  train(300, 40);  // more replicas
  CHECK(rate.per_s() == doctest::Approx(40).epsilon(0.01));
}

TEST_CASE("an older checkpoint, another clock and bad numbers do no harm") {
  ProgressRate rate;
  for (int i = 0; i <= 10; ++i) rate.add(i, 10 * i);
  rate.add(11, 20);
  rate.add(12, 30);
  CHECK(rate.per_s() == doctest::Approx(10));
  rate.add(3, 40);
  rate.add(4, 50);
  rate.add(NAN, 60);
  rate.add(5, INFINITY);
  CHECK(rate.per_s() == doctest::Approx(10));
  CHECK(rate.seconds_to(60) == doctest::Approx(1));
}

TEST_CASE("facts of a run, as they become known") {
  RunProgress progress;
  for (const char* key :
       {"progress", "progress_total", "seconds_left", "batch", "samples_per_s", "goodput"}) {
    CHECK(progress.facts().at(key).is_null());
  }
  CHECK(progress.facts().at("gpu_busy_percent").is_null());
  CHECK(progress.metrics() == json::object());
  progress.event({{"event", "batch"}, {"batch", 256}});
  for (int i = 1; i <= 100; ++i) progress.event(step(i, i * 0.5, i * 2));
  const json facts = progress.facts();
  CHECK(facts["progress"] == 200);
  CHECK(facts["progress_total"] == 1000);
  CHECK(facts["seconds_left"].get<double>() == doctest::Approx(200));
  CHECK(facts["batch"] == 256);
  CHECK(facts["samples_per_s"].get<double>() == doctest::Approx(400));
  CHECK(facts["goodput"].get<double>() == doctest::Approx(300));
  const json metrics = progress.metrics();
  CHECK(metrics["step"] == 100);
  CHECK(metrics["epoch"] == 4);
  CHECK(metrics["progressTotal"] == 1000);
  CHECK(metrics["secondsLeft"] == facts["seconds_left"]);
}

TEST_CASE("a training without a known end has no time left") {
  RunProgress progress;
  for (int i = 1; i <= 10; ++i) {
    json event = step(i, i, i);
    event["progress_total"] = 0;
    progress.event(event);
  }
  CHECK(progress.facts()["progress"] == 10);
  CHECK(progress.facts()["progress_total"].is_null());
  CHECK(progress.facts()["seconds_left"].is_null());
}

TEST_CASE("what is known of GPUs is their newest, each once, and not for long") {
  const auto gpu = [](double time_s, int member, const char* id, json busy, json celsius,
                      json watts) {
    return json{{"event", "gpu"},
                {"time_s", time_s},
                {"member", member},
                {"id", id},
                {"name", "N"},
                {"busy_percent", std::move(busy)},
                {"temperature_c", std::move(celsius)},
                {"power_w", std::move(watts)},
                {"memory_used_bytes", 1000 + member}};
  };
  RunProgress progress;
  progress.event(gpu(1, 0, "A", 10, 40, 100));
  progress.event(gpu(2, 1, "B", 50, 60, nullptr));
  progress.event(gpu(3, 2, "B", 50, 61, nullptr));  // shares it
  progress.event(gpu(4, 0, "A", 90, 45, 300.5));
  CHECK(progress.metrics() == json{{"gpuBusyPercent", 70},
                                   {"gpuTemperatureCelsius", 61},
                                   {"gpuPowerWatts", 300.5},
                                   {"gpuMemoryUsedBytes", 1002}});
  CHECK(progress.facts()["gpu_busy_percent"] == 70);
  progress.event({{"event", "generation"}, {"time_s", 5}, {"members", {0, 7}}});
  CHECK(progress.metrics()["gpuBusyPercent"] == 90);  // the others train no more
  progress.event({{"event", "other"}, {"time_s", 33.5}});
  CHECK(progress.metrics()["gpuBusyPercent"] == 90);
  progress.event({{"event", "other"}, {"time_s", 40}});
  CHECK(progress.metrics() == json::object());
}

TEST_CASE("events of other shapes are ignored") {
  RunProgress progress;
  for (const char* text :
       {"[]", "7", "{}", R"({"event":7})", R"({"event":"step","progress":"x","batch":1.5})",
        R"({"event":"batch","batch":null})", R"({"event":"step","loss":null,"time_s":{}})",
        R"({"event":"gpu"})", R"({"event":"gpu","member":"x","time_s":0})",
        R"({"event":"gpu","member":1,"id":7,"busy_percent":"x","time_s":0})"}) {
    progress.event(json::parse(text));
  }
  CHECK(progress.metrics() == json::object());
}

}  // namespace
