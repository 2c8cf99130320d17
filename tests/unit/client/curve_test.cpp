#include "core/client/local/curve.h"

#include <cstdio>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fstream>
#include <sys/stat.h>

#include "core/base/files.h"

namespace adaptdl::client {
namespace {

struct Events {
  TemporaryDirectory folder{"adaptdl-curve"};
  std::string path = folder.file("events.jsonl");

  void write(const std::string& text) const { std::ofstream(path, std::ios::app) << text; }
  void step(int number) const {
    write(
        fmt::format("{{\"event\":\"step\",\"goodput\":2,\"loss\":0.5,\"step\":{},"
                    "\"time_s\":{}}}\n",
                    number, number));
  }
};

std::string steps(CurveReader& reader) {
  std::string text;
  for (const CurvePoint& point : reader.next()) text += fmt::format("{} ", point.step.value_or(-1));
  return text;
}

TEST_CASE("a job's curve, as its events come") {
  const Events events;
  const auto reader = read_curve(events.path);
  CHECK(reader->next().empty());  // there is no file yet
  events.write("{\"event\":\"start\",\"started\":\"2026-01-31T08:00:00Z\",\"time_s\":0}\n");
  events.step(1);
  std::vector<CurvePoint> points = reader->next();
  REQUIRE(points.size() == 1);
  CHECK(points[0].time_s == 1769846401);
  CHECK(points[0].loss == 0.5);
  CHECK(points[0].goodput == 2);
  CHECK(reader->next().empty());
  events.write("{\"event\":\"step\",\"st");
  CHECK(reader->next().empty());
  events.write("ep\":2}\n");
  events.step(3);
  CHECK(steps(*reader) == "2 3 ");
}

TEST_CASE("full files are followed to the next one") {
  const Events events;
  const auto rotate = [&] { std::rename(events.path.c_str(), (events.path + ".1").c_str()); };
  events.step(1);
  rotate();
  events.step(2);
  const auto reader = read_curve(events.path);
  CHECK(steps(*reader) == "1 2 ");
  events.step(3);
  rotate();
  events.step(4);
  CHECK(steps(*reader) == "3 4 ");
  truncate(events.path.c_str(), 0);
  CHECK(steps(*reader) == "");
  events.step(5);
  CHECK(steps(*reader) == "5 ");
}

TEST_CASE("the job's program may write anything there") {
  const Events events;
  events.write("\n[]\n\"event\":\"step\"\n{\"event\":\"step\"\n\xff\xfe\n");
  events.write("{\"event\":\"step\",\"step\":\"x\",\"loss\":null}\n");
  events.write("{\"event\":\"step\"," + std::string(2 << 20, ' ') + "\"step\":7}\n");
  events.step(8);
  CHECK(steps(*read_curve(events.path)) == "-1 8 ");
  const std::string pipe = events.folder.file("pipe");
  mkfifo(pipe.c_str(), 0600);
  CHECK(read_curve(pipe)->next().empty());
  CHECK(read_curve(events.folder.path())->next().empty());
}

TEST_CASE("of a large file the end is read") {
  const Events events;
  events.step(1);
  for (int i = 0; i < 20; ++i) events.write(std::string(1 << 20, 'x') + "\n");
  events.step(2);
  CHECK(steps(*read_curve(events.path)) == "2 ");
}

}  // namespace
}  // namespace adaptdl::client
