// Pods that the API server does not take.

#include <algorithm>
#include <doctest/doctest.h>

#include "core/cluster/kubernetes/jobs/reconcile.h"
#include "tests/unit/cluster/kubernetes/sample_objects.h"

namespace adaptdl::kubernetes::refusal_test {
namespace {

constexpr double kNow = 1'769'846'400;  // 2026-01-31 08:00:00
const std::vector<std::string> kNodes = {"n1", "n2", "n3"};
const std::vector<PodPlace> kPlaces = {{0, "n1"}};

JobObject given_n1(const char* phase) {
  return read_sample(Json::object(), {{"phase", phase}, {"group", 0}, {"allocation", {"n1"}}});
}

JobDecision decide(const JobObject& job, const std::vector<PodFacts>& pods, double now) {
  return reconcile(job, "", pods, {now, kNodes});
}

bool has_event(const JobDecision& decision, const std::string& reason) {
  return std::any_of(decision.events.begin(), decision.events.end(),
                     [&](const JobEvent& event) { return event.reason == reason; });
}

}  // namespace

TEST_CASE("pods that are refused again and again are told of once, and tried ever later") {
  for (const Refusal why : {Refusal::quota, Refusal::unreachable}) {
    JobObject job = given_n1("Pending");
    double now = kNow;
    std::vector<std::string> told;
    const auto take = [&](const JobDecision& decision) {
      for (const JobEvent& event : decision.events) told.push_back(event.reason);
      job.status = decision.status;
    };
    for (const double delay : {10.0, 20.0, 40.0, 60.0, 60.0}) {
      const JobDecision begun = decide(job, {}, now);
      CHECK(begun.create.size() == 1);
      take(begun);
      take(pods_refused(job, {}, kPlaces, "not now", why, {now, kNodes}));
      CHECK(job.status.retry_s == now + delay);
      CHECK(job.status.message == "not now");
      take(decide(job, {}, now + delay - 1));
      CHECK(job.status.allocation.empty() == (why == Refusal::quota && delay > 10));
      CHECK(job.status.message == "not now");
      job.status.allocation = {"n1"};  // by the allocator
      now += delay;
    }
    const std::string named = why == Refusal::quota ? "QuotaExceeded" : "PodCreationError";
    CHECK(told == std::vector<std::string>{"Starting", named});

    // Once it runs, the next time is a first time.
    take(decide(job, {}, now));
    PodFacts pod = sample_pod(0, "n1", 1);
    pod.group = *job.status.group;
    take(decide(job, {pod}, now));
    CHECK(told == std::vector<std::string>{"Starting", named, "Running"});
    take(pods_refused(job, {}, kPlaces, "not now", why, {now, kNodes}));
    CHECK(told.back() == named);
    CHECK(job.status.retry_s == now + 10);
  }
}

TEST_CASE("a quota is waited for, and is no failure") {
  JobObject job = given_n1("Starting");
  const auto refuse = [&](Refusal why) {
    return pods_refused(job, {}, kPlaces, "exceeded quota: small", why, {kNow, kNodes});
  };
  CHECK(refuse(Refusal::invalid).status.failures == 1);
  CHECK(refuse(Refusal::unreachable).status.failures == 0);
  CHECK(refuse(Refusal::unreachable).status.reason == "PodCreationError");
  JobDecision decision = refuse(Refusal::quota);
  CHECK(decision.status.failures == 0);
  CHECK(decision.status.reason == "QuotaExceeded");
  CHECK(has_event(decision, "QuotaExceeded"));
  CHECK(decision.status.conditions.at(1).message == "exceeded quota: small");

  // While it waits, and while it is tried again, the reason stands; it is told once.
  job.status = decision.status;
  decision = decide(job, {}, kNow + 1);
  CHECK(decision.status.phase == "Pending");
  CHECK(decision.status.reason == "QuotaExceeded");
  job.status = decision.status;
  decision = decide(job, {}, kNow + 60);
  CHECK_FALSE(decision.create.empty());
  CHECK(decision.status.reason == "QuotaExceeded");
  job.status = decision.status;
  CHECK_FALSE(has_event(refuse(Refusal::quota), "QuotaExceeded"));
  job.status = decision.status;
  PodFacts pod = sample_pod(0, "n1", 1);
  pod.group = *job.status.group;
  decision = decide(job, {pod}, kNow + 61);
  CHECK(decision.status.phase == "Running");
  CHECK(decision.status.reason.empty());
}

TEST_CASE("a job of which a quota admits enough goes on with those") {
  JobObject job =
      read_sample(Json::object(),
                  {{"phase", "Starting"}, {"group", 0}, {"allocation", {"n1", "n1", "n2", "n2"}}});
  job.min_replicas = 2;
  job.status.reason = "QuotaExceeded";
  const std::vector<PodFacts> pods = {sample_pod(0, "n1", 4), sample_pod(1, "n1", 4),
                                      sample_pod(2, "n2", 4)};
  const JobDecision refused =
      pods_refused(job, pods, {{3, "n2"}}, "exceeded quota", Refusal::quota, {kNow, kNodes});
  CHECK(refused.status.phase == "Stopping");  // each of its pods knows of four
  CHECK(refused.remove.size() == 3);
  CHECK(refused.status.allocation == std::vector<std::string>{"n1", "n1", "n2"});
  REQUIRE(refused.bound);
  CHECK(refused.bound->replicas == 3);
  CHECK(refused.bound->for_s == 1800);
  job.status = refused.status;
  const JobDecision again = decide(job, {}, kNow + 10);
  CHECK(again.create.size() == 3);
  CHECK(again.status.reason == "QuotaExceeded");

  // One that keeps what it begins with begins with all.
  job.status.allocation = {"n1", "n1", "n2", "n2"};
  job.preemptible = false;
  const JobDecision whole =
      pods_refused(job, pods, {{3, "n2"}}, "exceeded quota", Refusal::quota, {kNow, kNodes});
  CHECK(whole.status.allocation.empty());
  CHECK(whole.bound->replicas == 0);
  job.status.phase = "Pending";
  job.status.reason = "QuotaExceeded";
  job.status.allocation.clear();
  set_allocation(job.status, std::nullopt, "no room", kNow);  // what it waits for by now
  CHECK(job.status.reason == "Waiting");
  CHECK(job.status.message == "no room");
}

}  // namespace adaptdl::kubernetes::refusal_test
