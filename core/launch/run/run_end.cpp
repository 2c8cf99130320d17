#include "core/launch/run/run_end.h"

#include <algorithm>

#include "core/base/error.h"

namespace adaptdl::launch {

namespace {

// Time for the other replicas' last messages when one of them ends the run.
constexpr std::chrono::seconds kFailurePatience{2};
// After the training, until the user is told what the run waits for.
constexpr std::chrono::seconds kMainUntold{5};

}  // namespace

void RunEnd::begin(Ending ending) {
  const TimePoint now = Monotonic::now();
  view_.stopping = true;
  const bool finished = ending.result == "finished";
  const bool anybody = view_.trained() > 0;
  const bool in_time = finished || (ending.checkpoint && anybody);
  if (!in_time && !anybody) ending.checkpoint = false;
  const bool recorded = ending_.has_value();
  ending_ = std::move(ending);
  begun_at_ = now;
  kill_at_ = time_after(now, in_time ? grace() : Seconds(kFailurePatience));
  if (!ending_->checkpoint) ending_->repair = false;
  if (!finished && !recorded) report_.record("stopping", {.step = stream_.last_step()});
  const Generation* pending = view_.pending ? view_.generation(*view_.pending) : nullptr;
  for (const auto& [id, replica] : replicas_.all()) {
    const bool member = view_.current.holds(id) || (pending != nullptr && pending->holds(id));
    if (!member && !replica->said_bye) {
      replicas_.kill(*replica);
    } else if (ending_->checkpoint) {
      replicas_.ask_to_stop(*replica, ending_->exit);
    }
  }
  if (!in_time && ending_->result != "failed") kill_all();
}

void RunEnd::at_once() {
  kill_all();
  ending_->checkpoint = false;
}

void RunEnd::kill_all() {
  replicas_.kill_all();
  ending_->repair = false;
  kill_at_ = TimePoint::max();
}

bool RunEnd::in_main() const {
  const auto& all = replicas_.all();
  return is("finished") &&
         std::any_of(all.begin(), all.end(), [](const auto& entry) { return entry.second->led; });
}

void RunEnd::main_ended(const char* result, int exit, std::string reason) {
  main_ended_ = {.result = result,
                 .exit = exit,
                 .reason = std::move(reason),
                 .last_words = std::string_view(result) == "failed"};
}

TimePoint RunEnd::deadline() const {
  if (in_main() && !told_of_main_) return time_after(begun_at_, kMainUntold);
  if (!ending_ || kill_at_ == TimePoint::max() || !together()) return kill_at_;
  if (view_.saving()) return std::max(kill_at_, time_after(begun_at_, kLongestSave));
  return std::max(kill_at_, time_after(view_.saved_at, grace()));
}

void RunEnd::check() {
  if (!ending_) return;
  if (together() && view_.trained() == 0) {
    // A replica that was about to join the next generation has nobody to wait for any more.
    for (const auto& [id, replica] : replicas_.all()) {
      if (replica->open && !replica->said_bye) replicas_.kill(*replica);
    }
  }
  const TimePoint now = Monotonic::now();
  if (in_main()) {
    if (!told_of_main_ && now >= deadline()) {
      told_of_main_ = true;
      report_.talk("training is finished; the program goes on, and Ctrl-C ends it");
    }
    kill_at_ = time_after(now, std::max(grace(), Seconds(kMainUntold)));  // for the others, then
    return;
  }
  if (now < deadline()) return;
  if (ending_->checkpoint && !replicas_.empty()) {
    report_.talk(fmt::format("replicas did not end within {:.0f} s; killing them",
                             seconds_between(begun_at_, now)));
  }
  kill_all();
}

}  // namespace adaptdl::launch
