// What the command line reads and writes beside its streams: logs, TensorBoard files.

#include "core/base/files.h"

#include <cstdio>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <utility>

#include "cli/frame/output.h"
#include "core/client/log_follower.h"
#include "core/launch/run/run_tensorboard.h"

namespace adaptdl::cli {
namespace {

void append(const std::string& path, const std::string& text) {
  const Fd file = open_file(path, O_WRONLY | O_CREAT | O_APPEND);
  write_all(file.get(), text, path);
}

struct Collected {
  std::string text;
  LogLine take = [this](int64_t replica, const std::string& line) {
    text += fmt::format("{}:{} ", replica, line);
  };
  std::string now() { return std::exchange(text, {}); }
};

TEST_CASE("logs: the tail of each replica, then what comes") {
  const TemporaryDirectory folder;
  append(folder.file("replica-2.log"), "a\nb\nc\n");
  append(folder.file("replica-10.log"), "x\nhalf");
  append(folder.file("replica-x.log"), "no replica\n");
  append(folder.file("other.log"), "no replica\n");
  LogFollower follower(folder.path(), std::nullopt);
  Collected lines;
  follower.tail(2, std::nullopt, lines.take);
  CHECK(lines.now() == "2:b 2:c 10:x ");
  CHECK(follower.replicas() == 2);
  CHECK_FALSE(follower.next(lines.take, false));
  append(folder.file("replica-10.log"), " done\n");
  append(folder.file("replica-3.log"), "new\n");
  CHECK(follower.next(lines.take, false));
  CHECK(lines.now() == "3:new 10:half done ");
  append(folder.file("replica-3.log"), "never finished");
  follower.next(lines.take, false);
  CHECK(lines.now().empty());
  follower.next(lines.take, true);
  CHECK(lines.now() == "3:never finished ");
}

TEST_CASE("logs: a last line without a newline is one of the tail") {
  const TemporaryDirectory folder;
  append(folder.file("replica-0.log"), "a\nb\nhalf");
  for (const auto& [count, expected] : std::vector<std::pair<int64_t, std::string>>{
           {0, ""}, {1, "0:half "}, {2, "0:b 0:half "}, {9, "0:a 0:b 0:half "}}) {
    LogFollower follower(folder.path(), std::nullopt);
    Collected lines;
    follower.tail(count, std::nullopt, lines.take);
    follower.next(lines.take, true);
    CHECK(lines.now() == expected);
  }
}

TEST_CASE("logs: nothing is lost when a file is rotated") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("replica-1.log");
  append(path + ".1", "oldest\n");
  append(path, "old\n");
  LogFollower follower(folder.path(), std::nullopt);
  Collected lines;
  follower.tail(std::nullopt, std::nullopt, lines.take);
  CHECK(lines.now() == "1:oldest 1:old ");
  append(path, "before\n");
  REQUIRE(std::rename(path.c_str(), (path + ".1").c_str()) == 0);
  append(path, "after\n");
  follower.next(lines.take, false);
  CHECK(lines.now() == "1:before 1:after ");
}

TEST_CASE("logs: a line that crosses a rotation stays whole") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("replica-1.log");
  append(path, "first ");
  LogFollower follower(folder.path(), 1);
  Collected lines;
  follower.tail(std::nullopt, std::nullopt, lines.take);
  REQUIRE(std::rename(path.c_str(), (path + ".1").c_str()) == 0);
  append(path, "second\n");
  follower.next(lines.take, false);
  CHECK(lines.now() == "1:first second ");
}

TEST_CASE("logs: a line that an earlier rotation cut is whole in the tail") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("replica-1.log");
  append(path + ".1", "oldest\nfirst ");
  append(path + ".1.times", "0 1000\n7 2000\n");
  append(path, "second\nlast\n");
  append(path + ".times", "7 3000\n");
  const auto tail = [&](std::optional<int64_t> count, std::optional<Seconds> since) {
    LogFollower follower(folder.path(), 1);
    Collected lines;
    follower.tail(count, since, lines.take);
    follower.next(lines.take, true);
    return lines.now();
  };
  CHECK(tail(std::nullopt, std::nullopt) == "1:oldest 1:first second 1:last ");
  CHECK(tail(2, std::nullopt) == "1:first second 1:last ");
  const double now_s = wall_now_s();
  CHECK(tail(std::nullopt, Seconds(now_s - 1500)) == "1:first second 1:last ");
  CHECK(tail(std::nullopt, Seconds(now_s - 2500)) == "1:last ");
}

TEST_CASE("logs: one replica, or a folder that is not there") {
  const TemporaryDirectory folder;
  append(folder.file("replica-1.log"), "a\n");
  append(folder.file("replica-2.log"), "b\n");
  Collected lines;
  LogFollower(folder.path(), 2).tail(std::nullopt, std::nullopt, lines.take);
  CHECK(lines.now() == "2:b ");
  LogFollower none(folder.file("missing"), std::nullopt);
  none.tail(std::nullopt, std::nullopt, lines.take);
  CHECK(none.replicas() == 0);
}

TEST_CASE("TensorBoard files hold the charts of steps and validations") {
  const TemporaryDirectory folder;
  std::string path;
  {
    launch::TensorBoard charts(folder.path(), "digits");
    charts.event({{"event", "start"}, {"time_s", 0.0}, {"name", "digits"}});
    charts.event({{"event", "step"},
                  {"time_s", 0.1},
                  {"step", 1},
                  {"loss", 0.5},
                  {"lr", 0.1},
                  {"noise_scale", nullptr},
                  {"replicas", 2}});
    charts.event(
        {{"event", "validation"}, {"time_s", 0.2}, {"step", 1}, {"metrics", {{"accuracy", 0.9}}}});
    charts.event({{"event", "gpu"},
                  {"time_s", 0.25},
                  {"member", 3},
                  {"busy_percent", 87},
                  {"power_w", nullptr}});
    charts.event({{"event", "validation"}, {"step", 1}, {"metrics", {{"diverged", nullptr}}}});
    charts.event({{"event", "epoch"}, {"time_s", 0.25}, {"step", 1}, {"loss", nullptr}});
    charts.event({{"event", "rescale"}, {"time_s", 0.3}, {"step", 1}, {"pause_s", 0.01}});
    charts.event({{"event", "end"}, {"time_s", 0.4}});
    CHECK(charts.problem().empty());
  }
  const auto names = list_directory(folder.file("digits"));
  REQUIRE(names.size() == 1);
  CHECK(names[0].starts_with("events.out.tfevents."));
  const std::string bytes = read_file(folder.file("digits/" + names[0]), 1 << 20);
  for (const char* tag : {"loss/train", "train/learning_rate", "elastic/replicas",
                          "validation/accuracy", "gpu/busy_percent/replica_3", "elastic/pause_s"}) {
    INFO(tag);
    CHECK(bytes.find(tag) != bytes.npos);
  }
  // Numbers that are not finite have no point: a 0 would look like the best loss.
  for (const char* tag :
       {"gradient_noise_scale", "gpu/power_w", "validation/diverged", "loss/epoch"}) {
    INFO(tag);
    CHECK(bytes.find(tag) == bytes.npos);
  }
}

TEST_CASE("tables and wrapped text") {
  CHECK(table({"A", "LONG"}, {{"xyz", "1"}, {"y", "22"}}) == "A    LONG\nxyz  1\ny    22\n");
  CHECK(wrap("one two three", 9, 2) == "one two\n  three");
  CHECK(wrap("incomprehensibilities", 5, 0) == "incomprehensibilities");
  CHECK(wrap("", 5, 0).empty());
}

}  // namespace
}  // namespace adaptdl::cli
