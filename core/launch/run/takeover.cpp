#include "core/launch/run/takeover.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "core/base/error.h"
#include "core/formats/json.h"
#include "core/launch/hosts/roster_file.h"

namespace adaptdl::launch {
namespace {

// How long hosts that have not come yet are waited for when there are enough: while nobody is
// connecting, and while somebody is, on a busy machine; and when there are not enough.
constexpr std::chrono::milliseconds kGather{500}, kGatherJoining{2000};
constexpr std::chrono::seconds kGatherPatience{10};

}  // namespace

Takeover::Takeover(const RunOptions& options, View& view, ReplicaSet& replicas, EventStream& stream,
                   RunReport& report)
    : options_(options), view_(view), replicas_(replicas), stream_(stream), report_(report) {
  if (options.succeeds) since_ = Monotonic::now();
}

void Takeover::kept(std::unique_ptr<Replica> replica, const nlohmann::json& generations) {
  started(view_, replica->id, Monotonic::now(), replica->slots);
  for (const nlohmann::json& told : generations) {
    Generation generation;
    generation.number = json_get<uint64_t>(told, "generation", "keeps");
    generation.members = json_get<std::vector<MemberId>>(told, "members", "keeps");
    generation.immediate = told.at("immediate").get<bool>();
    generation.cause = told.at("cause").get<std::string>();
    generation.issued = Monotonic::now();
    for (const MemberId id : generation.members) replicas_.used(id);
    recalled(view_, std::move(generation));
  }
  replicas_.adopt(std::move(replica));
}

std::optional<TimePoint> Takeover::wait_for_hosts() {
  if (!since_) return std::nullopt;
  AgentServer& agents = replicas_.agents();
  const Roster& before = agents.before();
  const int here = agents.hosts_of(before), needed = needed_to_lead(before);
  const auto all_of = [&](const Roster& roster) {
    return agents.hosts_of(roster) == static_cast<int>(roster.hosts.size());
  };
  const bool all = all_of(before);
  const Roster newest = newest_roster();
  const bool stateless = view_.trained() == 0;
  const bool newer = newest.announced.generation > before.announced.generation;
  const bool lost_newest = (before.shared || newer) && !have_newest(newest);
  const bool misses = lost_newest ? !all_of(newest) : (stateless && !before.shared && !all);
  const bool lacks = here < needed || misses;
  const auto waited = Monotonic::now() - *since_;
  if (lacks && waited < kGatherPatience) return *since_ + kGatherPatience;
  if (here < needed) {
    give_up(fmt::format("{} of {} hosts follow, and {} are needed", here, before.size, needed));
  }
  const auto gather = agents.anyone_joins() ? kGatherJoining : kGather;
  if (!all && waited < gather) return *since_ + gather;
  if (stateless && !before.shared && agents.newest_checkpoint() < 0) {
    give_up("no replica with its state is left, nor a checkpoint");
  }
  const bool behind = lost_newest && !stateless &&
                      (before.shared || agents.newest_checkpoint() > agents.told().step);
  since_.reset();
  const Roster::Announced announced = newest_announced(newest);
  view_.last_generation = std::max(view_.last_generation, announced.generation);
  agents.lead(announced);
  stream_.lead(agents.told());
  report_.talk(fmt::format("this host leads the run now; {} of {} hosts go on{}", here, before.size,
                           !stateless ? "" : ", from the newest checkpoint"));
  if (behind) {
    report_.talk(
        "hosts that are gone have trained without these; going on from the newest checkpoint");
  }
  drop_replicas(behind);
  return std::nullopt;
}

// Of the shared folder, if it has one of this run; else what the hosts here have heard last, or one
// of a lost host's own folder.
Roster Takeover::newest_roster() const {
  const Roster& before = replicas_.agents().before();
  if (!before.shared) {
    const Roster& remembered = replicas_.agents().remembered();
    const bool newer = remembered.announced.generation > before.announced.generation;
    return newer ? remembered : before;
  }
  if (auto kept = RosterFile(options_.checkpoint_dir).read();
      kept && kept->run_id == before.run_id) {
    return std::move(*kept);
  }
  return before;
}

Roster::Announced Takeover::newest_announced(const Roster& roster) const {
  const Generation& known = view_.newest();
  if (known.number < roster.announced.generation) return roster.announced;
  return {known.number, known.members};
}

// Whether a state here is the newest: a generation trains only with all of its members. Else
// others, which are not here, may have trained without those that are.
bool Takeover::have_newest(const Roster& newest) const {
  const Roster::Announced& announced = newest.announced;
  return std::ranges::any_of(view_.members, [&](const Member& member) {
    return member.state == MemberState::active &&
           (member.switched >= announced.generation ||
            std::ranges::count(announced.members, member.id) != 0);
  });
}

// Those that the newest generation has left out, too: nobody will tell them of another one. Others
// without a state are new, or spares.
void Takeover::drop_replicas(bool all) {
  for (const Member& member : view_.members) {
    const auto holds = [&](const Generation& generation) { return generation.holds(member.id); };
    const bool counts = member.state != MemberState::active || holds(view_.current) ||
                        std::ranges::any_of(view_.announced, holds);
    Replica* const replica = replicas_.find(member.id);
    if (replica != nullptr && (all || !counts)) replicas_.kill(*replica);
  }
}

void Takeover::give_up(const std::string& why) {
  replicas_.agents().leave_to_others();
  fail("cannot lead the run: {}", why);
}

}  // namespace adaptdl::launch
