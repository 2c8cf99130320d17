#include <csignal>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/frame/cluster_flags.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "cli/show/jobs.h"
#include "core/base/signals.h"
#include "core/base/system.h"

namespace adaptdl::cli {
namespace {

std::string picture(JobQuery& query) {
  std::vector<JobRow> rows;
  const double now = wall_now_s();
  query.each_unfinished([&](const JobView& job) { rows.push_back(job_row(job, now, false)); });
  query.each_run([&](const launch::RunInfo& run) {
    if (run.live) rows.push_back(run_row(run, now, false));
  });
  return query.headline() + "\n\n" +
         (rows.empty() ? "No job is pending or training.\n"
                       : rows_table(rows, job_columns(rows, {.figures = true})));
}

int terminal_height(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

// The lines of `text` that fit on the terminal, each truncated to its width.
std::string fitted(const std::string& text, int width, int height) {
  std::string result;
  size_t start = 0;
  for (int line = 0; line < height - 1 && start < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', start), text.size());
    result += text.substr(start, std::min(end - start, static_cast<size_t>(width)));
    result += "\x1b[K\r\n";
    start = end + 1;
  }
  return result;
}

int live(JobQuery& query, Seconds interval, int64_t count) {
  const SignalCatcher signals({SIGINT, SIGTERM, SIGHUP});
  print("\x1b[?1049h\x1b[?25l");  // a screen of its own, no cursor
  std::string last;
  try {
    for (int64_t shown = 0; count == 0 || shown < count; ++shown) {
      last = picture(query);
      print("\x1b[H" + fitted(last, terminal_width(STDOUT_FILENO), terminal_height(STDOUT_FILENO)) +
            "\x1b[J");
      pollfd wake = {signals.fd(), POLLIN, 0};
      if (poll(&wake, 1, static_cast<int>(interval.count() * 1000)) > 0) break;
    }
  } catch (...) {
    print("\x1b[?25h\x1b[?1049l");
    throw;
  }
  print("\x1b[?25h\x1b[?1049l" + last);
  return 0;
}

int run_top(const Arguments& arguments) {
  const double seconds = arguments.seconds("interval", 0.1, 86400);
  const int64_t count = arguments.given("count") ? arguments.integer("count") : 0;
  const auto query = open_cluster(arguments).query;
  if (is_fancy(STDOUT_FILENO, arguments.flag("no-color"))) {
    return live(*query, Seconds(seconds), count);
  }
  for (int64_t shown = 0; shown < std::max<int64_t>(count, 1); ++shown) {
    if (shown > 0) {
      print_line("");
      poll(nullptr, 0, static_cast<int>(seconds * 1000));
    }
    print(picture(*query));
  }
  return 0;
}

}  // namespace

Command top_command() {
  return {.name = "top",
          .summary = "Watch live jobs and runs",
          .text = embedded("top.md"),
          .options = with_cluster(
              {{.name = "interval",
                .kind = Kind::text,
                .value = "DURATION",
                .fallback = "1s",
                .doc = "Time between two updates."},
               {.name = "count",
                .kind = Kind::integer,
                .value = "N",
                .doc = "Number of updates. Default: until Ctrl-C; 1 without a terminal.",
                .min = 1}}),
          .examples = {{"adaptdl top", "Watch until Ctrl-C."}},
          .run = run_top};
}

}  // namespace adaptdl::cli
