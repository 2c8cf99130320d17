#include "runtime/session/sync.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/error.h"
#include "runtime/comm/communicator.h"
#include "runtime/parallel/torch_device.h"
#include "runtime/torch_compat.h"

namespace adaptdl {

int64_t stricter(int64_t a, int64_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

SyncPlan plan_sync(const std::vector<StepMark>& marks, int rank) {
  SyncPlan plan;
  int64_t finished = std::numeric_limits<int64_t>::max();
  for (const auto& mark : marks) {
    if (mark.has_state) finished = std::min(finished, mark.prepared);
    plan.atomic_limits.push_back(mark.atomic_limit);
  }
  // A member that applied more than all have prepared would contradict the commit. It takes the
  // others' state, so that it cannot corrupt the run.
  const auto consistent = [&](const StepMark& mark) {
    return mark.has_state && mark.applied <= finished;
  };
  // A suspect's state is better than none.
  const bool trusted = std::any_of(marks.begin(), marks.end(), [&](const StepMark& mark) {
    return consistent(mark) && !mark.suspect;
  });
  for (size_t r = 0; r < marks.size(); ++r) {
    const bool good = consistent(marks[r]) && !(trusted && marks[r].suspect);
    if (good && plan.root < 0) plan.root = static_cast<int>(r);
    if (!good) plan.transfer = true;
    if (static_cast<int>(r) == rank) plan.receive = !good;
  }
  plan.finished = plan.root < 0 ? 0 : finished;
  const auto alike = [&](const StepMark& mark) {
    return std::ranges::count(marks, mark.data, &StepMark::data);
  };
  plan.data = plan.root < 0 ? std::ranges::max_element(marks, {}, alike)->data
                            : marks[static_cast<size_t>(plan.root)].data;
  plan.data_differ =
      std::ranges::any_of(marks, [&](const StepMark& mark) { return mark.data != plan.data; });
  return plan;
}

SyncPlan agree(comm::Communicator* communicator, const StepMark& mine) {
  if (!communicator) return plan_sync({mine}, 0);
  return plan_sync(comm::all_gather_values(*communicator, mine), communicator->rank());
}

uint64_t transfer(
    comm::Communicator& communicator, const SyncPlan& plan, nlohmann::json& summary,
    const std::function<std::vector<NamedTensor>(const nlohmann::json&)>& tensors_for) {
  const bool root = communicator.rank() == plan.root;
  const bool keep = root || plan.receive;
  std::string text = root ? summary.dump() : std::string();
  uint64_t size = text.size();
  communicator.broadcast(&size, sizeof size, plan.root);
  text.resize(size);
  communicator.broadcast(text.data(), size, plan.root);
  if (!root) summary = nlohmann::json::parse(text);

  // Only receivers store the data. Survivors keep their tensors, but need the list's sizes to take
  // part.
  uint64_t bytes = 0;
  for (auto& [name, tensor] : tensors_for(summary)) {
    const at::Tensor live = tensor.detach();
    const bool in_place = live.is_contiguous();
    const at::Tensor wire = in_place ? live
                            : root   ? live.contiguous()
                                     : at::empty(live.sizes(), live.options());
    communicator.broadcast(wire.data_ptr(), wire.nbytes(), plan.root, keep, memory_of(wire));
    if (!in_place && plan.receive) live.copy_(wire);
    bytes += wire.nbytes();
  }
  return bytes;
}

}  // namespace adaptdl
