#include "core/sim/plot.h"

#include <doctest/doctest.h>

#include "tests/unit/base/expect_error.h"

using namespace adaptdl;

namespace {

// Whether every tag of the text is closed, in order. Knows elements only, which is all plots have.
bool well_formed(const std::string& text) {
  std::vector<std::string> open;
  for (size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const size_t end = text.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = text.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos) return false;
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
  }
  return open.empty();
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

PlotRun sample_run(const std::string& policy) {
  PlotRun run{.policy = policy, .gpus = 4};
  run.jobs = {{.name = "x", .application = "one", .completed_s = 50, .jct_s = 50},
              {.name = "y", .application = "two", .completed_s = 400, .jct_s = 350},
              {.name = "waits", .application = "two"}};
  run.spans = {{0, "x", 0, 50}, {1, "y", 50, 400}, {2, "y", 50, 400}};
  return run;
}

}  // namespace

TEST_CASE("a plot is well-formed, with a bar for each span and a curve for each run") {
  const std::string svg = plot_svg({sample_run("pollux"), sample_run("fixed")});
  CHECK(svg.starts_with("<svg xmlns"));
  CHECK(well_formed(svg));
  CHECK(count(svg, "<title>") == 6);
  CHECK(count(svg, "<polyline") == 2);
  CHECK(contains(svg, "pollux: GPUs by job"));
  CHECK(contains(svg, ">one</text>"));
  CHECK_FALSE(contains(svg, "nan"));
  CHECK_FALSE(contains(svg, "inf"));
}

TEST_CASE("bars of jobs that have not completed stay within the plot") {
  PlotRun run = sample_run("pollux"), nothing = run;
  run.spans.push_back({3, "waits", 100, 1e6});
  nothing.jobs = {{.name = "waits", .application = "two"}};
  nothing.spans = {{3, "waits", 100, 1e6}};
  for (const PlotRun& one : {run, nothing}) {
    const std::string svg = plot_svg({one}), bar = "<rect x=\"";
    CHECK(contains(svg, "waits 100-1000000 s"));
    for (size_t at = svg.find(bar); at != std::string::npos; at = svg.find(bar, at + 1)) {
      CHECK(std::stod(svg.substr(at + bar.size())) < 960);  // the picture's width
    }
  }
}

TEST_CASE("names are escaped") {
  PlotRun run = sample_run("a<b> & c");
  run.jobs[0].name = run.spans[0].job = "x</title>\x01";
  const std::string svg = plot_svg({run});
  CHECK(well_formed(svg));
  CHECK(contains(svg, "a&lt;b&gt; &amp; c"));
  CHECK(contains(svg, "x&lt;/title&gt; "));
}

TEST_CASE("a plot of nothing is a picture still") {
  CHECK(well_formed(plot_svg({})));
  CHECK(well_formed(plot_svg({{.policy = "idle", .gpus = 2}})));
}
