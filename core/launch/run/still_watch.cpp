#include "core/launch/run/still_watch.h"

#include <algorithm>

namespace adaptdl::launch {

Seconds StillWatch::pass(TimePoint now) {
  const Seconds passed =
      last_ == TimePoint{} ? Seconds{0} : std::clamp<Seconds>(now - last_, Seconds{0}, kMaxLook);
  last_ = now;
  silent_ += passed;
  return passed;
}

void StillWatch::progress(TimePoint now, const std::string& kind) {
  pass(now);
  if (!disturbed_) learn(silent_);
  after_ = kind;
  disturbed_ = false;
  waited_ = silent_ = Seconds{0};
}

void StillWatch::look(TimePoint now, bool active) {
  const bool doubt = active || !known();
  waited_ += pass(now) * (doubt ? kDoubt : 1.0);
}

void StillWatch::learn(Seconds gap) {
  Seconds& longest = longest_[after_];
  longest = std::max(longest, gap);
}

void StillWatch::remember(bool doubt) {
  learn(silent_ * (doubt ? kDoubt : 1.0));
}

void StillWatch::disturbed() {
  disturbed_ = true;
  last_ = TimePoint{};
  waited_ = silent_ = Seconds{0};
}

void StillWatch::restart() {
  disturbed();
  after_ = "start";
}

Seconds StillWatch::patience() const {
  const auto found = longest_.find(after_);
  return found == longest_.end() ? least_ : std::max(least_, kLongestGaps * found->second);
}

}  // namespace adaptdl::launch
