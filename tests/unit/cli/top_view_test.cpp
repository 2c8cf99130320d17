#include "cli/show/top_view.h"

#include <doctest/doctest.h>

#include "cli/show/job_order.h"
#include "cli/show/keys.h"

namespace adaptdl::cli {
namespace {

constexpr TopLook kLook{80, 24, false};

JobRow row(const std::string& name, double step = 0, double loss = 0) {
  JobView job;
  job.name = name;
  job.phase = "Running";
  job.replicas = 1;
  if (step > 0) job.status = {{"step", step}, {"loss", loss}, {"goodput", 100 + step}};
  return job_row(job, 60, false);
}

std::vector<JobRow> rows_of(const std::string& names) {
  std::vector<JobRow> rows;
  for (const char name : names) rows.push_back(row(std::string(1, name)));
  return rows;
}

TopView list(const std::string& names) {
  TopView view("submitted", false);
  view.update("cluster local", rows_of(names), 0);
  return view;
}

// The name in the selected row.
std::string selected(const TopView& view, const TopLook& look = kLook) {
  for (const std::string& line : view.lines(look)) {
    if (line.starts_with("\x1b[7m")) return line.substr(4, line.find(' ') - 4);
  }
  return "";
}

std::string shown(const TopView& view, const TopLook& look = kLook) {
  std::string text;
  for (const std::string& line : view.lines(look)) text += line + "\n";
  return text;
}

bool says(const TopView& view, const std::string& text) {
  return shown(view).find(text) != std::string::npos;
}

TEST_CASE("GPUs are listed above the jobs") {
  TopView view("submitted", false);
  view.update("cluster local\nGPU 0\nGPU 1", rows_of("abcdefgh"), 0);
  CHECK(selected(view) == "a");
  CHECK(shown(view).starts_with("cluster local\nGPU 0\nGPU 1\n\nNAME"));
  for (int i = 0; i < 7; ++i) view.key('j');
  CHECK(selected(view, {.width = 60, .height = 9}) == "h");  // scrolled below them

  const Gpu gpu{.name = "NVIDIA H200", .memory_bytes = 150ull << 30};
  CHECK(gpu_line(1, gpu, {}) == "GPU 1  NVIDIA H200");
  const GpuLoad load{
      .memory_used_bytes = 34ull << 30, .busy_percent = 87, .temperature_c = 61, .power_w = 512.3};
  CHECK(gpu_line(0, gpu, load) ==
        "GPU 0  NVIDIA H200  87 % busy  34.0 GiB of 150.0 GiB  61 C  512 W");
}

TEST_CASE("what a cluster's objects say controls no terminal") {
  TopView view("submitted", false);
  JobRow hostile = row("a");
  hostile.status =
      "Pending (\x1b]0;title\x07 \xc2\x9b"
      "31m)";
  hostile.epoch = "\x7f";
  view.update("cluster local", {hostile}, 0);
  view.key(kKeyEnter);
  const std::string text = shown(view);
  CHECK(text.starts_with("a  job  Pending ( ]0;title    31m)"));
  for (const char* control : {"\x1b", "\x07", "\xc2\x9b", "\x7f"}) {
    CHECK(text.find(control) == std::string::npos);
  }
}

TEST_CASE("the selection moves within the list") {
  TopView view = list("abc");
  CHECK(selected(view) == "a");
  view.key(kKeyUp);
  CHECK(selected(view) == "a");
  view.key('j');
  CHECK(selected(view) == "b");
  view.key(kKeyDown);
  view.key(kKeyDown);
  CHECK(selected(view) == "c");
  view.key('k');
  CHECK(selected(view) == "b");
  view.key('G');
  CHECK(selected(view) == "c");
  view.key(kKeyHome);
  CHECK(selected(view) == "a");
}

TEST_CASE("the selection stays with its job") {
  TopView view = list("abc");
  view.key('j');
  view.update("", rows_of("xybc"), 1);
  CHECK(selected(view) == "b");
  view.update("", rows_of("xyc"), 2);  // the next one takes the place of a job that is gone
  CHECK(selected(view) == "c");
  view.update("", {}, 3);
  CHECK(selected(view) == "");
  CHECK(says(view, "No job is pending or training."));
  for (const int key : {kKeyUp, kKeyDown, kKeyEnter, int{'G'}, int{'s'}}) {
    CHECK(view.key(key));
  }
  CHECK_FALSE(view.charted_job());
  view.update("", rows_of("ab"), 4);
  CHECK_FALSE(selected(view).empty());
}

TEST_CASE("a long list scrolls to the selected row") {
  TopView view = list("abcdefghijklmnopqrstuvwxyz");
  for (const size_t height : {6, 10, 24}) {
    const TopLook look{80, height, false};
    view.key(kKeyHome);
    for (int i = 0; i < 26; ++i) {
      CHECK(selected(view, look) == std::string(1, static_cast<char>('a' + i)));
      CHECK(view.lines(look).size() <= height);
      view.key('j');
    }
  }
}

TEST_CASE("sorting by key") {
  TopView view = list("cab");
  view.key('j');
  CHECK(says(view, "s sort (submitted)"));
  view.key('s');
  CHECK(says(view, "s sort (name)"));
  CHECK(shown(view).find("\nb") > shown(view).find("\x1b[7ma"));
  CHECK(selected(view) == "a");
  view.key('r');
  CHECK(says(view, "s sort (name, reversed)"));
  CHECK(view.text().find("\nc") < view.text().find("\nb"));
  for (size_t i = 0; i + 1 < job_orders().size(); ++i) view.key('s');
  CHECK(says(view, "s sort (submitted, reversed)"));
}

TEST_CASE("a chart of what was seen, and back") {
  TopView view("submitted", false);
  for (int i = 1; i <= 5; ++i) view.update("", {row("a", i, 1.0 / i), row("b")}, i);
  CHECK(view.key(kKeyEnter));
  CHECK(view.charted_job() == "a");
  CHECK(says(view, "a  job  Running"));
  CHECK_FALSE(says(view, "GPUs"));
  CHECK(says(view, "loss: 0.2"));
  CHECK(says(view, "goodput (samples/s): 105"));
  CHECK(says(view, "steps 1 to 5 (seen since this command began)"));
  CHECK(says(view, "*"));
  CHECK(view.key('q'));
  CHECK_FALSE(view.charted_job());
  CHECK(selected(view) == "a");
  view.key('j');
  view.key(kKeyEnter);
  CHECK(says(view, "loss: no values yet"));
  CHECK(view.key(kKeyEscape));
  CHECK_FALSE(view.key('q'));
}

TEST_CASE("above a chart stands what the job's GPUs do") {
  TopView view("submitted", false);
  JobView job;
  job.name = "a";
  job.phase = "Running";
  job.replicas = 1;
  job.status = {{"gpu_busy_percent", 86.5}, {"gpu_temperature_c", 61}, {"gpu_power_w", nullptr}};
  view.update("", {job_row(job, 60, false)}, 0);
  view.key(kKeyEnter);
  CHECK(says(view, "GPUs 86 % busy, 61 C  age"));
}

TEST_CASE("a job's own curve replaces what was seen") {
  TopView view("submitted", false);
  view.update("", {row("a", 50, 0.5)}, 1);
  view.key(kKeyEnter);
  view.add_curve({});
  CHECK(says(view, "since this command began"));
  view.add_curve({{1, 1, 2.0, 10}, {2, 2, 1.0, 20}});
  CHECK(says(view, "steps 1 to 2\n"));
  view.update("", {row("a", 51, 0.25)}, 2);
  view.add_curve({{3, 60, 0.75, 30}});
  CHECK(says(view, "steps 1 to 60\n"));
  CHECK(says(view, "loss: 0.75"));
  view.update("", {}, 3);
  CHECK(says(view, "a  job  ended or gone"));
  CHECK(says(view, "steps 1 to 60\n"));
}

TEST_CASE("a job without steps is charted by time") {
  TopView view("submitted", false);
  JobRow some = row("a");
  for (int i = 0; i < 90; ++i) {
    some.training.goodput = 100 + i;
    view.update("", {some}, 1000 + i);
  }
  view.key(kKeyEnter);
  CHECK(says(view, "the last 1m29s"));
}

TEST_CASE("nothing exceeds the terminal") {
  TopView view("submitted", false);
  view.update(std::string(200, 'h'), {row(std::string(100, 'n'), 5, 0.5), row("b")}, 1);
  for (const bool chart : {false, true}) {
    if (chart) view.key(kKeyEnter);
    for (const size_t width : {1, 5, 20, 79, 200}) {
      for (const size_t height : {1, 2, 5, 8, 24, 80}) {
        const auto lines = view.lines({width, height, false});
        CHECK(lines.size() <= height);
        for (std::string line : lines) {
          if (line.starts_with("\x1b[7m")) line = line.substr(4, line.size() - 8);
          CHECK(line.size() <= width);
        }
      }
    }
  }
}

TEST_CASE("curves of jobs that are gone are forgotten") {
  TopView view("submitted", false);
  view.update("", {row("a", 1, 0.5)}, 1);
  view.update("", {}, 2);
  view.update("", {row("a", 9, 0.25)}, 3);
  view.key(kKeyEnter);
  CHECK(says(view, "steps 9 to 9"));
}

}  // namespace
}  // namespace adaptdl::cli
