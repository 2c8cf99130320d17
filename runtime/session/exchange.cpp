#include "runtime/session/exchange.h"

#include <algorithm>
#include <numeric>
#include <type_traits>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "runtime/comm/communicator.h"
#include "runtime/session/state_digest.h"

namespace adaptdl {
namespace {

// Every number of a report in the order of the wire: the one list behind packing and unpacking.
template <typename R, typename Visit>
void visit_numbers(R& r, Visit&& visit) {
  visit(r.loss_sum);
  visit(r.samples);
  visit(r.nonfinite);
  visit(r.accum_s);
  visit(r.optim_s);
  visit(r.sync_s);
  visit(r.compute_s);
  visit(r.step_s);
  visit(r.next_batch.atomic);
  visit(r.next_batch.micro_steps);
  visit(r.next_batch.fixed);
  visit(r.next_measure);
  visit(r.checkpoint);
  for (auto& norms : r.norms) {
    visit(norms.local);
    visit(norms.total);
    visit(norms.previous);
    visit(norms.product);
  }
  for (auto& word : r.used) visit(word);
  for (auto& sum : r.sums) visit(sum);
  for (auto& loss : r.shard_losses) visit(loss);
}

// All values are sent as doubles: a few dozen, and one for 32 parameters, with integers exact up to
// 2^53.
std::vector<double> pack(const StepReport& report) {
  std::vector<double> values;
  visit_numbers(report, [&](const auto& field) { values.push_back(static_cast<double>(field)); });
  return values;
}

// `values`: of a replica whose lists are as long as those of `like`.
StepReport unpack(const double* values, const StepReport& like) {
  StepReport report;
  report.norms.resize(like.norms.size());
  report.used.resize(like.used.size());
  report.sums.resize(like.sums.size());
  report.shard_losses.resize(like.shard_losses.size());
  visit_numbers(report, [&](auto& field) {
    field = static_cast<std::remove_reference_t<decltype(field)>>(*values++);
  });
  return report;
}

}  // namespace

StepSummary exchange(comm::Communicator* communicator, const StepReport& mine) {
  const std::vector<double> packed = pack(mine);
  const size_t width = packed.size();
  const size_t ranks = communicator ? static_cast<size_t>(communicator->size()) : 1;
  std::vector<double> all(width * ranks);
  if (communicator) {
    communicator->all_gather(packed.data(), width * sizeof(double), all.data());
  } else {
    all = packed;
  }
  StepSummary sum;
  std::vector<double> shard_losses(mine.shard_losses.size());
  sum.used.assign(mine.used.size(), 0);
  sum.sums.assign(mine.sums.size(), 0);
  for (size_t r = 0; r < ranks; ++r) {  // in order of rank: the same rounding everywhere
    const StepReport one = unpack(&all[r * width], mine);
    sum.loss += one.loss_sum;
    sum.samples += one.samples;
    sum.nonfinite |= one.nonfinite;
    sum.accum_s += one.accum_s / static_cast<double>(ranks);
    sum.optim_s += one.optim_s / static_cast<double>(ranks);
    sum.sync_s += one.sync_s / static_cast<double>(ranks);
    sum.slowest_s = std::max(sum.slowest_s, one.step_s);
    sum.timings.push_back({one.compute_s, one.samples, one.sync_s});
    for (size_t w = 0; w < sum.used.size(); ++w) sum.used[w] |= one.used[w];
    for (size_t i = 0; i < sum.sums.size(); ++i) sum.sums[i] += one.sums[i];
    for (size_t i = 0; i < shard_losses.size(); ++i) shard_losses[i] += one.shard_losses[i];
    if (r == 0) {  // it decides for all
      sum.next_batch = one.next_batch;
      sum.next_measure = one.next_measure;
      sum.checkpoint = one.checkpoint;
      sum.norms = one.norms;
      continue;
    }
    for (size_t g = 0; g < sum.norms.size(); ++g) sum.norms[g].local += one.norms[g].local;
  }
  // Each is one replica's and 0 of the others: the same sum for any number of them.
  if (!shard_losses.empty()) {
    sum.loss = std::accumulate(shard_losses.begin(), shard_losses.end(), 0.0);
  }
  sum.loss /= std::max(sum.samples, 1.0);
  return sum;
}

Verdict commit(comm::Communicator* communicator, const Vote& mine) {
  if (!communicator) return {mine.offer != 0, mine.stop, {}};
  return count_votes(comm::all_gather_values(*communicator, mine));
}

Verdict count_votes(const std::vector<Vote>& votes) {
  const Vote& first = votes.front();
  Verdict verdict{first.offer != 0, 0, {}};
  std::vector<uint64_t> digests;
  bool agreed = true;
  for (const auto& vote : votes) {
    agreed &= vote.prepared == first.prepared && (vote.digest == first.digest || !first.repeated);
    verdict.switching &= vote.offer == first.offer;
    verdict.stop = std::max(verdict.stop, vote.stop);
    digests.push_back(mix_bits(vote.digest) ^ (first.compare_state ? vote.state : 0));
  }
  if (!agreed) {
    fail(
        "the replicas no longer agree on their progress (tick {}); the program may keep state "
        "outside its parameters and buffers, or the machines compute different results",
        first.prepared);
  }
  for (const int rank : minority(digests)) {
    verdict.diverged.push_back(votes[static_cast<size_t>(rank)].member);
  }
  return verdict;
}

}  // namespace adaptdl
