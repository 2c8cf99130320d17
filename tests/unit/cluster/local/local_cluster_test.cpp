#include "core/cluster/local/local_cluster.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/base/files.h"

using namespace adaptdl;
using namespace adaptdl::local;

namespace {

// Two small GPUs and a large one.
struct Lab {
  TemporaryDirectory folder;
  Machine machine{.name = "here",
                  .gpus = true,
                  .slots = 3,
                  .cores = 8,
                  .memory = 1000,
                  .kinds = {"small", "large"},
                  .slot_kinds = {0, 0, 1}};
  ActiveJobs jobs{join_path(folder.path(), "state.db")};
  SlotLedger slots{3, machine.slot_kinds};
  LocalCluster cluster{jobs, machine, slots};

  ActiveJob& add(const std::string& name, int64_t memory = 0) {
    ActiveJob job;
    job.record.name = name;
    job.record.max_replicas = 2;
    job.spec.kind = JobSpec::Kind::archive;
    if (memory > 0) job.spec.request.memory_bytes = memory;
    return jobs.add(std::move(job));
  }
  // One that an earlier service has left.
  ActiveJob& running(const std::string& name, const std::vector<int>& on, int wanted) {
    ActiveJob& job = add(name);
    job.state.live = true;
    job.state.wanted = wanted;
    slots.hold(name, on);
    job.state.granted = slots.held_by(name);
    return job;
  }
  ClusterJob seen(const std::string& name) {
    for (const ClusterJob& job : cluster.jobs()) {
      if (job.name == name) return job;
    }
    FAIL(name);
    return {};
  }
};

using Nodes = std::vector<std::string>;

}  // namespace

TEST_CASE("a job is on the kind of slots that the scheduler gave it") {
  Lab lab;
  ActiveJob& job = lab.add("a");
  CHECK(lab.seen("a").nodes.empty());
  lab.cluster.allocate("a", {"large"}, "it pays");
  CHECK(job.state.kind == 1);
  CHECK(job.state.wanted == 1);
  CHECK(lab.seen("a").nodes == Nodes{"large"});
  CHECK(lab.jobs.store().events("a", 0, 9).back().message == "replicas 0 -> 1 on large: it pays");
  lab.cluster.allocate("a", {}, "others wait");
  CHECK(lab.seen("a").nodes.empty());
  lab.cluster.allocate("a", {"small", "small"}, "");
  CHECK(job.state.kind == 0);
}

TEST_CASE("what a start costs a job is known to the next service") {
  Lab lab;
  ActiveJob& job = lab.add("a");
  job.start_s = 7;
  lab.jobs.save(job);
  CHECK(lab.seen("a").hints.start_cost_s == 7);
  ActiveJobs next(join_path(lab.folder.path(), "state.db"));
  const auto loaded = next.load(lab.machine);
  REQUIRE(loaded.size() == 1);
  CHECK(loaded[0].job->start_s == 7);
}

TEST_CASE("a job whose training is finished cannot be scaled any more") {
  Lab lab;
  ActiveJob& job = lab.running("a", {0}, 1);
  CHECK(lab.seen("a").preemptible);
  job.state.finished = true;
  CHECK_FALSE(lab.seen("a").preemptible);
  CHECK(lab.seen("a").max_replicas == 1);
}

TEST_CASE("a job goes only to the kinds of slots that it names") {
  Lab lab;
  lab.add("a").spec.request.accelerators = {"Large"};
  CHECK(lab.seen("a").request.contains("other-than:small"));
  CHECK_FALSE(lab.seen("a").request.contains("other-than:large"));
}

TEST_CASE("what all slots share goes to jobs of any kind, and to each once") {
  Lab lab;
  lab.add("a", 600);
  ActiveJob& b = lab.add("b", 600);
  CHECK(lab.cluster.nodes()[1].free_for_jobs["memory"] == 1000);
  lab.cluster.allocate("a", {"small"}, "");
  CHECK(lab.cluster.nodes()[0].free_for_jobs["memory"] == 1000);
  CHECK(lab.cluster.nodes()[1].free_for_jobs["memory"] == 400);
  CHECK_THROWS_AS(lab.cluster.allocate("b", {"large"}, ""), Error);
  CHECK(b.state.wanted == 0);
  lab.cluster.allocate("a", {}, "");
  lab.cluster.allocate("b", {"large"}, "");
  CHECK(b.state.wanted == 1);
  // Also beside jobs on slots of its own kind.
  lab.add("c", 300);
  lab.cluster.allocate("c", {"small"}, "");
  lab.add("d", 200);
  CHECK_THROWS_AS(lab.cluster.allocate("d", {"small"}, ""), Error);
}

TEST_CASE("a command that may not go on after a restart stays on its kind of slots") {
  Lab lab;
  ActiveJob& job = lab.running("a", {2}, 1);
  job.state.restarts = true;
  lab.cluster.fit_jobs();
  CHECK(lab.seen("a").request.contains("other-than:small"));
  CHECK_FALSE(lab.seen("a").request.contains("other-than:large"));
  job.restartable = true;
  CHECK_FALSE(lab.seen("a").request.contains("other-than:small"));
}

TEST_CASE("slots of a job that fits on no kind any more are not given to others") {
  Lab lab;
  lab.running("wide", {1, 2}, 2).record.min_replicas = 3;
  lab.cluster.fit_jobs();
  CHECK(lab.cluster.jobs().empty());
  CHECK(lab.cluster.nodes()[0].free_for_jobs["nvidia.com/gpu"] == 1);
  CHECK(lab.cluster.nodes()[1].free_for_jobs["nvidia.com/gpu"] == 0);
}

TEST_CASE("a job whose kinds are gone keeps its slots, also where all are alike") {
  Lab lab;
  lab.machine.kinds = {""};
  lab.machine.slot_kinds = {};
  LocalCluster alike(lab.jobs, lab.machine, lab.slots);
  lab.running("a", {0, 1}, 2).spec.request.accelerators = {"huge"};
  CHECK(alike.jobs().empty());
  CHECK(alike.nodes()[0].free_for_jobs["nvidia.com/gpu"] == 1);
}

TEST_CASE("a command that would lose its work stays, also on a kind that it does not name") {
  Lab lab;
  ActiveJob& job = lab.running("a", {0}, 1);
  job.spec.kind = JobSpec::Kind::command;
  job.state.restarts = true;
  job.spec.request.accelerators = {"large"};
  CHECK_FALSE(lab.seen("a").request.contains("other-than:small"));
  CHECK(lab.seen("a").request.contains("other-than:large"));
  job.spec.restartable = true;
  CHECK(lab.seen("a").request.contains("other-than:small"));
  CHECK_FALSE(lab.seen("a").request.contains("other-than:large"));
}

TEST_CASE("a job gets no slots of a kind on which it could not start") {
  Lab lab;
  lab.add("a").unfit_kinds = {1};
  const Resources request = lab.seen("a").request;
  const auto fits = [&](const ClusterNode& node) {
    for (const auto& [resource, amount] : request) {
      const auto found = node.free_for_jobs.find(resource);
      if (found == node.free_for_jobs.end() || found->second < amount) return false;
    }
    return true;
  };
  CHECK(fits(lab.cluster.nodes()[0]));
  CHECK_FALSE(fits(lab.cluster.nodes()[1]));
}

TEST_CASE("after a start of the service jobs go on with what they have") {
  Lab lab;
  ActiveJob& one = lab.running("one", {2}, 1);
  ActiveJob& two = lab.running("two", {0, 1}, 2);
  lab.cluster.fit_jobs();
  CHECK(one.state.kind == 1);
  CHECK(two.state.kind == 0);
  CHECK(lab.seen("two").nodes == Nodes{"small", "small"});
}

TEST_CASE("jobs whose slots have come to be of other kinds go on until a round decides") {
  Lab lab;
  ActiveJob& mixed = lab.running("mixed", {1, 2}, 2);
  ActiveJob& moving = lab.add("moving");  // from a slot that is not there any more
  moving.state.live = true;
  moving.state.wanted = 1;
  ActiveJob& waiting = lab.add("waiting");
  waiting.state.wanted = waiting.record.replicas = 1;
  lab.cluster.fit_jobs();
  CHECK(mixed.state.kind == kAnyKind);
  CHECK(mixed.state.wanted == 2);
  CHECK(lab.seen("mixed").nodes == Nodes{"small", "large"});
  CHECK(moving.state.kind == 0);
  CHECK(waiting.state.wanted == 0);  // its kind is not known any more
  ActiveJob& growing = lab.running("growing", {0}, 2);
  lab.cluster.fit_jobs();
  CHECK(growing.state.kind == 0);
  CHECK(growing.state.wanted == 1);
  lab.cluster.allocate("mixed", {"large"}, "");
  CHECK(mixed.state.kind == 1);
}
