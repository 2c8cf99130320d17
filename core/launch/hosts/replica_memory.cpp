#include "core/launch/hosts/replica_memory.h"

#include "core/formats/json.h"

namespace adaptdl::launch {
namespace {

// In this order they are said again. Of each type the newest one says all.
constexpr const char* kStates[] = {"hello",  "connected", "switched", "lost",   "waiting",
                                   "passes", "saving",    "hints",    "leaving"};
constexpr const char* kEnds[] = {"bye", "fatal"};
constexpr size_t kMostEvents = 20'000;
constexpr size_t kMostGenerations = 16;  // that it has not switched to

bool is_any_of(const std::string& type, auto& types) {
  for (const char* each : types) {
    if (type == each) return true;
  }
  return false;
}

}  // namespace

void ReplicaMemory::told(const nlohmann::json& message) {
  if (message.value("type", "") != "generation") return;
  nlohmann::json members = nlohmann::json::array();
  for (const nlohmann::json& member : message.at("members")) members.push_back(member.at("member"));
  const auto number = json_get<uint64_t>(message, "generation", "generation");
  generations_[number] = {{"generation", number},
                          {"immediate", message.at("immediate")},
                          {"members", std::move(members)},
                          {"cause", message.at("cause")}};
  if (generations_.size() > kMostGenerations) generations_.erase(generations_.begin());
}

void ReplicaMemory::said(const nlohmann::json& message) {
  const auto& type = message.at("type").get_ref<const std::string&>();
  if (type == "event") {
    events_.push_back(message);
    if (events_.size() > kMostEvents) forget_oldest();
  } else if (is_any_of(type, kStates) || is_any_of(type, kEnds)) {
    newest_[type] = message;
  }
  if (type != "switched") return;
  const auto current = json_get<uint64_t>(message, "generation", type);
  generations_.erase(generations_.begin(), generations_.lower_bound(current));
  for (const char* over : {"lost", "waiting"}) newest_.erase(over);
}

void ReplicaMemory::passed_on(uint64_t events) {
  while (forgotten_ < events && !events_.empty()) forget_oldest();
}

void ReplicaMemory::forget_oldest() {
  events_.pop_front();
  ++forgotten_;
}

nlohmann::json ReplicaMemory::generations() const {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& [number, generation] : generations_) all.push_back(generation);
  return all;
}

nlohmann::json ReplicaMemory::messages() const {
  nlohmann::json all = nlohmann::json::array();
  const auto add = [&](auto& types) {
    for (const char* type : types) {
      if (const auto found = newest_.find(type); found != newest_.end()) {
        all.push_back(found->second);
      }
    }
  };
  add(kStates);
  for (const nlohmann::json& event : events_) all.push_back(event);
  add(kEnds);
  return all;
}

}  // namespace adaptdl::launch
