#include "cli/show/progress.h"

#include <doctest/doctest.h>

namespace adaptdl::cli {
namespace {

Json step(int64_t number, double time_s) {
  return {{"event", "step"},
          {"time_s", time_s},
          {"step", number},
          {"epoch", number / 50.0},
          {"progress", number},
          {"progress_total", 1000},
          {"loss", 0.5},
          {"replicas", 3},
          {"batch", 192},
          {"lr", 0.0123},
          {"samples_per_s", 12345.0},
          {"goodput", 9876.0}};
}

RunState trained() {
  RunState state;
  state.apply({{"event", "start"}, {"time_s", 0.0}, {"name", "digits"}, {"replicas", 3}});
  state.apply({{"event", "batch"},
               {"time_s", 0.5},
               {"replicas", 3},
               {"atomic", 32},
               {"accumulation", 1},
               {"batch", 192},
               {"lr", 0.0123}});
  for (int i = 0; i <= 370; ++i) state.apply(step(i, 1.0 + 0.1 * i));
  return state;
}

// Columns that the line takes: neither escape sequences nor the rest of a UTF-8 character count.
size_t columns(const std::string& line) {
  size_t count = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      while (i < line.size() && line[i] != 'm') ++i;
    } else if ((static_cast<unsigned char>(line[i]) & 0xC0) != 0x80) {
      ++count;
    }
  }
  return count;
}

TEST_CASE("the display of a run under way") {
  const auto lines = display_lines(trained(), {.width = 80});
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] ==
        "epoch 8/20  =============----------------------   37 %  loss 0.5  1 m 03 s left");
  CHECK(lines[1] == "12.3k samples/s  goodput 9.88k/s  batch 3x32x2=192  lr 0.0123");
}

TEST_CASE("no line ever reaches the terminal's edge") {
  for (const RunState& state : {RunState(), trained()}) {
    for (int width = 0; width < 200; ++width) {
      for (const Look& look : {Look{width, false, false}, Look{width, true, true}}) {
        for (const std::string& line : display_lines(state, look)) {
          INFO(width << ": " << line);
          CHECK(columns(line) < static_cast<size_t>(std::max(width, 1)));
        }
      }
    }
  }
}

TEST_CASE("time left follows the progress, pauses included") {
  RunState state = trained();
  REQUIRE(state.seconds_left());
  CHECK(*state.seconds_left() == doctest::Approx(63.0).epsilon(0.02));
  RunState fresh;
  CHECK_FALSE(fresh.seconds_left());
  fresh.apply(step(0, 1.0));
  CHECK_FALSE(fresh.seconds_left());
}

TEST_CASE("log lines") {
  const RunState state = trained();
  CHECK(event_line(state,
                   {{"event", "rescale"},
                    {"time_s", 12.34},
                    {"from", 1},
                    {"to", 3},
                    {"cause", "scale"},
                    {"pause_s", 0.1234}},
                   true) ==
        "    12.3 s  replicas 1 -> 3: requested by adaptdl scale; paused 0.123 s");
  CHECK(
      event_line(state,
                 {{"event", "rescale"}, {"time_s", 1.0}, {"from", 1}, {"to", 2}, {"cause", "new"}},
                 true) == "     1.0 s  replicas 1 -> 2: new");
  CHECK(event_line(state,
                   {{"event", "batch"},
                    {"time_s", 13.0},
                    {"replicas", 2},
                    {"atomic", 64},
                    {"accumulation", 0},
                    {"batch", 128},
                    {"lr", 0.01},
                    {"cause", "shared among 2 replicas"}},
                   true) ==
        "    13.0 s  batch 192 -> 128 (2 x 64 x 1), learning rate 0.0123 -> 0.01: shared among 2 "
        "replicas");
  CHECK(event_line(state,
                   {{"event", "failure"},
                    {"time_s", 20.0},
                    {"member", 4},
                    {"reason", "killed by signal 9"},
                    {"next", "2 go on"}},
                   true) == "    20.0 s  replica 4: killed by signal 9; 2 go on");
  CHECK(event_line(state, step(1, 1.0), false).empty());
}

TEST_CASE("lines on progress are few, however many events there are") {
  RunState state;
  ProgressLines lines;
  std::vector<std::string> said;
  std::vector<double> times;
  const auto take = [&](const Json& event) {
    state.apply(event);
    const std::string line = lines.event(state, event);
    if (line.empty()) return;
    said.push_back(line);
    times.push_back(event["time_s"]);
  };
  take({{"event", "start"}, {"time_s", 0.0}, {"name", "digits"}, {"replicas", 3}});
  for (int i = 1; i <= 990; ++i) {  // ten times a second, an epoch every 5 s, then every minute
    const double time_s = i <= 900 ? 0.1 * i : 90.0 + 60.0 * (i - 900);
    take(step(i, time_s));
    if (i % 50 != 0) continue;
    take({{"event", "epoch"}, {"time_s", time_s}, {"epoch", i / 50}, {"loss", 0.25}});
    take({{"event", "validation"}, {"time_s", time_s}, {"metrics", {{"accuracy", 0.975}}}});
  }
  REQUIRE(times.size() > 8);
  CHECK(times[0] == doctest::Approx(10.0));
  CHECK(times[7] == doctest::Approx(80.0));
  for (size_t i = 1; i < times.size(); ++i) {
    CHECK(times[i] - times[i - 1] > std::max(9.99, 0.01 * times[i - 1]));
  }
  CHECK(said[1] ==
        "    20.0 s  epoch 5/20, 20 %, loss 0.5, validation (accuracy 0.975), 12.3k samples/s, "
        "goodput 9.88k/s, 1 m 20 s left");
  RunState idle;
  CHECK(ProgressLines().event(idle, {{"event", "failure"}, {"time_s", 99.0}}).empty());
}

TEST_CASE("generations and checkpoints are shown to those who want more") {
  const Json checkpoint = {{"event", "checkpoint"}, {"time_s", 3.0}, {"step", 50},
                           {"path", "x"},           {"bytes", 2048}, {"seconds", 0.05}};
  CHECK(event_line(trained(), checkpoint, true).empty());
  CHECK(event_line(trained(), checkpoint, true, true) ==
        "     3.0 s  checkpoint of step 50: 2.0 KiB in 50.0 ms");
  const Json failed = {
      {"event", "checkpoint"}, {"time_s", 3.0}, {"step", 50}, {"error", "no space left"}};
  CHECK(event_line(trained(), failed, true) == "     3.0 s  checkpoint failed: no space left");
}

TEST_CASE("a batch event that changes nothing gets no line") {
  const Json same = {{"event", "batch"},  {"time_s", 13.0}, {"replicas", 3}, {"atomic", 32},
                     {"accumulation", 1}, {"batch", 192},   {"lr", 0.0123}};
  CHECK(event_line(trained(), same, true).empty());
}

TEST_CASE("the summary") {
  RunState state = trained();
  state.apply({{"event", "validation"}, {"time_s", 39.0}, {"metrics", {{"accuracy", 0.975}}}});
  state.apply({{"event", "end"},
               {"time_s", 40.0},
               {"result", "finished"},
               {"steps", 370},
               {"seconds", 40.0},
               {"rescales", 2},
               {"lost_s", 0.25},
               {"model", "/x/model.pt"}});
  CHECK(summary(state).find("  loss        0.5\n") != std::string::npos);
  state.apply({{"event", "epoch"}, {"time_s", 40.0}, {"epoch", 8}, {"loss", 0.25}});
  CHECK(summary(state) ==
        "digits: finished, 370 steps in 40.0 s\n"
        "  loss        0.25\n"
        "  validation  accuracy 0.975\n"
        "  model       /x/model.pt\n"
        "  rescales    2, which cost 0.250 s of training\n");
}

TEST_CASE("the summary says where logs and curves are") {
  RunState state;
  state.apply({{"event", "start"}, {"name", "digits"}, {"log_dir", "/x/logs"}});
  state.apply({{"event", "end"}, {"result", "failed"}});
  CHECK(summary(state) == "digits: failed\n  logs        /x/logs\n");
  state.charts_dir = "/x/my charts";
  CHECK(summary(state) ==
        "digits: failed\n"
        "  logs        /x/logs\n"
        "  curves      /x/my charts\n"
        "              show them with: tensorboard --logdir '/x/my charts'\n");
  RunState again;  // of a run that had ended before: there is no start
  again.apply({{"event", "end"}, {"already", true}, {"log_dir", "/y/logs"}});
  CHECK(summary(again).find("  logs        /y/logs\n") != std::string::npos);
}

TEST_CASE("the summary says why training ended early, and which model is the best") {
  RunState state = trained();
  Json end = {
      {"event", "end"},
      {"time_s", 40.0},
      {"result", "finished"},
      {"reason", "max_steps: 370 steps are done"},
      {"best", {{"metric", "accuracy"}, {"value", 0.98}, {"step", 300}, {"model", "/x/best.pt"}}},
      {"steps", 370}};
  CHECK(event_line(state, end, false) == "    40.0 s  finished; max_steps: 370 steps are done");
  state.apply(end);
  const std::string text = summary(state);
  CHECK(text.find("  best        accuracy 0.98 at step 300, /x/best.pt\n") != std::string::npos);
  CHECK(text.find("  ended by    max_steps: 370 steps are done\n") != std::string::npos);
  end["best"]["model"] = nullptr;
  state.apply(end);
  CHECK(summary(state).find("at step 300, not saved\n") != std::string::npos);
  CHECK(event_line(state,
                   {{"event", "validation"}, {"time_s", 1.0}, {"step", 5}, {"error", "disk full"}},
                   true) == "     1.0 s  the best model, of step 5, is not saved: disk full");
}

TEST_CASE("an evaluation ends with a table of its metrics") {
  RunState state;
  const Json start = {{"event", "start"},      {"time_s", 0.0}, {"name", "digits"},
                      {"program", "train.pt"}, {"replicas", 2}, {"evaluate", true}};
  CHECK(event_line(state, start, false) == "     0.0 s  evaluating train.pt with 2 replicas");
  state.apply(start);
  CHECK(display_lines(state, {})[0] == "evaluating with 2 replicas ...");
  Json end = {{"event", "end"},
              {"result", "finished"},
              {"steps", 400},
              {"model", "/x/step-400"},
              {"validation", {{"loss", 0.1234567}, {"accuracy", 1}}}};
  state.apply(end);
  CHECK(evaluation(state) ==
        "digits: evaluated /x/step-400, step 400\n"
        "METRIC    VALUE\n"
        "accuracy  1\n"
        "loss      0.123457\n");
  end["steps"] = 0;
  state.apply(end);
  CHECK(evaluation(state).starts_with("digits: evaluated /x/step-400\n"));
}

TEST_CASE("weights from elsewhere are told, with the names of what they are not used for") {
  Json event = {{"event", "warm_start"}, {"time_s", 1.0},         {"path", "/x/model.pt"},
                {"tensors", 1},          {"kept", Json::array()}, {"skipped", Json::array()}};
  CHECK(event_line(RunState(), event, true) == "     1.0 s  starting from /x/model.pt: 1 tensor");
  event["tensors"] = 7;
  event["kept"] = {"a", "b", "c", "d", "e"};
  event["skipped"] = {"old"};
  CHECK(event_line(RunState(), event, true) ==
        "     1.0 s  starting from /x/model.pt: 7 tensors; not in the file: a, b, c, d, ... (5); "
        "not used: old");
}

TEST_CASE("events of other versions or shapes do no harm") {
  RunState state = trained();
  for (const char* text :
       {"[]", "{}", "{\"event\":7}", "{\"event\":\"new\"}", "{\"event\":\"step\",\"loss\":null}",
        "{\"event\":\"batch\",\"atomic\":\"x\"}", "{\"event\":\"validation\",\"metrics\":[1]}",
        "{\"event\":\"start\",\"replicas\":2.5,\"name\":{}}", "{\"event\":\"end\",\"model\":null}",
        "{\"event\":\"end\",\"best\":[1]}"}) {
    const Json event = Json::parse(text);
    event_line(state, event, false);
    state.apply(event);
    display_lines(state, {});
    summary(state);
  }
  CHECK(state.loss == doctest::Approx(0.5));
}

TEST_CASE("lines about slow networks") {
  Json event = {{"event", "slow_link"},  {"time_s", 9.0},
                {"member", 2},           {"host", "node7"},
                {"peer", nullptr},       {"peer_host", nullptr},
                {"bytes_per_s", 12.5e6}, {"others_bytes_per_s", 125e6},
                {"factor", 10.0},        {"waited", 0.41}};
  const auto line = [&](const char* state) {
    event["state"] = state;
    return event_line({}, event, true);
  };
  const std::string rest =
      " is slow: 12.5 MB/s, where the others have 125 MB/s (10.0 times as much) and wait 41 % "
      "of the "
      "time";
  CHECK(line("slow") == "     9.0 s  the network of node7" + rest);
  CHECK(line("of a later version").empty());
  event["peer"] = 5;
  event["peer_host"] = "node3";
  CHECK(line("changed") == "     9.0 s  the network between node7 and node3" + rest);
  CHECK(line("over") ==
        "     9.0 s  the network between node7 and node3 is as fast as the others again");
  CHECK(line("gone") ==
        "     9.0 s  the network between node7 and node3, which was slow, is not used any more");
  event["host"] = nullptr;  // it has left
  CHECK(line("over") ==
        "     9.0 s  the network between the host of replica 2 and node3 is as fast as the others "
        "again");
  event["bytes_per_s"] = -1e300;
  event["others_bytes_per_s"] = 1e300;
  CHECK(!line("slow").empty());
}

TEST_CASE("lines about stragglers") {
  Json event = {{"event", "straggler"},
                {"time_s", 9.0},
                {"state", "slow"},
                {"member", 2},
                {"host", "node7"},
                {"sample_s", 0.003},
                {"factor", 2.5},
                {"waited", 0.41},
                {"others_sample_s", 0.0012},
                {"by", 5},
                {"reason", "so it is"},
                {"samples_per_s", 2000.0},
                {"samples_per_s_before", 1000.0}};
  const std::string slow =
      "     9.0 s  replica 2 on node7 is slow: 3 ms for a sample, 2.5 times the median of the "
      "others "
      "(1.2 ms), which wait for it 41 % of the time";
  const std::pair<const char*, std::string> lines[] = {
      {"slow", slow},
      {"changed", slow},
      {"over", "     9.0 s  replica 2 on node7 is as fast as the others again"},
      {"gone", "     9.0 s  replica 2 on node7, which was slow, has left"},
      {"replacing", "     9.0 s  replica 2 on node7 is replaced, because it is slow"},
      {"replaced",
       "     9.0 s  replica 5 took the place of replica 2 on node7, which was slow: 1.00k -> 2.00k "
       "samples/s"},
      {"kept", "     9.0 s  replica 2 on node7 is not replaced, although it is slow: so it is"},
      {"of a later version", ""}};
  for (const auto& [state, line] : lines) {
    event["state"] = state;
    CHECK(event_line({}, event, true) == line);
  }
}

}  // namespace
}  // namespace adaptdl::cli
