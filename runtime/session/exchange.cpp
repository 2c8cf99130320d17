#include "runtime/session/exchange.h"

#include <algorithm>

#include "core/base/error.h"
#include "runtime/comm/communicator.h"

namespace adaptdl {
namespace {

// All values are sent as doubles: a few dozen, with integers exact up to 2^53.
std::vector<double> pack(const StepReport& r) {
  std::vector<double> values = {r.loss_sum,
                                r.samples,
                                r.nonfinite ? 1.0 : 0.0,
                                r.accum_s,
                                r.optim_s,
                                r.sync_s,
                                r.step_s,
                                static_cast<double>(r.next_batch.atomic),
                                static_cast<double>(r.next_batch.micro_steps),
                                r.next_measure ? 1.0 : 0.0,
                                r.checkpoint ? 1.0 : 0.0};
  values.insert(values.end(), r.local.begin(), r.local.end());
  return values;
}

constexpr size_t kFixed = 11;

}  // namespace

StepSummary exchange(comm::Communicator* communicator, const StepReport& mine) {
  const std::vector<double> packed = pack(mine);
  ADAPTDL_CHECK(packed.size() == kFixed + mine.local.size());
  const size_t width = packed.size();
  const size_t ranks = communicator ? static_cast<size_t>(communicator->size()) : 1;
  std::vector<double> all(width * ranks);
  if (communicator) {
    communicator->all_gather(packed.data(), width * sizeof(double), all.data());
  } else {
    all = packed;
  }
  StepSummary sum;
  sum.local.assign(mine.local.size(), 0.0);
  for (size_t r = 0; r < ranks; ++r) {  // in rank order: the same rounding everywhere
    const double* one = &all[r * width];
    sum.loss += one[0];
    sum.samples += one[1];
    sum.nonfinite |= one[2] != 0;
    sum.accum_s += one[3] / static_cast<double>(ranks);
    sum.optim_s += one[4] / static_cast<double>(ranks);
    sum.sync_s += one[5] / static_cast<double>(ranks);
    sum.slowest_s = std::max(sum.slowest_s, one[6]);
    for (size_t g = 0; g < sum.local.size(); ++g) sum.local[g] += one[kFixed + g];
  }
  sum.loss /= std::max(sum.samples, 1.0);
  sum.next_batch = {static_cast<int64_t>(all[7]), static_cast<int>(all[8])};
  sum.next_measure = all[9] != 0;
  sum.checkpoint = all[10] != 0;
  return sum;
}

Verdict commit(comm::Communicator* communicator, const Vote& mine) {
  if (!communicator) return {mine.offer != 0, mine.stop};
  const auto votes = comm::all_gather_values(*communicator, mine);
  Verdict verdict{mine.offer != 0, 0};
  for (const auto& vote : votes) {
    if (vote.prepared != mine.prepared || vote.digest != mine.digest) {
      fail(
          "the replicas no longer agree on their progress (tick {}); the program may keep state "
          "outside its parameters and buffers, or the machines compute different results",
          mine.prepared);
    }
    verdict.switching &= vote.offer == mine.offer;
    verdict.stop = std::max(verdict.stop, vote.stop);
  }
  return verdict;
}

}  // namespace adaptdl
