#include "runtime/session/newest_checkpoint.h"

#include <algorithm>
#include <tuple>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/job/checkpoint_summary.h"
#include "runtime/comm/communicator.h"

namespace adaptdl {
namespace {

int own_folder(const CheckpointSearch& search) {
  return search.folders[static_cast<size_t>(search.rank)];
}

// What lies in its folder the launcher has seen to: the run's name, and --fresh.
HeldCheckpoint value_of(const CheckpointHeader& header, const CheckpointSearch& search) {
  if (own_folder(search) == 0) return held(header, header.job, 0);
  return held(header, search.name, search.fresh_at);
}

HeldCheckpoint read(const CheckpointStore& store, const CheckpointSearch& search,
                    NewestCheckpoint& found) {
  found.problems.clear();
  found.loaded = store.latest(&found.problems);
  HeldCheckpoint mine;
  if (found.loaded) mine = value_of(found.loaded->header, search);
  mine.verified = true;
  if (mine.usable()) return mine;
  found.loaded.reset();
  if (search.fresh_at > 0 && own_folder(search) != 0) found.problems.clear();
  mine.damaged = !found.problems.empty();
  return mine;
}

}  // namespace

bool first_in_folder(const Folders& folders, int rank) {
  const auto own = folders.begin() + rank;
  return std::find(folders.begin(), own, *own) == own;
}

int copying_rank(const Folders& folders) {
  const auto other =
      std::ranges::find_if(folders, [&](int folder) { return folder != folders.front(); });
  return other == folders.end() ? -1 : static_cast<int>(other - folders.begin());
}

bool HeldCheckpoint::newer_than(const HeldCheckpoint& other) const {
  if (!usable() || !other.usable()) return usable() && !other.usable();
  return std::tie(fresh_at, step) > std::tie(other.fresh_at, other.step);
}

HeldCheckpoint held(const CheckpointHeader& header, const std::string& name, int64_t fresh_at) {
  const int64_t begun = adaptdl::fresh_at(header);
  if (header.job != name || begun < fresh_at) return {};
  return {.fresh_at = begun, .step = header.step};
}

int newest_holder(const std::vector<HeldCheckpoint>& all) {
  ADAPTDL_CHECK(!all.empty());
  const auto older = [](const auto& a, const auto& b) { return b.newer_than(a); };
  auto newest = std::ranges::max_element(all, older);  // the first of equal ones
  if (!newest->usable()) newest = std::ranges::find_if(all, &HeldCheckpoint::damaged);
  return newest == all.end() ? -1 : static_cast<int>(newest - all.begin());
}

NewestCheckpoint find_newest_checkpoint(comm::Communicator* communicator,
                                        const CheckpointSearch& search,
                                        const std::optional<CheckpointStore>& store) {
  NewestCheckpoint found;
  if (copying_rank(search.folders) < 0) {  // one folder: rank 0 reads it
    if (store && search.rank == 0) read(*store, search, found);
    return found;
  }
  HeldCheckpoint mine;
  if (store && first_in_folder(search.folders, search.rank)) {
    const auto header = store->peek();
    mine = header ? value_of(*header, search) : read(*store, search, found);
  }
  // Until somebody has read all of the newest one, it may be damaged, and another one the newest.
  for (;;) {
    const auto all = comm::all_gather_values(*communicator, mine);
    const int newest = newest_holder(all);
    found.root = std::max(newest, 0);
    const HeldCheckpoint& its = all[static_cast<size_t>(found.root)];
    if (!its.usable() || its.verified) break;
    if (search.rank == newest) mine = read(*store, search, found);
  }
  if (search.rank == found.root) return found;
  for (const std::string& problem : found.problems) log_warning("{}", problem);
  return {.root = found.root};
}

}  // namespace adaptdl
