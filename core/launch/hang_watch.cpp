#include "core/launch/hang_watch.h"

#include <algorithm>

namespace adaptdl::launch {

void HangWatch::step_took(Seconds duration) {
  if (!disturbed_) longest_ = std::max(longest_, duration);
  disturbed_ = false;
}

void HangWatch::disturbed() {
  disturbed_ = true;
  restart();
}

void HangWatch::waiting(TimePoint now, bool somebody) {
  if (!somebody) return restart();
  if (since_ != TimePoint{}) waited_ += std::min<Seconds>(now - since_, 2 * kLook);
  since_ = now;
}

}  // namespace adaptdl::launch
