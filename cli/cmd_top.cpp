#include <csignal>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cluster_choice.h"
#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/jobs.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "core/base/number.h"
#include "core/base/system.h"
#include "core/cluster/local/machine.h"
#include "core/launch/signals.h"

namespace adaptdl::cli {
namespace {

std::string headline() {
  std::string line = "cluster local, ";
  if (!local::service_runs()) return line + "no service runs (`adaptdl serve`)";
  const Json hello = local::request_service({{"request", "hello"}});
  const auto slots = json_get<int64_t>(hello, "slots", "service");
  const auto free = json_get<int64_t>(hello, "slots_free", "service");
  line +=
      fmt::format("{} of {} in use, policy {}", slots - free,
                  local::slots_text(slots, json_get<std::string>(hello, "slot_kind", "service")),
                  json_get<std::string>(hello, "policy", "service"));
  const auto problem = json_get_or<std::string>(hello, "problem", "service", "");
  return problem.empty() ? line : line + "; " + problem;
}

std::string picture() {
  std::vector<JobRow> rows;
  const double now = wall_now_s();
  if (const auto store = local::open_store()) {
    store->unfinished([&](local::JobRecord& job) {
      rows.push_back(job_row(job, job_status(job, false), now, false));
    });
  }
  for (const launch::RunInfo& run : launch::list_runs()) {
    if (run.live) rows.push_back(run_row(run, now, false));
  }
  return headline() + "\n\n" +
         (rows.empty() ? "Nothing is pending, and nothing trains.\n"
                       : rows_table(std::move(rows), false));
}

int terminal_height(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

// The lines of `text` that fit onto the terminal, each cut off where it ends.
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

int live(Seconds interval, int64_t count) {
  const launch::SignalCatcher signals({SIGINT, SIGTERM, SIGHUP});
  print("\x1b[?1049h\x1b[?25l");  // a screen of its own, no cursor
  std::string last;
  try {
    for (int64_t shown = 0; count == 0 || shown < count; ++shown) {
      last = picture();
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

int run(const Arguments& arguments) {
  require_local_cluster(arguments);
  double seconds = 0;
  try {
    seconds = parse_duration(arguments.text("interval"), "--interval", 0.1, 86400);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  const int64_t count = arguments.given("count") ? arguments.integer("count") : 0;
  if (is_fancy(STDOUT_FILENO, arguments.flag("no-color"))) return live(Seconds(seconds), count);
  for (int64_t shown = 0; shown < std::max<int64_t>(count, 1); ++shown) {
    if (shown > 0) {
      print_line("");
      poll(nullptr, 0, static_cast<int>(seconds * 1000));
    }
    print(picture());
  }
  return 0;
}

}  // namespace

Command top_command() {
  return {.name = "top",
          .summary = "Watch jobs and runs that have not ended",
          .text = embedded("cmd_top.md"),
          .options = {{.name = "interval",
                       .kind = Kind::text,
                       .value = "DURATION",
                       .fallback = "1s",
                       .doc = "Time between two pictures."},
                      {.name = "count",
                       .kind = Kind::integer,
                       .value = "N",
                       .doc = "How many pictures. Default: until Ctrl-C; one if not on a terminal.",
                       .min = 1},
                      cluster_option()},
          .examples = {{"adaptdl top", "Until Ctrl-C."}},
          .run = run};
}

}  // namespace adaptdl::cli
