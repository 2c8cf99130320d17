#include "core/launch/run/mirror_report.h"

#include <algorithm>
#include <fmt/format.h>
#include <signal.h>

#include "core/base/poll.h"

namespace adaptdl::launch {
namespace {

// How long the end waits for the last checkpoint on its way to the mirror, and after which time it
// says so.
constexpr std::chrono::seconds kLastUpload{300};
constexpr std::chrono::seconds kUntoldUpload{1};

}  // namespace

void MirrorReport::tell() {
  if (mirror_ == nullptr) return;
  for (const MirrorNews& news : mirror_->take_news()) {
    const bool failed = !news.error.empty();
    if (failed && fails_) continue;
    if (failed || fails_) {
      report_.talk(failed ? fmt::format("cannot send the checkpoint of step {} to {}: {}; training "
                                        "goes on, and the newest is tried again",
                                        news.step, mirror_->place(), news.error)
                          : fmt::format("sent the checkpoint of step {} to {}", news.step,
                                        mirror_->place()));
    }
    fails_ = failed;
    report_.mirror({.step = news.step,
                    .place = mirror_->place(),
                    .bytes = news.bytes,
                    .seconds = news.seconds,
                    .error = news.error});
  }
}

void MirrorReport::wait_for_last(SignalCatcher& signals, ControlServer& control) {
  if (mirror_ == nullptr) return;
  mirror_->finish();
  const TimePoint until = Monotonic::now() + kLastUpload;
  TimePoint patience = Monotonic::now() + kUntoldUpload;
  bool over = false;
  while (!over && !mirror_->done() && Monotonic::now() < until) {
    std::vector<pollfd> waits{{signals.fd(), POLLIN, 0}, {mirror_->fd(), POLLIN, 0}};
    control.add_waits(waits);
    poll_until(waits, std::min({until, patience, control.deadline()}));
    control.serve();
    tell();
    for (const int number : signals.take()) over = over || number != SIGCHLD;
    if (Monotonic::now() < patience) continue;
    patience = TimePoint::max();
    report_.talk(
        fmt::format("sending the last checkpoint to {}, for at most {} s; Ctrl-C ends "
                    "without it",
                    mirror_->place(), kLastUpload.count()));
  }
  tell();
  if (!mirror_->done() || fails_) {
    const int64_t newest = mirror_->newest_in_store();
    report_.talk(fmt::format(
        "the last checkpoint is not in {}, which has {}", mirror_->place(),
        newest < 0 ? std::string("none of this run") : fmt::format("that of step {}", newest)));
  }
}

}  // namespace adaptdl::launch
