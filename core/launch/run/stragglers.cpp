#include "core/launch/run/stragglers.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/formats/json.h"

namespace adaptdl::launch {

namespace {

bool lists(const std::vector<MemberId>& members, MemberId id) {
  return std::ranges::find(members, id) != members.end();
}

}  // namespace

StragglerFacts Stragglers::facts_of(const char* state, const Straggler& evidence) const {
  return {.state = state,
          .member = evidence.member,
          .host = subjects_.replicas.host_of(evidence.member),
          .sample_s = evidence.sample_s,
          .others_sample_s = evidence.others_sample_s,
          .factor = evidence.factor(),
          .waited = evidence.waited};
}

std::vector<StragglerFacts> Stragglers::facts() const {
  std::vector<StragglerFacts> all;
  for (const Straggler& one : watch_.stragglers()) all.push_back(facts_of("slow", one));
  return all;
}

void Stragglers::tell(const std::vector<StragglerWatch::News>& news) {
  for (const StragglerWatch::News& one : news) {
    const bool replaced = replacement_ && replacement_->replaced.member == one.evidence.member;
    if (replaced && one.what == SlowNews::gone) continue;  // as was told
    subjects_.report.straggler(facts_of(word_of(one.what), one.evidence));
  }
}

void Stragglers::check() {
  const Generation& current = subjects_.view.current;
  if (current.number == generation_) return;
  generation_ = current.number;
  tell(watch_.members(current.members));
}

void Stragglers::pace(const nlohmann::json& message) {
  check();
  const Generation& current = subjects_.view.current;
  const nlohmann::json& replicas = message.at("replicas");
  if (json_get<uint64_t>(message, "generation", "pace") != current.number ||
      replicas.size() != current.members.size()) {
    return;  // of a generation that is over
  }
  PaceWindow window{.seconds = message.at("seconds").get<double>()};
  double samples = 0;
  for (size_t rank = 0; rank < replicas.size(); ++rank) {
    const Member* member = subjects_.view.find(current.members[rank]);
    const nlohmann::json& replica = replicas[rank];
    window.replicas.push_back({.member = current.members[rank],
                               .kind = member == nullptr ? "" : member->accelerator,
                               .compute_s = replica.at("compute_s").get<double>(),
                               .samples = replica.at("samples").get<double>(),
                               .waited_s = replica.at("waited_s").get<double>()});
    samples += window.replicas.back().samples;
  }
  const double samples_per_s = window.seconds > 0 ? samples / window.seconds : 0;
  tell(watch_.window(window));
  check_replacement(samples_per_s);
  if (replaces_) consider(samples_per_s);
}

// Another slot than those of the replicas that exist, or a replica that has one.
bool Stragglers::has_other_place() const {
  const View& view = subjects_.view;
  const RendezvousOptions& options = subjects_.rendezvous;
  int free = static_cast<int>(options.slots.size());
  for (const Member& member : view.members) {
    if (view.is_spare(member)) return true;
    for (const int slot : member.slots) {
      if (std::ranges::find(options.slots, slot) != options.slots.end()) --free;
    }
  }
  return free >= options.slots_per_replica;
}

// Where a replica has been replaced already and its successor is slow, too, the place is slow: its
// core, its GPU or its host.
bool Stragglers::is_hopeless(const Member& member) const {
  return successors_.contains(member.id) && !has_other_place();
}

void Stragglers::consider(double samples_per_s) {
  const View& view = subjects_.view;
  const bool whole = static_cast<int>(view.current.members.size()) == view.target;
  const bool changing = view.pending || view.broken || view.handing_over || !whole;
  if (changing || view.finishing || view.stopping || replacement_) return;
  std::vector<Straggler> named = watch_.stragglers();
  std::erase_if(named, [&](const Straggler& one) {
    const Member* member = view.find(one.member);
    return member == nullptr || member->leaving || kept_.contains(one.member);
  });
  const auto slowest = std::ranges::max_element(named, {}, &Straggler::factor);
  if (slowest == named.end()) return;
  if (is_hopeless(*view.find(slowest->member))) {
    kept_.insert(slowest->member);
    StragglerFacts facts = facts_of("kept", *slowest);
    facts.reason = "the replica before it was slow, too, and no other slot is free";
    return subjects_.report.straggler(facts);
  }
  if (replaced_at_ && Monotonic::now() < *replaced_at_ + kReplaceEvery) return;
  replace(*slowest, samples_per_s);
}

// It leaves as if it had been told to (SIGTERM), and the rendezvous replaces it.
void Stragglers::replace(const Straggler& straggler, double samples_per_s) {
  const TimePoint now = Monotonic::now();
  const Member& member = *subjects_.view.find(straggler.member);
  replacement_ = {.replaced = facts_of("replaced", straggler),
                  .before = subjects_.view.current.members,
                  .samples_per_s = samples_per_s,
                  .at = now};
  replaced_at_ = now;
  subjects_.report.straggler(facts_of("replacing", straggler));
  // The successor gets the first free slot: rather one of another host, and its own last.
  std::vector<int>& slots = subjects_.rendezvous.slots;
  std::ranges::stable_sort(slots, {}, [&](int slot) {
    const bool its_own = std::ranges::find(member.slots, slot) != member.slots.end();
    const bool beside =
        !member.slots.empty() && subjects_.replicas.same_host(slot, member.slots.front());
    return its_own ? 2 : beside ? 1 : 0;
  });
  said_leaving(subjects_.view, straggler.member, now);
}

void Stragglers::check_replacement(double samples_per_s) {
  if (!replacement_) return;
  const std::vector<MemberId>& members = subjects_.view.current.members;
  StragglerFacts& facts = replacement_->replaced;
  if (!lists(members, facts.member) && members.size() == replacement_->before.size()) {
    for (const MemberId id : members) {
      if (lists(replacement_->before, id)) continue;
      successors_.insert(id);
      facts.by = id;
    }
    facts.samples_per_s_before = replacement_->samples_per_s;
    facts.samples_per_s = samples_per_s;
    subjects_.report.straggler(facts);
    replacement_.reset();
  } else if (Monotonic::now() > replacement_->at + kReplaceEvery) {
    replacement_.reset();  // other things have happened to the run: nothing can be compared
  }
}

}  // namespace adaptdl::launch
