#include "core/launch/run/hand_over.h"

#include <algorithm>

namespace adaptdl::launch {
namespace {

// Other hosts that were told to stop, too, have said so by then.
constexpr std::chrono::seconds kOthersTold{5};
constexpr std::chrono::seconds kLongestLeave{20};

}  // namespace

HandOver::HandOver(const RunOptions& options, ReplicaSet& replicas)
    : options_(options), replicas_(replicas) {}

bool HandOver::possible() const {
  return options_.hosts && options_.hosts->hands_over && !since_ &&
         replicas_.agents().others_may_lead();
}

HandOver::Next HandOver::next(const std::vector<int>& slots,
                              std::optional<TimePoint>& deadline) const {
  if (!since_) return Next::go_on;
  if (!replicas_.agents().others_may_lead()) return Next::stop;
  const bool leaving = std::ranges::any_of(replicas_.all(), [&](const auto& replica) {
    return std::ranges::count(slots, replica.second->slots.front()) == 0;
  });
  const TimePoint now = Monotonic::now(), told = *since_ + kOthersTold,
                  latest = *since_ + kLongestLeave;
  if (now >= told && (!leaving || now >= latest)) return Next::leave;
  deadline = std::min(deadline.value_or(TimePoint::max()), now < told ? told : latest);
  return Next::go_on;
}

}  // namespace adaptdl::launch
