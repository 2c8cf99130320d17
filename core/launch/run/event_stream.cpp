#include "core/launch/run/event_stream.h"

#include <algorithm>
#include <iterator>
#include <type_traits>

#include "core/job/hints.h"

namespace adaptdl::launch {

namespace {

constexpr size_t kMaxPauses = 31;  // for the median

template <typename T>
T get(const nlohmann::json& event, const char* key, T otherwise) {
  const auto found = event.find(key);
  if (found == event.end()) return otherwise;
  const bool fits = std::is_integral_v<T> ? found->is_number_integer() : found->is_number();
  return fits ? found->get<T>() : otherwise;
}

// Whether the training started again: from scratch or from a checkpoint.
bool anew(const Generation& generation) {
  return generation.cause == "start" || generation.cause == "restart";
}

}  // namespace

void EventStream::event(MemberId from, nlohmann::json event) {
  if (!event.is_object() || !event.contains("event") || !event["event"].is_string()) return;
  if (!terms_.empty() && terms_.front().speaker == from) {
    let_out(std::move(event));
  } else {
    held_[from].push_back(std::move(event));
  }
}

void EventStream::note(const View& view) {
  const Generation& current = view.current;
  if (current.number == number_) return;
  number_ = current.number;
  if (number_ == 0) return;
  std::vector<std::string> kinds;
  for (const MemberId id : current.members) {
    const Member* member = view.find(id);
    kinds.push_back(member == nullptr ? "" : member->accelerator);
  }
  const Term term{current, static_cast<int>(members_), current.members.front(),
                  joined_kinds(kinds)};
  members_ = current.members.size();
  known_[number_] = term;
  terms_.push_back(term);
  if (terms_.size() == 1) begin(term);
}

void EventStream::advance(const View& view, bool all) {
  if (!leads_) return;
  note(view);
  while (terms_.size() > 1) {
    const Member* speaker = view.find(terms_.front().speaker);
    const bool over = speaker == nullptr || speaker->state == MemberState::gone ||
                      speaker->said_bye || speaker->switched > terms_.front().generation.number;
    if (!over && !all) return;
    terms_.pop_front();
    begin(terms_.front());
  }
  forget_the_gone(view);
}

// What they have said besides will never be let out, and holds_any() would be true for ever.
void EventStream::forget_the_gone(const View& view) {
  std::erase_if(held_, [&](const auto& entry) {
    const MemberId id = entry.first;
    const Member* const member = view.find(id);
    if (member != nullptr && member->state != MemberState::gone) return false;
    const auto speaks = [id](const Generation& generation) {
      return !generation.members.empty() && generation.members.front() == id;
    };
    return !speaks(view.current) && std::ranges::none_of(view.announced, speaks) &&
           std::ranges::none_of(terms_, [id](const Term& term) { return term.speaker == id; });
  });
}

void EventStream::begin(const Term& term) {
  const uint64_t number = term.generation.number;
  const bool restarts = anew(term.generation);
  const auto switched = switched_.find(number);
  const bool known = switched != switched_.end();
  const int64_t step = known ? switched->second : last_step_;
  const bool takes_over = goes_on_ && newest_step_.empty();
  // What was told of an earlier generation, beyond where this one begins, was told before a
  // restart.
  const bool same_attempt = !restarts && (!known || told_before_.step <= step);
  if (takes_over && told_before_.step >= 0 && (told_before_.generation >= number || same_attempt)) {
    last_step_ = told_before_.step;
  } else if (takes_over || restarts) {
    last_step_ = step;
  }
  if (takes_over) told_before_ = {number, last_step_};  // the next one may begin before a step
  report_.generation({.number = static_cast<int64_t>(term.generation.number),
                      .members = term.generation.members,
                      .from = term.from,
                      .cause = term.generation.cause,
                      .immediate = term.generation.immediate,
                      .accelerator = term.accelerator,
                      .step = step});
  if (takes_over) {
    std::vector<nlohmann::json> earlier = take_earlier_steps(number);
    std::erase_if(earlier, [&](const nlohmann::json& event) {  // steps that are done again
      return restarts || (known && get(event, "step", int64_t{0}) > step);
    });
    for (nlohmann::json& event : earlier) let_out(std::move(event));
  }
  for (nlohmann::json& event : held_[term.speaker]) let_out(std::move(event));
  held_.erase(term.speaker);
}

// Nobody knows any more who was rank 0 then.
std::vector<nlohmann::json> EventStream::take_earlier_steps(uint64_t generation) {
  std::vector<nlohmann::json> steps;
  const auto earlier = [&](const nlohmann::json& event) {
    return event["event"] == "step" && get(event, "generation", generation) < generation;
  };
  for (auto& [from, events] : held_) {
    std::ranges::copy_if(events, std::back_inserter(steps), earlier);
    std::erase_if(events, earlier);
  }
  std::ranges::stable_sort(
      steps, {}, [](const nlohmann::json& event) { return get(event, "step", int64_t{0}); });
  return steps;
}

void EventStream::let_out(nlohmann::json event) {
  const std::string kind = event["event"];
  if (kind == "step") {
    step(std::move(event));
  } else if (kind == "rescale") {
    rescale(std::move(event));
  } else if (kind == "end") {
    end_ = std::move(event);  // the launcher emits it at the end
  } else {
    if (kind == "resume") last_step_ = get<int64_t>(event, "step", last_step_);
    report_.from_replica(std::move(event));
  }
}

void EventStream::step(nlohmann::json event) {
  const auto step = get<int64_t>(event, "step", 0);
  if (step <= last_step_) return;
  last_step_ = step;
  newest_step_ = event;
  report_.from_replica(std::move(event));
  if (step <= highest_step_) return;
  highest_step_ = step;
  on_step_(step);
}

void EventStream::rescale(nlohmann::json event) {
  const auto term = known_.find(get<uint64_t>(event, "generation", 0));
  if (term == known_.end() || term->second.from == 0) return;  // a start is no rescale
  ++rescales_;
  const double pause = get<double>(event, "pause_s", 0.0);
  lost_s_ += pause;
  pauses_.push_back(pause);
  if (pauses_.size() > kMaxPauses) pauses_.pop_front();
  const Generation& generation = term->second.generation;
  report_.rescale(std::move(event), generation.cause, term->second.from, generation.members.size());
}

PassedOn EventStream::told() const {
  if (terms_.empty()) return told_before_;
  return {terms_.front().generation.number, last_step_};
}

bool EventStream::holds_any() const {
  return std::ranges::any_of(held_, [](const auto& entry) { return !entry.second.empty(); });
}

std::optional<double> EventStream::rescale_cost_s() const {
  if (pauses_.empty()) return std::nullopt;
  std::vector<double> sorted(pauses_.begin(), pauses_.end());
  const auto middle = sorted.begin() + static_cast<long>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return std::max(0.0, *middle);
}

const nlohmann::json& EventStream::newest(const char* field) const {
  static const nlohmann::json none;
  const auto found = newest_step_.find(field);
  return found == newest_step_.end() ? none : *found;
}

}  // namespace adaptdl::launch
