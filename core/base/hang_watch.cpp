#include "core/base/hang_watch.h"

namespace adaptdl {

void HangWatch::step_took(Seconds duration) {
  if (!disturbed_) longest_ = std::max(longest_, duration);
  disturbed_ = false;
}

void HangWatch::disturbed() {
  disturbed_ = true;
  restart();
}

void HangWatch::waiting(TimePoint now, bool somebody, double share) {
  if (!somebody) return restart();
  if (since_ != TimePoint{}) {
    const Seconds passed = std::min<Seconds>({now - since_, 2 * kLook, patience() / 2});
    waited_ += share * passed;
    elapsed_ += passed;
  }
  since_ = now;
}

}  // namespace adaptdl
