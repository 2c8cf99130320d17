#include <algorithm>
#include <csignal>
#include <map>
#include <memory>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/frame/cluster_flags.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "cli/show/job_order.h"
#include "cli/show/keys.h"
#include "cli/show/screen.h"
#include "cli/show/top_view.h"
#include "core/base/log.h"
#include "core/base/poll.h"
#include "core/base/signals.h"

namespace adaptdl::cli {
namespace {

constexpr std::chrono::milliseconds kEscapePatience{50};

std::vector<JobRow> live_rows(JobQuery& query, double now_s) {
  std::vector<JobRow> rows;
  query.each_unfinished([&](const JobView& job) { rows.push_back(job_row(job, now_s, false)); });
  query.each_run([&](const launch::RunInfo& run) {
    if (run.live) rows.push_back(run_row(run, now_s, false));
  });
  return rows;
}

std::string head(JobQuery& query) {
  std::string text = query.headline();
  size_t number = 0;
  for (const auto& [gpu, load] : query.gpus()) text += "\n" + gpu_line(number++, gpu, load);
  return text;
}

TopLook terminal_look() {
  TopLook look;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
    if (size.ws_row > 0) look.height = size.ws_row;
    if (size.ws_col > 0) look.width = size.ws_col;
  }
  // On some terminals a full line moves the cursor to the next line.
  look.width = std::max<size_t>(look.width, 2) - 1;
  look.utf8 = is_utf8();
  return look;
}

// The display on a terminal. One thread.
class LiveTop {
 public:
  LiveTop(JobQuery& query, TopView view, Seconds interval, int64_t count)
      : query_(query),
        view_(std::move(view)),
        interval_(std::chrono::duration_cast<Monotonic::duration>(interval)),
        count_(count) {}

  // Returns when the user leaves, or one interval after the last of `count` updates (0: endless).
  // Afterwards the terminal is as it was, also after an error, and shows the last state.
  void run() {
    update();  // a cluster that is not reachable leaves the terminal alone
    {
      // Caught before the terminal changes, until it is restored.
      SignalCatcher signals({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH});
      Screen screen;
      for (bool stay = true; stay;) {
        if (Monotonic::now() >= next_) {
          if (count_ > 0 && updates_ == count_) break;
          update();
        }
        read_curve();
        screen.show(view_.lines(terminal_look()));
        wait(signals, screen);
        stay = take_signals(signals, screen) && take_keys(screen);
      }
    }
    print(view_.text());
  }

 private:
  // Later ones than the first keep the last state while the cluster does not answer.
  void update() {
    try {
      std::string above = head(query_);
      const double now_s = wall_now_s();
      rows_ = live_rows(query_, now_s);
      head_ = std::move(above);
      rows_s_ = now_s;
      view_.update(head_, rows_, rows_s_);
    } catch (const Error& error) {
      if (updates_ == 0 || error.exit_code() == ExitCode::auth) throw;
      view_.update(fmt::format("{}\nnot up to date, retrying: {}", head_, printable(error.what())),
                   rows_, rows_s_);
    }
    ++updates_;
    next_ = Monotonic::now() + interval_;
  }

  void read_curve() {
    const auto job = view_.charted_job();
    if (!job) return;
    const auto [reader, is_new] = readers_.try_emplace(*job);
    if (is_new) reader->second = query_.curve(*job);
    if (reader->second) view_.add_curve(reader->second->next());
  }

  void wait(const SignalCatcher& signals, const Screen& screen) {
    const TimePoint now = Monotonic::now();
    std::vector<pollfd> waits = {{signals.fd(), POLLIN, 0}, {screen.key_fd(), POLLIN, 0}};
    poll_until(waits, keys_.waits() ? std::min(next_, now + kEscapePatience) : next_);
    key_came_ = (waits[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
  }

  // False: leave.
  static bool take_signals(SignalCatcher& signals, Screen& screen) {
    for (const int number : signals.take()) {
      if (number == SIGWINCH) continue;  // each picture asks for the size
      if (number != SIGTSTP) return false;
      screen.leave();
      raise(SIGSTOP);  // until the shell continues this process
      screen.enter();
    }
    return true;
  }

  bool take_keys(Screen& screen) {
    const std::vector<int> keys = key_came_ ? keys_.take(screen.read_keys()) : keys_.expire();
    return std::all_of(keys.begin(), keys.end(), [&](int key) { return view_.key(key); });
  }

  JobQuery& query_;
  TopView view_;
  const Monotonic::duration interval_;
  const int64_t count_;
  std::string head_;  // of the last state that the cluster told, as what follows
  std::vector<JobRow> rows_;
  double rows_s_ = 0;
  int64_t updates_ = 0;
  TimePoint next_{};  // of the update that is due
  KeyReader keys_;
  bool key_came_ = false;
  std::map<std::string, std::unique_ptr<CurveReader>> readers_;  // null: the cluster keeps none
};

int run_top(const Arguments& arguments) {
  const double seconds = arguments.seconds("interval", 0.1, 86400);
  const int64_t count = arguments.given("count") ? arguments.integer("count") : 0;
  TopView view(std::string(arguments.text("sort")), arguments.flag("reverse"));
  const auto query = open_cluster(arguments).query;
  if (is_fancy(STDOUT_FILENO, arguments.flag("no-color"))) {
    LiveTop(*query, std::move(view), Seconds(seconds), count).run();
    return 0;
  }
  for (int64_t shown = 0; shown < std::max<int64_t>(count, 1); ++shown) {
    if (shown > 0) {
      print_line("");
      poll(nullptr, 0, static_cast<int>(seconds * 1000));
    }
    std::string above = head(*query);
    const double now_s = wall_now_s();
    view.update(std::move(above), live_rows(*query, now_s), now_s);
    print(view.text());
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
                .min = 1},
               {.name = "sort",
                .kind = Kind::choice,
                .value = "KEY",
                .fallback = job_orders().front(),
                .doc = "Order of the jobs: submitted, name, status, replicas, loss, done, left, "
                       "goodput or batch; those without the value come last.",
                .choices = job_orders()},
               {.name = "reverse", .doc = "Reverse the order."}}),
          .examples = {{"adaptdl top", "Watch until q or Ctrl-C."},
                       {"adaptdl top --sort left --count 1 | cat",
                        "Print the state once, the jobs that end soonest first."}},
          .run = run_top};
}

}  // namespace adaptdl::cli
