#include "core/cluster/kubernetes/jobs/live_group.h"

#include <algorithm>
#include <doctest/doctest.h>

#include "core/cluster/kubernetes/jobs/reconcile.h"
#include "tests/unit/cluster/kubernetes/sample_objects.h"

namespace adaptdl::kubernetes::live_group_test {
namespace {

constexpr double kNow = 1'769'846'400;  // 2026-01-31 08:00:00
const std::vector<std::string> kNodes = {"n1", "n2", "n3"};

JobObject live(const std::vector<std::string>& nodes, int replicas) {
  Json status = Json::parse(R"({"phase": "Running", "group": 0,
    "groupStartTime": "2026-01-31T07:59:00Z", "heldSince": "2026-01-31T07:59:00Z"})");
  status["allocation"] = nodes;
  status["replicas"] = replicas;
  return read_sample({{"liveRescale", true}}, std::move(status));
}

JobDecision decide(const JobObject& job, const std::vector<PodFacts>& pods, double now = kNow,
                   bool expects = false) {
  return reconcile(job, "", pods, {now, kNodes, expects});
}

PodFacts ended(PodFacts pod, PodEnd how, double when, bool deleting = false) {
  pod.end = how;
  pod.ended_s = when;
  pod.ready = false;
  pod.deleting = deleting;
  return pod;
}

std::vector<std::string> removed(const JobDecision& decision) {
  std::vector<std::string> names;
  for (const PodRemoval& removal : decision.remove) names.push_back(removal.name);
  return names;
}

}  // namespace

TEST_CASE("a job that rescales live goes on while pods come and go") {
  const JobObject job = live({"n1", "n2", "n2"}, 2);
  std::vector<PodFacts> pods = {sample_pod(0, "n1", 2), sample_pod(1, "n3", 2)};
  JobDecision decision = decide(job, pods);
  CHECK(decision.status.phase == "Running");
  CHECK(decision.status.group == 0);
  CHECK(decision.status.replicas == 3);
  CHECK(decision.status.attained_service == doctest::Approx(120));  // two for a minute
  CHECK(removed(decision) == std::vector<std::string>{"digits-u-1-0-1"});
  CHECK(decision.create == std::vector<PodPlace>{{2, "n2"}, {3, "n2"}});

  // While those that were made are not seen, no more are.
  CHECK(decide(job, pods, kNow, true).create.empty());

  // One that was told to go holds nothing up.
  pods[1] = ended(pods[1], PodEnd::disrupted, kNow, true);
  pods.push_back(sample_pod(2, "n2", 3));
  pods.push_back(sample_pod(3, "n2", 3));
  decision = decide(job, pods);
  CHECK(decision.create.empty());
  CHECK(removed(decision).empty());
  CHECK(decision.status.phase == "Running");

  // Fewer: the last that came go.
  JobObject fewer = live({"n1", "n2"}, 3);
  CHECK(removed(decide(fewer, pods)) == std::vector<std::string>{"digits-u-1-0-3"});
}

TEST_CASE("how the launcher's pod ends decides for its group") {
  const JobObject job = live({"n1", "n2"}, 2);
  const PodFacts first = sample_pod(0, "n1", 2), second = sample_pod(1, "n2", 2);
  JobObject over = job;
  const std::vector<PodFacts> nearly = {ended(first, PodEnd::succeeded, kNow), second};
  JobDecision last = decide(job, nearly);
  CHECK(last.status.phase == "Succeeded");
  CHECK(removed(last).empty());  // it is about to end, and its log is to stay
  CHECK(last.again_s == doctest::Approx(kNow + 10));
  over.status = last.status;
  CHECK(removed(decide(over, nearly, kNow + 11)) == std::vector<std::string>{second.name});
  CHECK(decide(job, {first, ended(second, PodEnd::succeeded, kNow)}).status.phase == "Running");
  PodFacts gave_up = ended(first, PodEnd::failed, kNow);
  gave_up.exit_code = 1;
  const JobDecision failed = decide(job, {gave_up, second});
  CHECK(failed.status.phase == "Stopping");
  CHECK(failed.status.failures == 1);
  JobObject starts = job;  // nobody trains yet
  starts.status.phase = "Starting";
  CHECK(decide(starts, {ended(first, PodEnd::disrupted, kNow), second}).status.phase == "Stopping");
  CHECK(decide(live({"n2", "n3"}, 2), {first, second}).status.phase == "Stopping");
  CHECK(decide(live({}, 2), {first, second}).status.phase == "Stopping");
}

TEST_CASE("a lost launcher's group waits for another one of its replicas to lead") {
  JobObject job = live({"n1", "n2", "n3"}, 3);
  const PodFacts first = sample_pod(0, "n1", 3), second = sample_pod(1, "n2", 3),
                 third = sample_pod(2, "n3", 3);
  PodFacts killed = ended(first, PodEnd::failed, kNow - 1);
  killed.exit_code = 137;
  for (const std::vector<PodFacts>& pods :
       {std::vector<PodFacts>{killed, second, third},
        {second, third},
        {ended(first, PodEnd::disrupted, kNow, true), second, third},
        {ended(first, PodEnd::memory, kNow), second, third}}) {
    const JobDecision decision = decide(job, pods);
    CHECK(decision.status.phase == "Running");
    CHECK(decision.status.launcher_lost_s == kNow);
    CHECK(decision.remove.empty());
    CHECK(decision.create.empty());
    CHECK(decision.again_s == doctest::Approx(kNow + 60));
    REQUIRE(decision.events.size() == 1);
    CHECK(decision.events[0].reason == "LauncherLost");
  }
  job.status = decide(job, {killed, second, third}).status;
  CHECK(decide(job, {killed, second, third}, kNow + 59).events.empty());
  CHECK(decide(job, {killed, second, third}, kNow + 59).status == job.status);

  // Nobody has: all restart, as they do when nobody can.
  JobDecision decision = decide(job, {killed, second, third}, kNow + 60);
  CHECK(decision.status.phase == "Stopping");
  CHECK(decision.status.failures == 1);
  CHECK(decision.status.message.find("no other replica has led the run on within 60 s") !=
        std::string::npos);
  decision = decide(job, {second, third}, kNow + 60);
  CHECK(decision.status.phase == "Stopping");
  CHECK(decision.status.failures == 0);
  decision = decide(
      job, {killed, ended(second, PodEnd::disrupted, kNow), ended(third, PodEnd::disrupted, kNow)},
      kNow + 1);
  CHECK(decision.status.phase == "Stopping");
  CHECK(decision.status.message.find("no other replica could lead the run on") !=
        std::string::npos);
  // The next group begins with the first.
  job.status = decision.status;
  job.status.retry_s.reset();
  job.status.launchers = {2};
  decision = decide(job, {}, kNow + 2);
  CHECK(decision.status.group == 1);
  CHECK(decision.status.launcher() == 0);
  CHECK_FALSE(decision.status.launcher_lost_s);
}

TEST_CASE("a replica that leads is the launcher from then on") {
  JobObject job = live({"n1", "n2", "n3"}, 3);
  PodFacts killed = ended(sample_pod(0, "n1", 3), PodEnd::failed, kNow - 20);
  killed.exit_code = 137;
  const PodFacts second = sample_pod(1, "n2", 3), third = sample_pod(2, "n3", 3);
  job.status.launcher_lost_s = kNow - 20;
  job.status.leads = GroupLeader{0, 2};
  JobDecision decision = decide(job, {killed, second, third});
  CHECK(decision.status.launcher() == 2);
  CHECK_FALSE(decision.status.launcher_lost_s);
  CHECK(decision.status.allocation == std::vector<std::string>{"n3", "n1", "n2"});
  CHECK(decision.create == std::vector<PodPlace>{{3, "n1"}});
  CHECK(decision.remove.empty());  // the log of the first stays
  REQUIRE(decision.events.size() == 1);
  CHECK(decision.events[0].reason == "LauncherReplaced");
  job.status = decision.status;
  const PodFacts fourth = sample_pod(3, "n1", 3);
  decision = decide(job, {killed, second, third, fourth});
  CHECK(decision.status.launcher() == 2);
  CHECK(decision.status.ready == 3);
  CHECK(decision.create.empty());
  CHECK(decision.events.empty());

  // It decides for the group, and may be lost, too.
  decision = decide(job, {killed, second, ended(third, PodEnd::succeeded, kNow), fourth});
  CHECK(decision.status.phase == "Succeeded");
  CHECK(decide(job, {killed, ended(second, PodEnd::succeeded, kNow), third}).status.phase ==
        "Running");  // it still writes
  CHECK(decide(job, {killed, ended(second, PodEnd::succeeded, kNow)}).status.phase == "Succeeded");
  CHECK(decide(job, {killed, second, fourth}).status.launcher_lost_s == kNow);
  job.status.leads = GroupLeader{0, 1};
  decision = decide(job, {killed, second, fourth});
  CHECK(decision.status.launcher() == 1);
  CHECK(decision.create == std::vector<PodPlace>{{4, "n3"}});
  PodFacts led = ended(third, PodEnd::failed, kNow - 20);
  led.exit_code = 137;
  CHECK(decide(job, {killed, second, led, fourth}).remove.empty());

  // Of an earlier group, or a pod that has ended.
  job.status.leads = GroupLeader{7, 3};
  CHECK(decide(job, {killed, second, third, fourth}).status.launcher() == 2);
  job.status.leads = GroupLeader{0, 0};
  CHECK(decide(job, {killed, second, third, fourth}).status.launcher() == 2);
}

TEST_CASE("a pod that ends by itself is replaced after a while") {
  const JobObject job = live({"n1", "n2"}, 2);
  const PodFacts first = sample_pod(0, "n1", 2), second = sample_pod(1, "n2", 2);
  JobDecision decision = decide(job, {first, ended(second, PodEnd::failed, kNow - 1)});
  CHECK(decision.status.phase == "Running");
  CHECK(decision.status.failures == 0);
  CHECK(removed(decision) == std::vector<std::string>{"digits-u-1-0-1"});
  CHECK(decision.create.empty());
  CHECK(decision.again_s == doctest::Approx(kNow + 9));
  decision = decide(job, {first, ended(second, PodEnd::failed, kNow - 10)});
  CHECK(decision.create == std::vector<PodPlace>{{2, "n2"}});
  CHECK(decide(job, {first}).create == std::vector<PodPlace>{{1, "n2"}});
}

TEST_CASE("a newcomer that does not start is told of, and goes if its node has no room") {
  const JobObject job = live({"n1", "n2"}, 2);
  const PodFacts first = sample_pod(0, "n1", 2);
  PodFacts waits = sample_pod(1, "n2", 2);
  waits.ready = waits.scheduled = false;
  waits.reason = "ImagePullBackOff";
  waits.created_s = kNow - 5;
  JobDecision decision = decide(job, {first, waits});
  CHECK(decision.status.phase == "Running");
  CHECK(decision.status.reason.empty());
  CHECK(decision.again_s == doctest::Approx(kNow + 5));
  waits.created_s = kNow - 100;
  decision = decide(job, {first, waits});
  CHECK(decision.status.phase == "Running");
  CHECK(decision.status.reason == "ImagePullBackOff");
  CHECK(decision.status.allocation.size() == 2);
  waits.reason = reason::kUnschedulable;
  decision = decide(job, {first, waits});
  CHECK(decision.status.allocation == std::vector<std::string>{"n1"});
  CHECK(removed(decision) == std::vector<std::string>{"digits-u-1-0-1"});
  CHECK(decision.refused_by == std::map<std::string, int>{{"n2", 0}});
  waits.node = "n1";  // the launcher's, which stays the first, and takes some of its pods
  decision = decide(live({"n1", "n2", "n1"}, 2), {first, waits});
  CHECK(decision.status.allocation == std::vector<std::string>{"n1", "n2"});
  CHECK(decision.refused_by == std::map<std::string, int>{{"n1", 1}});
}

TEST_CASE(
    "a job that the allocator must leave as it is does not go on with less than its minimum") {
  JobObject job = live({"n1", "n2", "n3"}, 3);
  job.min_replicas = 2;
  PodFacts waits = sample_pod(2, "n3", 3);
  waits.ready = waits.scheduled = false;
  waits.reason = reason::kUnschedulable;
  waits.created_s = kNow - 100;
  std::vector<PodFacts> pods = {sample_pod(0, "n1", 3), sample_pod(1, "n2", 3), waits};
  for (const bool preemptible : {false, true}) {
    job.preemptible = preemptible;
    CHECK(decide(job, pods).status.allocation.size() == 2);
  }
  pods[1] = waits;
  pods[1].name = "other";
  pods[1].node = "n2";
  CHECK(decide(job, pods).status.allocation.size() ==
        1);  // its allocator gives it more, or nothing
  job.preemptible = false;
  const JobDecision decision = decide(job, pods);
  CHECK(decision.status.allocation.empty());
  CHECK(decision.status.phase == "Stopping");
  CHECK(decision.status.reason == reason::kUnschedulable);
}

TEST_CASE("newcomers that never start are looked at when something may be due, and told of once") {
  JobObject job = live({"n1", "n2", "n3"}, 3);
  const PodFacts first = sample_pod(0, "n1", 3);
  PodFacts second = sample_pod(1, "n2", 3), third = sample_pod(2, "n3", 3);
  second.ready = third.ready = false;
  second.created_s = third.created_s = kNow - 100;
  CHECK_FALSE(decide(job, {first, second, third}).again_s);
  third.created_s = kNow - 20;
  CHECK(decide(job, {first, second, third}).again_s == doctest::Approx(kNow + 40));

  second.reason = "ImagePullBackOff";
  third.reason = "CreateContainerConfigError";
  JobDecision decision = decide(job, {first, third, second});
  CHECK(decision.events.size() == 1);
  CHECK(decision.status.reason == "ImagePullBackOff");
  job.status = decision.status;
  decision = decide(job, {first, second, third}, kNow + 1);
  CHECK(decision.events.empty());
  CHECK(decision.status.reason == "ImagePullBackOff");
}

TEST_CASE("of newcomers that a quota forbids again the nodes are given back, for a while") {
  JobObject job = live({"n1", "n2", "n3"}, 3);
  const std::vector<PodFacts> pods = {sample_pod(0, "n1", 2), sample_pod(1, "n2", 2)};
  const auto refuse = [&] {
    return pods_refused(job, pods, {{2, "n3"}}, "exceeded quota: cpu", Refusal::quota,
                        {kNow, kNodes});
  };
  JobDecision refused = refuse();  // what has just ended may still count
  CHECK(refused.status.allocation.size() == 3);
  CHECK_FALSE(refused.bound);
  job.status = refused.status;
  refused = refuse();
  CHECK(refused.status.phase == "Running");
  CHECK(refused.status.reason == reason::kQuota);
  CHECK(refused.status.allocation == std::vector<std::string>{"n1", "n2"});
  CHECK(refused.remove.empty());
  CHECK(refused.events.empty());
  REQUIRE(refused.bound);
  CHECK(refused.bound->replicas == 2);
  CHECK(refused.bound->for_s == 300);
  job.status = refused.status;
  const JobDecision decision = decide(job, pods);
  CHECK(decision.create.empty());
  CHECK(decision.status.phase == "Running");
}

TEST_CASE("a live job of which a quota admits too few stops, and waits without nodes") {
  JobObject job = live({"n1", "n2", "n3"}, 3);
  job.min_replicas = 3;
  job.status.reason = reason::kQuota;
  const auto refuse = [&] {
    return pods_refused(job, {sample_pod(0, "n1", 3)}, {{1, "n2"}, {2, "n3"}},
                        "exceeded quota: cpu", Refusal::quota, {kNow, kNodes});
  };
  CHECK(refuse().status.allocation.size() == 3);  // it trains, and has lost two
  CHECK(refuse().remove.empty());
  job.status.phase = "Starting";
  const JobDecision refused = refuse();
  CHECK(refused.status.phase == "Stopping");
  CHECK(refused.status.allocation.empty());
  CHECK(refused.remove.size() == 1);
  REQUIRE(refused.bound);
  CHECK(refused.bound->replicas == 0);
  CHECK(refused.bound->for_s == 300);
}

TEST_CASE("a live job that is suspended gives back what it had") {
  JobObject job = live({"n1", "n2"}, 2);
  job.suspended = true;
  const JobDecision decision = decide(job, {sample_pod(0, "n1", 2), sample_pod(1, "n2", 2)});
  CHECK(decision.status.phase == "Stopping");
  CHECK(decision.status.allocation.empty());
  CHECK(decision.remove.size() == 2);
}

TEST_CASE("pods that may not be made leave those that train alone") {
  const JobObject job = live({"n1", "n2"}, 1);
  const std::vector<PodFacts> pods = {sample_pod(0, "n1", 1)};
  const JobDecision refused =
      pods_refused(job, pods, {{1, "n2"}}, "no answer", Refusal::unreachable, {kNow, kNodes});
  CHECK(refused.status.phase == "Running");
  CHECK(refused.remove.empty());
  CHECK(refused.again_s == doctest::Approx(kNow + 10));
  JobObject later = job;
  later.status = refused.status;
  CHECK(decide(later, pods, kNow + 5).create.empty());
  CHECK(decide(later, pods, kNow + 10).create.size() == 1);
}

}  // namespace adaptdl::kubernetes::live_group_test
