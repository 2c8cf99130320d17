#include "core/cluster/kubernetes/jobs/pod_trouble.h"

#include <algorithm>

#include "core/formats/json_fields.h"

namespace adaptdl::kubernetes {

namespace {

constexpr double kSilent = 5;  // s that a healthy pod may take to start

// The event's time as RFC 3339 in UTC, which sorts as text; of a series the last time.
std::string when(const Json& event) {
  for (const char* key : {"lastTimestamp", "eventTime", "firstTimestamp"}) {
    const std::string time = text_at(event, key);
    if (!time.empty()) return time;
  }
  return "";
}

}  // namespace

bool waits_silently(const PodFacts& pod, double age_s) {
  return pod.scheduled && !pod.ready && !pod.deleting && pod.end == PodEnd::none &&
         pod.reason.empty() && age_s >= kSilent;
}

void read_pod_events(const std::vector<Json>& events, PodFacts& pod) {
  const Json* newest = nullptr;
  std::string past;  // when volumes and sandbox were last ready: earlier problems are over
  for (const Json& event : events) {
    const std::string reason = text_at(event, "reason");
    if (reason == "Pulling" || reason == "Pulled") past = std::max(past, when(event));
    if (text_at(event, "type") != "Warning" || reason.empty()) continue;
    if (reason == "FailedScheduling") continue;  // it has a node by now
    if (newest == nullptr || when(event) >= when(*newest)) newest = &event;
  }
  if (newest == nullptr || when(*newest) <= past) return;
  pod.reason = text_at(*newest, "reason");
  pod.message = text_at(*newest, "message");
}

}  // namespace adaptdl::kubernetes
