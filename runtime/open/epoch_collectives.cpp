#include "runtime/open/epoch_collectives.h"

#include <algorithm>

#include "core/base/error.h"

namespace adaptdl {
namespace {

struct CallMark {
  int64_t finished = 0;
  bool leaving = false;
};

}  // namespace

void EpochCollectives::begin(int64_t tick) {
  if (tick == tick_) return;
  tick_ = tick;
  results_.clear();
}

// False: this replica's call is finished by now.
bool EpochCollectives::meet(comm::Communicator& communicator, bool leaving) {
  const auto before = static_cast<int64_t>(results_.size());
  for (;;) {
    const auto marks = comm::all_gather_values<CallMark>(communicator, {before, leaving});
    int64_t least = -1;
    for (const CallMark& mark : marks) {
      if (!mark.leaving && (least < 0 || mark.finished < least)) least = mark.finished;
    }
    if (least < 0) return true;  // all leave
    const auto ahead = std::ranges::find_if(
        marks, [least](const CallMark& mark) { return mark.finished > least; });
    if (ahead == marks.end()) {
      if (std::ranges::any_of(marks, &CallMark::leaving)) {
        fail(
            "collective(): the replicas do not make the same calls: some go on after {} of them, "
            "others want one more",
            least);
      }
      return true;
    }
    const bool has = before > least;
    const std::string result =
        standalone::bytes_of_root(communicator, has ? results_[static_cast<size_t>(least)] : "",
                                  static_cast<int>(ahead - marks.begin()));
    if (!leaving && before == least) {
      results_.push_back(result);
      return false;
    }
  }
}

std::string EpochCollectives::next(comm::Communicator* communicator, int64_t tick,
                                   const std::string& mine, const standalone::Fold& fold) {
  begin(tick);
  if (!communicator) {
    results_.push_back(mine);
  } else if (meet(*communicator, /*leaving=*/false)) {
    results_.push_back(standalone::fold_bytes(*communicator, mine, fold));
  }
  return results_.back();
}

void EpochCollectives::leave(comm::Communicator* communicator, int64_t tick) {
  begin(tick);
  if (communicator) meet(*communicator, /*leaving=*/true);
}

}  // namespace adaptdl
