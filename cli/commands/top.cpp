#include <algorithm>
#include <cerrno>
#include <csignal>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/frame/cluster_flags.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "cli/show/job_order.h"
#include "cli/show/keys.h"
#include "cli/show/screen.h"
#include "cli/show/top_view.h"
#include "core/base/cancellation.h"
#include "core/base/fd.h"
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

// The state at one moment.
struct TopState {
  std::string head;
  double now_s = 0;
  std::vector<JobRow> rows;
};
TopState top_state(JobQuery& query) {
  TopState state{.head = head(query), .now_s = wall_now_s(), .rows = {}};
  state.rows = live_rows(query, state.now_s);
  return state;
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

// The display on a terminal. Only the query is used by a second thread: keys and signals work also
// while the cluster does not answer.
class LiveTop {
 public:
  // `leave`: ends the query's requests.
  LiveTop(JobQuery& query, Cancellation& leave, TopView view, Seconds interval, int64_t count)
      : query_(query),
        leave_(leave),
        view_(std::move(view)),
        interval_(std::chrono::duration_cast<Monotonic::duration>(interval)),
        count_(count),
        answer_came_(eventfd(0, EFD_CLOEXEC)) {
    if (!answer_came_) fail_errno(errno, "cannot watch the cluster");
  }
  LiveTop(const LiveTop&) = delete;
  LiveTop& operator=(const LiveTop&) = delete;
  ~LiveTop() { leave_.cancel(); }  // then waits for the second thread

  // Returns when the user leaves, or one interval after the last of `count` updates (0: endless).
  // Afterwards the terminal is as it was, also after an error, and shows the last state.
  void run() {
    // A cluster that is not reachable leaves the terminal alone, and Ctrl-C is as elsewhere.
    take([&] { return top_state(query_); });
    {
      // Caught before the terminal changes, until it is restored.
      SignalCatcher signals({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH});
      Screen screen;
      for (bool stay = true; stay;) {
        if (std::exchange(has_answer_, false)) take([&] { return answer_.get(); });
        if (!answer_.valid()) {
          if (Monotonic::now() >= next_) {
            if (count_ > 0 && updates_ == count_) break;
            start_update();
          } else {
            read_curve();
          }
        }
        screen.show(view_.lines(terminal_look()));
        wait(signals, screen);
        stay = take_signals(signals, screen) && take_keys(screen);
      }
    }
    print(view_.text());
  }

 private:
  void start_update() {
    answer_ = std::async(std::launch::async, [this] {
      struct Bell {
        int fd;
        ~Bell() { eventfd_write(fd, 1); }
      };
      const Bell rings_at_the_end{answer_came_.get()};
      return top_state(query_);
    });
  }

  // Later ones than the first keep the last state while the cluster does not answer.
  void take(const std::function<TopState()>& next) {
    try {
      TopState state = next();
      last_ = std::move(state);
      view_.update(last_.head, last_.rows, last_.now_s);
    } catch (const Error& error) {
      if (updates_ == 0 || error.exit_code() == ExitCode::auth) throw;
      view_.update(
          fmt::format("{}\nnot up to date, retrying: {}", last_.head, printable(error.what())),
          last_.rows, last_.now_s);
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
    std::vector<pollfd> waits = {
        {signals.fd(), POLLIN, 0}, {screen.key_fd(), POLLIN, 0}, {answer_came_.get(), POLLIN, 0}};
    const TimePoint due = answer_.valid() ? TimePoint::max() : next_;
    poll_until(waits, keys_.waits() ? std::min(due, now + kEscapePatience) : due);
    key_came_ = (waits[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
    has_answer_ = (waits[2].revents & POLLIN) != 0;
    eventfd_t rung = 0;
    if (has_answer_) eventfd_read(answer_came_.get(), &rung);
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
  Cancellation& leave_;
  TopView view_;
  const Monotonic::duration interval_;
  const int64_t count_;
  TopState last_;  // that the cluster told
  int64_t updates_ = 0;
  TimePoint next_{};  // of the update that is due
  KeyReader keys_;
  bool key_came_ = false;
  std::map<std::string, std::unique_ptr<CurveReader>> readers_;  // null: the cluster keeps none
  Fd answer_came_;
  bool has_answer_ = false;
  std::future<TopState> answer_;  // valid during an update; at the end waits for its thread
};

int run_top(const Arguments& arguments) {
  const double seconds = arguments.seconds("interval", 0.1, 86400);
  const int64_t count = arguments.given("count") ? arguments.integer("count") : 0;
  TopView view(std::string(arguments.text("sort")), arguments.flag("reverse"));
  Cancellation leave;
  const auto query = open_cluster(arguments, &leave).query;
  if (is_fancy(STDOUT_FILENO, arguments.flag("no-color"))) {
    LiveTop(*query, leave, std::move(view), Seconds(seconds), count).run();
    return 0;
  }
  for (int64_t shown = 0; shown < std::max<int64_t>(count, 1); ++shown) {
    if (shown > 0) {
      print_line("");
      poll(nullptr, 0, static_cast<int>(seconds * 1000));
    }
    TopState state = top_state(*query);
    view.update(std::move(state.head), std::move(state.rows), state.now_s);
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
