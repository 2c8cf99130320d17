#include "core/cluster/kubernetes/pod_trouble.h"

namespace adaptdl::kubernetes {

namespace {

constexpr double kSilent = 5;  // s that a sound pod may take without a word

std::string text(const Json& event, const char* key) {
  if (!event.is_object()) return "";
  const auto found = event.find(key);
  return found != event.end() && found->is_string() ? found->get<std::string>() : "";
}

// RFC 3339 in UTC, which sorts as text. A series' last moment counts.
std::string when(const Json& event) {
  for (const char* key : {"lastTimestamp", "eventTime", "firstTimestamp"}) {
    const std::string time = text(event, key);
    if (!time.empty()) return time;
  }
  return "";
}

}  // namespace

bool waits_silently(const PodFacts& pod, double now_s) {
  return pod.scheduled && !pod.ready && !pod.deleting && pod.end == PodEnd::none &&
         pod.reason.empty() && now_s >= pod.created_s + kSilent;
}

void read_pod_events(const std::vector<Json>& events, PodFacts& pod) {
  const Json* newest = nullptr;
  for (const Json& event : events) {
    if (text(event, "type") != "Warning" || text(event, "reason").empty()) continue;
    if (newest == nullptr || when(event) >= when(*newest)) newest = &event;
  }
  if (newest == nullptr) return;
  pod.reason = text(*newest, "reason");
  pod.message = text(*newest, "message");
}

}  // namespace adaptdl::kubernetes
