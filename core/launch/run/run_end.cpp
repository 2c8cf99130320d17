#include "core/launch/run/run_end.h"

#include "core/base/error.h"

namespace adaptdl::launch {

namespace {

// Time for the other replicas' last messages when one of them ends the run.
constexpr std::chrono::seconds kFailurePatience{2};

}  // namespace

void RunEnd::begin(Ending ending) {
  const TimePoint now = Monotonic::now();
  view_.stopping = true;
  const bool finished = ending.result == "finished";
  const bool anybody = view_.trained() > 0;
  const bool together = finished || (ending.checkpoint && anybody);
  const auto grace = std::chrono::duration_cast<Monotonic::duration>(Seconds(options_.grace_s));
  if (!together && !anybody) ending.checkpoint = false;
  const bool recorded = ending_.has_value();
  ending_ = std::move(ending);
  kill_at_ = now + (together ? grace : kFailurePatience);
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
  if (!together && ending_->result != "failed") kill_all();
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

void RunEnd::check() {
  if (!ending_) return;
  const bool together = ending_->result == "finished" || ending_->checkpoint;
  if (together && view_.trained() == 0) {
    // A replica that was about to join the next generation has nobody to wait for any more.
    for (const auto& [id, replica] : replicas_.all()) {
      if (replica->open && !replica->said_bye) replicas_.kill(*replica);
    }
  }
  if (Monotonic::now() < kill_at_) return;
  if (ending_->checkpoint && !replicas_.empty()) {
    report_.talk(
        fmt::format("replicas did not end within {:.0f} s; killing them", options_.grace_s));
  }
  kill_all();
}

}  // namespace adaptdl::launch
