#include "core/cluster/kubernetes/jobs/reconcile.h"

#include <algorithm>
#include <doctest/doctest.h>

#include "core/cluster/kubernetes/jobs/seen_moments.h"
#include "tests/unit/cluster/kubernetes/sample_objects.h"

namespace adaptdl::kubernetes::reconcile_test {
namespace {

constexpr double kNow = 1'769'846'400;  // 2026-01-31 08:00:00
const std::vector<std::string> kNodes = {"n1", "n2", "n3"}, kTwo = {"n1", "n2"};

// Its group 0 was started a minute ago.
JobObject running(const std::vector<std::string>& nodes, Json spec = Json::object()) {
  Json status =
      Json::parse(R"({"phase": "Running", "group": 0, "groupStartTime": "2026-01-31T07:59:00Z"})");
  status["allocation"] = nodes;
  return read_sample(std::move(spec), std::move(status));
}

JobDecision decide(const JobObject& job, const std::vector<PodFacts>& pods, double now = kNow,
                   bool expects = false) {
  return reconcile(job, "", pods, {now, kNodes, expects});
}

PodFacts ended(PodFacts pod, PodEnd how, double when, int code = 1) {
  pod.end = how;
  pod.ended_s = when;
  pod.exit_code = code;
  pod.ready = false;
  return pod;
}

bool has_event(const JobDecision& decision, const std::string& reason) {
  return std::any_of(decision.events.begin(), decision.events.end(),
                     [&](const JobEvent& event) { return event.reason == reason; });
}

}  // namespace

TEST_CASE("another reason for the same allocation needs no second write") {
  JobObject job = running({"n1", "n2"});
  const std::vector<PodFacts> pods = {sample_pod(0, "n1", 2), sample_pod(1, "n2", 2)};
  job.status = decide(job, pods).status;
  set_allocation(job.status, std::nullopt, "stays: 2 GPUs", kNow);
  CHECK(job.status.allocation == kTwo);
  CHECK(decide(job, pods).status == job.status);

  JobObject waiting = read_sample();
  waiting.status = decide(waiting, {}).status;
  set_allocation(waiting.status, std::nullopt, "waits: all GPUs are taken", kNow);
  CHECK(waiting.status.message == "waits: all GPUs are taken");
  CHECK(decide(waiting, {}).status == waiting.status);
}

TEST_CASE("from submission to the end") {
  JobObject job = read_sample();
  JobDecision decision = decide(job, {});
  CHECK(decision.status.phase == "Pending");
  CHECK(decision.status.reason == "Waiting");
  CHECK(decision.create.empty());

  job.status = decision.status;
  set_allocation(job.status, kTwo, "starts", kNow);
  decision = decide(job, {});
  CHECK(decision.status.phase == "Starting");
  CHECK(decision.status.group == 0);
  CHECK_FALSE(decision.create.empty());

  job.status = decision.status;
  std::vector<PodFacts> pods = {sample_pod(0, "n1", 2), sample_pod(1, "n2", 2)};
  pods[1].ready = false;
  decision = decide(job, pods);
  CHECK(decision.status.phase == "Starting");
  CHECK(decision.status.ready == 1);
  CHECK(decision.create.empty());
  CHECK(decision.remove.empty());

  pods[1].ready = true;
  decision = decide(job, pods);
  CHECK(decision.status.phase == "Running");
  CHECK(has_event(decision, "Running"));

  job.status = decision.status;
  pods[0] = ended(pods[0], PodEnd::succeeded, kNow);
  CHECK(decide(job, pods).status.phase == "Running");  // the other is not done
  pods[1] = ended(pods[1], PodEnd::succeeded, kNow);
  decision = decide(job, pods);
  CHECK(decision.status.phase == "Succeeded");
  CHECK(decision.status.allocation.empty());
  CHECK(decision.status.completed_s == kNow);
  CHECK(decision.remove.empty());  // their logs stay

  job.status = decision.status;
  CHECK(decide(job, {}, kNow + 100).status == job.status);
}

TEST_CASE("an allocation that changes restarts the job in a new group") {
  JobObject job = running({"n1"});
  set_allocation(job.status, kTwo, "grows", kNow);
  CHECK(job.status.rescales == 1);
  std::vector<PodFacts> pods = {sample_pod(0, "n1", 1)};
  JobDecision decision = decide(job, pods);
  CHECK(decision.status.phase == "Stopping");
  REQUIRE(decision.remove.size() == 1);
  CHECK_FALSE(decision.remove[0].at_once);

  job.status = decision.status;
  pods[0] = ended(pods[0], PodEnd::disrupted, kNow + 1, 143);
  pods[0].deleting = true;
  pods[0].deleted_s = kNow + 30;
  decision = decide(job, pods);
  CHECK(decision.status.phase == "Stopping");
  CHECK(decision.remove.empty());

  decision = decide(job, {});
  CHECK(decision.status.group == 1);
  CHECK_FALSE(decision.create.empty());
  CHECK(decision.status.failures == 0);
}

TEST_CASE("a pod of an earlier group that was created late does not stop those that train") {
  JobObject job = running(kTwo);
  job.status.group = 1;
  std::vector<PodFacts> pods = {sample_pod(0, "n1", 2), sample_pod(1, "n2", 2)};
  for (PodFacts& pod : pods) {
    pod.name = "digits-u-1-1-" + std::to_string(pod.rank);
    pod.group = 1;
  }
  pods.push_back(sample_pod(0, "n3", 1));
  JobDecision decision = decide(job, pods);
  CHECK(decision.status.phase == "Running");
  CHECK(decision.status.ready == 2);
  REQUIRE(decision.remove.size() == 1);
  CHECK(decision.remove[0].name == pods[2].name);

  job.status.phase = "Stopping";  // it keeps the next group from starting
  CHECK(decide(job, {pods[2]}).status.phase == "Stopping");
  CHECK(decide(job, {pods[2]}).create.empty());
  job.status.phase = "Starting";  // its own pods were not seen yet
  CHECK(decide(job, {pods[2]}).status.phase == "Stopping");
}

TEST_CASE("a job whose pods end with 143 when they are stopped is restartable from then on") {
  JobObject job = running(kTwo);
  std::vector<PodFacts> pods = {sample_pod(0, "n1", 2), sample_pod(1, "n2", 2)};
  const auto end = [&](size_t i, int code) {
    pods[i] = ended(pods[i], PodEnd::disrupted, kNow + 1, code);
    pods[i].deleting = true;
    pods[i].deleted_s = kNow + 30;
  };
  end(0, 143);
  end(1, 143);
  CHECK_FALSE(decide(job, pods).status.restartable);  // it was not stopped by the controller
  job.status.phase = "Stopping";
  CHECK(decide(job, pods).status.restartable);
  CHECK(decide(job, {pods[1]}).status.restartable);  // the other one is gone already

  for (const int code : {0, 1, 137}) {
    end(1, code);
    CHECK_FALSE(decide(job, pods).status.restartable);
  }
  pods[1] = sample_pod(1, "n2", 2);  // still runs
  CHECK_FALSE(decide(job, pods).status.restartable);
  job.status.restartable = true;  // and it is not forgotten
  CHECK(decide(job, pods).status.restartable);
  CHECK(decide(job, {}).status.restartable);

  end(1, 143);
  job.status.restartable = false;
  job.live = true;  // its replicas come and go without a restart
  CHECK_FALSE(decide(job, pods).status.restartable);
}

TEST_CASE("a disruption is nobody's fault, nor are peers that failed after it") {
  JobObject job = running({"n1", "n2"});
  std::vector<PodFacts> pods = {ended(sample_pod(0, "n1", 2), PodEnd::failed, kNow - 1),
                                ended(sample_pod(1, "n2", 2), PodEnd::disrupted, kNow - 2)};
  pods[1].reason = "Evicted";
  const JobDecision decision = decide(job, pods);
  CHECK(decision.status.phase == "Stopping");
  CHECK(decision.status.failures == 0);
  CHECK(decision.remove.size() == 2);
  CHECK(decision.status.message.find("Evicted") != std::string::npos);
  CHECK(decision.status.allocation.size() == 2);
}

TEST_CASE("a pod of a running job that is gone already") {
  JobObject job = running({"n1", "n2"});
  const JobDecision decision = decide(job, {sample_pod(0, "n1", 2)});
  CHECK(decision.status.phase == "Stopping");
  CHECK(decision.remove.size() == 1);
  // Unless those just made are not seen yet.
  CHECK(decide(job, {sample_pod(0, "n1", 2)}, kNow, true).status.phase == "Running");
  CHECK(decide(job, {}, kNow, true).status.phase == "Running");
}

TEST_CASE("a running job whose pods went while nobody looked stops, and then starts") {
  JobObject job = running({"n1", "n2"});
  job.status.replicas = 2;
  job.status.held_since_s = kNow - 60;
  JobDecision decision = decide(job, {});
  CHECK(decision.status.phase == "Stopping");
  CHECK(decision.status.attained_service == doctest::Approx(120));
  CHECK(decision.create.empty());
  job.status = decision.status;
  decision = decide(job, {});
  CHECK(decision.status.phase == "Starting");
  CHECK(decision.status.group == 1);
  CHECK(decision.create.size() == 2);
}

TEST_CASE("a replica's service counts for each of its GPUs") {
  JobObject job = running({"n1", "n2"});
  Json changed = *job.pod_template;
  changed["spec"]["containers"][0]["resources"] = {{"limits", {{"nvidia.com/gpu", 4}}}};
  job.pod_template = std::make_shared<const Json>(changed);
  job.status.replicas = 2;
  job.status.held_since_s = kNow - 60;
  CHECK(decide(job, {}).status.attained_service == doctest::Approx(4 * 120));
}

TEST_CASE("a node without room is given back") {
  JobObject job = running({"n1"});
  job.status.phase = "Starting";
  std::vector<PodFacts> pods = {sample_pod(0, "n1", 1)};
  pods[0].ready = pods[0].scheduled = false;
  pods[0].reason = "Unschedulable";
  pods[0].message = "0/3 nodes: Insufficient cpu";
  JobDecision decision = decide(job, pods, kNow - 60 + 12);
  CHECK(decision.status.reason == "Unschedulable");
  CHECK(decision.status.phase == "Starting");
  CHECK(has_event(decision, "Unschedulable"));
  CHECK(decision.again_s == kNow);
  decision = decide(job, pods, kNow + 1);
  CHECK(decision.status.phase == "Stopping");
  CHECK(decision.status.allocation.empty());
  CHECK(decision.refused_by == std::map<std::string, int>{{"n1", 0}});
  job.status = decision.status;
  decision = decide(job, {});
  CHECK(decision.status.phase == "Pending");
  CHECK(decision.status.reason == "Unschedulable");
  CHECK(decision.status.message.find("Insufficient cpu") != std::string::npos);

  pods = {ended(sample_pod(0, "n1", 1), PodEnd::disrupted, 0)};
  for (const char* reason : {"OutOfcpu", "TopologyAffinityError", "NodeAffinity"}) {
    pods[0].reason = reason;
    decision = decide(running({"n1"}), pods, kNow - 59);
    CHECK(decision.status.allocation.empty());
    CHECK(decision.status.failures == 0);
    CHECK(decision.status.retry_s == kNow - 50);
    CHECK(decision.refused_by == std::map<std::string, int>{{"n1", 0}});
  }
}

TEST_CASE("failures are tried again, ever later, and not for ever") {
  JobObject job = running({"n1"}, {{"backoffLimit", 2}});
  std::vector<PodFacts> pods = {ended(sample_pod(0, "n1", 1), PodEnd::failed, kNow - 1, 3)};
  for (const double delay : {1.0, 2.0}) {
    JobDecision decision = decide(job, pods);
    CHECK(decision.status.phase == "Stopping");
    CHECK(decision.status.reason == "Backoff");
    CHECK(decision.status.message.find("exit code 3") != std::string::npos);
    CHECK(decision.status.retry_s == kNow + delay);
    job.status = decision.status;
    // While its pods go it is not counted again.
    CHECK(decide(job, pods).status.failures == job.status.failures);
    decision = decide(job, {}, kNow + delay / 2);
    CHECK(decision.status.phase == "Pending");
    CHECK(decision.status.message.find("exit code 3") != std::string::npos);
    CHECK(decision.again_s == kNow + delay);
    job.status = decision.status;
    decision = decide(job, {}, kNow + delay);
    CHECK_FALSE(decision.create.empty());
    job.status = decision.status;
    job.status.phase = "Running";
    pods[0].group = *job.status.group;
  }
  const JobDecision decision = decide(job, pods);
  CHECK(decision.status.phase == "Failed");
  CHECK(decision.status.reason == "PodFailure");
  CHECK(decision.remove.empty());  // its logs stay
  CHECK(decision.status.completed_s == kNow);
}

TEST_CASE("failures of long ago are forgiven, memory is named") {
  JobObject job = running({"n1"}, {{"backoffLimit", 1}});
  job.status.failures = 1;
  set_condition(job.status, "Ready", true, "Running", "", kNow - 60);
  const std::vector<PodFacts> pods = {ended(sample_pod(0, "n1", 1), PodEnd::memory, kNow - 1, 137)};
  JobDecision decision = decide(job, pods, kNow + 5000);
  CHECK(decision.status.phase == "Stopping");
  CHECK(decision.status.failures == 1);
  decision = decide(job, pods, kNow);
  CHECK(decision.status.phase == "Failed");
  CHECK(decision.status.reason == "OutOfMemory");
}

TEST_CASE("pickles are allowed where AdaptDL's own checkpoint needs them, once") {
  JobObject job = running({"n1", "n2"});
  job.backoff_limit = 0;
  // The peer that the refused replica left behind failed first.
  std::vector<PodFacts> pods = {ended(sample_pod(0, "n1", 2), PodEnd::failed, kNow - 5),
                                ended(sample_pod(1, "n2", 2), PodEnd::failed, kNow - 4)};
  pods[1].needs_pickles = true;
  SUBCASE("told, and no failure") {
    const JobDecision decision = decide(job, pods);
    CHECK(decision.status.phase == "Stopping");
    CHECK(decision.status.load_pickles);
    CHECK(decision.status.failures == 0);
    CHECK(has_event(decision, "LoadsPickles"));
    job.status = decision.status;
    CHECK(decide(job, {}).status.phase == "Starting");
    job.status.phase = "Running";
    CHECK(decide(job, pods).status.phase == "Failed");
  }
  SUBCASE("not against the template") {
    job.pod_template = std::make_shared<const Json>(Json::parse(R"({"spec": {"containers": [
        {"env": [7, {"name": "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "value": "0"}]}]}})"));
    const JobDecision decision = decide(job, pods);
    CHECK(decision.status.phase == "Failed");
    CHECK(!decision.status.load_pickles);
  }
}

TEST_CASE("a job that never starts is given up, however long that takes") {
  JobObject job = running({"n1"});
  double now = kNow;
  for (int tries = 1; tries <= 4; ++tries) {
    job.status.phase = "Starting";
    job.status.group_started_s = now;
    std::vector<PodFacts> pods = {sample_pod(0, "n1", 1)};
    pods[0].ready = false;
    CHECK(decide(job, pods, now).status.phase == "Starting");
    now += 600;
    job.status = decide(job, pods, now).status;
    CHECK(job.status.failures == tries);
    now += 1000;
  }
  CHECK(job.status.phase == "Failed");
  CHECK(job.status.reason == "StartDeadlineExceeded");
}

TEST_CASE("a deadline shorter than the usual looks is kept") {
  JobObject job = running({"n1"}, {{"startDeadlineSeconds", 30}});
  job.status.phase = "Starting";
  std::vector<PodFacts> pods = {sample_pod(0, "n1", 1)};
  pods[0].ready = false;
  CHECK(decide(job, pods, kNow - 60 + 20).again_s == kNow - 30);
}

TEST_CASE("pods that do not start show why, and have a deadline") {
  JobObject job = running({"n1"}, {{"startDeadlineSeconds", 100}, {"backoffLimit", 0}});
  job.status.phase = "Starting";
  std::vector<PodFacts> pods = {sample_pod(0, "n1", 1)};
  pods[0].ready = false;
  pods[0].reason = "ImagePullBackOff";
  pods[0].message = "no such image";
  CHECK(decide(job, pods, kNow - 60 + 5).again_s == kNow - 50);
  JobDecision decision = decide(job, pods);
  CHECK(decision.status.reason == "ImagePullBackOff");
  CHECK(decision.status.message.find("no such image") != std::string::npos);
  CHECK(has_event(decision, "ImagePullBackOff"));
  job.status = decision.status;
  CHECK_FALSE(has_event(decide(job, pods), "ImagePullBackOff"));  // once
  decision = decide(job, pods, kNow + 41);
  CHECK(decision.status.phase == "Failed");
  CHECK(decision.status.reason == "StartDeadlineExceeded");
  CHECK(decision.remove.size() == 1);
}

TEST_CASE("suspended, deleted, invalid, over") {
  // Others are given its nodes meanwhile.
  JobObject job = running({"n1"}, {{"suspend", true}});
  JobDecision decision = decide(job, {sample_pod(0, "n1", 1)});
  CHECK(decision.status.phase == "Stopping");
  CHECK(decision.status.allocation.empty());
  job.status = decision.status;
  decision = decide(job, {});
  CHECK(decision.status.phase == "Pending");
  CHECK(decision.status.reason == "Suspended");
  CHECK(decision.status.allocation.empty());
  CHECK(decision.create.empty());
  job.suspended = false;
  job.status = decision.status;
  CHECK(decide(job, {}).status.reason == "Waiting");

  job = running({"n1"}, {{"cancel", true}});
  decision = decide(job, {sample_pod(0, "n1", 1)});
  CHECK(decision.status.phase == "Failed");
  CHECK(decision.status.reason == "Cancelled");
  CHECK(decision.remove.size() == 1);
  decision = decide(job, {ended(sample_pod(0, "n1", 1), PodEnd::succeeded, kNow, 0)});
  CHECK(decision.status.phase == "Succeeded");

  job = running({"n1"});
  job.deleting = true;
  CHECK(decide(job, {sample_pod(0, "n1", 1)}).remove.size() == 1);

  job = running({"n1"});
  decision = reconcile(job, "spec.minReplicas: no", {sample_pod(0, "n1", 1)}, {kNow, kNodes});
  CHECK(decision.status.phase == "Failed");
  CHECK(decision.status.reason == "Invalid");
  CHECK(decision.status.completed_s == kNow);
  CHECK(decision.remove.size() == 1);

  job = read_sample({{"ttlSecondsAfterFinished", 10}},
                    {{"phase", "Succeeded"}, {"completionTimestamp", "2026-01-31T08:00:00Z"}});
  decision = decide(job, {}, kNow + 5);
  CHECK_FALSE(decision.remove_job);
  CHECK(decision.again_s == kNow + 10);
  CHECK(decide(job, {}, kNow + 10).remove_job);
}

TEST_CASE("deadlines count the time for which they were seen") {
  CHECK(elapsed_s(100, {}) == 100);
  CHECK(elapsed_s(3700, 100.0) == 100);    // the clock was set forward, or another process began it
  CHECK(elapsed_s(-3500, 100.0) == 100);   // back
  CHECK(elapsed_s(9000, 3600.0) == 9000);  // no leap of an hour explains that
  CHECK(elapsed_s(0, 3700.0) == 3700);

  JobObject job =
      read_sample({{"ttlSecondsAfterFinished", 600}},
                  {{"phase", "Succeeded"}, {"completionTimestamp", "2026-01-31T08:00:00Z"}});
  const auto removed = [&](double wall, double seen) {
    ClusterFacts facts{kNow + wall, kNodes};
    facts.seen_s = [seen](double) { return seen; };
    return reconcile(job, "", {}, facts).remove_job;
  };
  CHECK_FALSE(removed(3700, 100));
  CHECK_FALSE(removed(-3500, 100));
  CHECK(removed(700, 600));
  CHECK(removed(-3000, 600));

  job = running({"n1"}, {{"startDeadlineSeconds", 100}, {"backoffLimit", 0}});
  job.status.phase = "Starting";
  std::vector<PodFacts> pods = {sample_pod(0, "n1", 1)};
  pods[0].ready = false;
  const auto phase = [&](double wall, double seen) {
    ClusterFacts facts{kNow - 60 + wall, kNodes};
    facts.seen_s = [seen](double) { return seen; };
    return reconcile(job, "", pods, facts).status.phase;
  };
  CHECK(phase(3650, 50) == "Starting");
  CHECK(phase(-3550, 50) == "Starting");
  CHECK(phase(100, 100) == "Failed");
  CHECK(phase(-3500, 100) == "Failed");

  // A pause that begins in an hour is none.
  job = running({"n1"});
  job.status.phase = "Pending";
  job.status.retry_s = kNow + 3600;
  CHECK(decide(job, {}).create.size() == 1);
  job.status.retry_s = kNow + 30;
  CHECK(decide(job, {}).create.empty());
}

TEST_CASE("a leap of the clock ends no wait early, and makes none long") {
  for (const double leap : {-3500.0, 3500.0}) {
    const auto look = [&](const JobObject& job, const std::vector<PodFacts>& pods, double seen) {
      return reconcile(job, "", pods,
                       {kNow + leap, kNodes, false, [seen](double) { return seen; }});
    };
    // The end of a pod on a lost node, with a grace time of 30 s.
    JobObject job = running({"n9"});
    job.status.phase = "Stopping";
    std::vector<PodFacts> pods = {ended(sample_pod(0, "n9", 1), PodEnd::disrupted, 0)};
    pods[0].deleting = true;
    pods[0].deleted_s = kNow + 30;
    pods[0].grace_s = 30;
    CHECK(look(job, pods, 89).remove.empty());
    CHECK(look(job, pods, 90).remove.size() == 1);

    // Another replica that leads.
    job = running(kTwo, {{"liveRescale", true}});
    job.status.launcher_lost_s = kNow;
    pods = {ended(sample_pod(0, "n1", 2), PodEnd::failed, kNow, 137), sample_pod(1, "n2", 2)};
    CHECK(look(job, pods, 59).status.phase == "Running");
    CHECK(look(job, pods, 60).status.phase == "Stopping");

    // A new pod in place of one that failed.
    job = running(kTwo, {{"liveRescale", true}});
    pods = {sample_pod(0, "n1", 2), ended(sample_pod(1, "n2", 2), PodEnd::failed, kNow)};
    CHECK(look(job, pods, 1).create.empty());
    CHECK(look(job, pods, 30).create.size() == 1);

    // Failures before ten minutes of training do not count, by either clock.
    job = running({"n1"});
    job.status.failures = 3;
    set_allocation(job.status, {}, "", kNow);
    pods = {ended(sample_pod(0, "n1", 1), PodEnd::failed, kNow)};
    CHECK(look(job, pods, 10).status.failures == (leap > 0 ? 1 : 4));
    CHECK(look(job, pods, 600).status.failures == 1);
  }
}

TEST_CASE("moments are seen by the monotonic clock") {
  SeenMoments seen;
  const TimePoint start = Monotonic::now();
  CHECK(seen.seen_s(kNow, start) == 0);
  CHECK(seen.seen_s(kNow, start + std::chrono::seconds(70)) == 70);
  CHECK(seen.seen_s(kNow + 1, start + std::chrono::seconds(70)) == 0);
  CHECK(seen.seen_s(kNow + 1, start + std::chrono::seconds(7100)) == 7030);
  CHECK(seen.seen_s(kNow, start + std::chrono::seconds(7271)) == 0);  // forgotten
}

TEST_CASE("a pod on a node that is gone is removed without it") {
  JobObject job = running({"n9"});
  job.status.phase = "Stopping";
  std::vector<PodFacts> pods = {ended(sample_pod(0, "n9", 1), PodEnd::disrupted, 0)};
  pods[0].deleting = true;
  pods[0].deleted_s = kNow - 10;
  JobDecision decision = decide(job, pods);
  CHECK(decision.remove.empty());
  CHECK(decision.again_s == kNow + 50);
  decision = decide(job, pods, kNow + 60);
  REQUIRE(decision.remove.size() == 1);
  CHECK(decision.remove[0].at_once);
}

TEST_CASE("a pod that does not end on a node that is there is told of, and left") {
  JobObject job = running({"n1", "n2"});
  job.status.phase = "Stopping";
  job.status.message = "the allocation has changed";
  std::vector<PodFacts> pods = {ended(sample_pod(0, "n1", 2), PodEnd::disrupted, 0),
                                ended(sample_pod(1, "n2", 2), PodEnd::disrupted, 0)};
  for (PodFacts& pod : pods) pod.deleting = true, pod.deleted_s = kNow - 10;
  JobDecision decision = decide(job, pods);
  CHECK(decision.status.reason.empty());
  CHECK(decision.again_s == kNow + 50);
  decision = decide(job, pods, kNow + 50);
  CHECK(decision.remove.empty());
  CHECK(decision.status.phase == "Stopping");
  CHECK(decision.status.reason == "NodeLost");
  CHECK(decision.status.message.starts_with("replica 0 on n1 does not confirm its end"));
  CHECK(decision.status.message.find("`kubectl delete node n1`") != std::string::npos);
  CHECK(has_event(decision, "NodeLost"));
  CHECK(decision.again_s == kNow + 110);
  job.status = decision.status;
  decision = decide(job, pods, kNow + 110);  // nothing more to say, nor to write
  CHECK(decision.events.empty());
  CHECK(decision.status == job.status);
  CHECK(decide(job, {}, kNow + 120).status.reason != "NodeLost");
}

TEST_CASE("a live job whose replica does not end says so, and trains on") {
  JobObject job = running({"n1"}, {{"liveRescale", true}});
  REQUIRE(job.live);
  std::vector<PodFacts> pods = {sample_pod(0, "n1", 1),
                                ended(sample_pod(1, "n2", 1), PodEnd::disrupted, 0)};
  pods[1].deleting = true;
  pods[1].deleted_s = kNow - 100;
  for (const bool told : {false, true}) {
    const JobDecision decision = decide(job, pods);
    CHECK(decision.status.phase == "Running");
    CHECK(decision.status.reason == "NodeLost");
    CHECK(has_event(decision, "NodeLost") != told);
    job.status = decision.status;
  }
  CHECK(decide(job, {pods[0]}).status.reason.empty());
}

TEST_CASE("conditions tell the truth") {
  const JobDecision decision = decide(running({"n1"}), {sample_pod(0, "n1", 1)});
  const auto is = [&](const char* type) {
    for (const JobCondition& condition : decision.status.conditions) {
      if (condition.type == type) return condition.is;
    }
    FAIL("no condition ", type);
    return false;
  };
  CHECK(is("Scheduled"));
  CHECK(is("Ready"));
  CHECK_FALSE(is("Complete"));
  CHECK_FALSE(is("Failed"));
}

}  // namespace adaptdl::kubernetes::reconcile_test
