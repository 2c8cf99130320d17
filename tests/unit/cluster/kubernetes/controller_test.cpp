// The controller on a fake API server: what it writes, and what it does about old news.

#include "core/cluster/kubernetes/jobs/controller.h"

#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <optional>
#include <thread>

#include "core/cluster/kubernetes/jobs/supervisor_backend.h"
#include "core/formats/json_fields.h"
#include "core/policy/policy.h"
#include "tests/support/soon.h"
#include "tests/unit/cluster/kubernetes/fake_kinds.h"
#include "tests/unit/cluster/kubernetes/sample_objects.h"

namespace adaptdl::kubernetes {
namespace {

using adaptdl::testing::soon;

constexpr const char* kSpace = "team-a";
const kube::Resource kTestEvents{"events.k8s.io", "v1", "events", "", "", ""};

// What a leader has, but for the lease. Works from start() to stop().
class Leader {
 public:
  Leader(const kube::FakeApi& api, const std::string& key, bool reconciles = true,
         bool allocates = false)
      : client_(api.config()),
        policy_(make_policy("proportional", {})),
        cache_(client_, {[this](const std::string& id) {
                           if (const auto controller = ready_.load()) controller->job_changed(id);
                         },
                         [this] {
                           if (const auto controller = ready_.load())
                             controller->capacity_changed();
                         }}) {
    ControllerOptions options;
    options.reconciles = reconciles;
    options.allocates = allocates;
    options.allocator.event_gap_s = 0.01;
    options.pods.keys = [key](const JobObject& job) {
      if (key.empty()) throw std::bad_alloc();
      return job_keys(key, job);
    };
    controller_.emplace(acting_, client_, cache_, *policy_, std::move(options));
    ready_ = &*controller_;
  }
  ~Leader() { stop(); }
  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;

  void start() {
    REQUIRE(soon([&] { return cache_.synced(); }));
    goes_on_ = true;
    thread_ = std::thread([this] {
      controller_->run([this] { return goes_on_.load(); });
      ended_ = true;
    });
  }

  void stop() {  // after what is under way
    goes_on_ = false;
    if (thread_.joinable()) thread_.join();
  }

  void depose() { leads_ = false; }
  void hints(const Json& train) { controller_->hints(kSpace + std::string("/digits"), train); }
  bool ended() const { return ended_; }
  bool has_pods(const JobObject& job) const { return !cache_.pods(job).empty(); }
  uint64_t reconciled() const { return controller_->figures().reconciled; }

 private:
  std::atomic<bool> leads_ = true, ended_ = false;
  kube::Client client_;
  kube::Client acting_{client_, [this] { return leads_.load(); }};
  const std::unique_ptr<Policy> policy_;
  std::optional<Controller> controller_;
  std::atomic<Controller*> ready_ = nullptr;
  ClusterCache cache_;
  std::atomic<bool> goes_on_ = false;
  std::thread thread_;
};

struct Lab {
  kube::FakeApi api{operator_kinds()};
  kube::Client client{api.config()};

  Json put_job(Json status) {
    Json job = sample_job(Json::object(), std::move(status));
    job["metadata"].erase("resourceVersion");
    return api.put(kTestJobs.in(kSpace), std::move(job));
  }
  void put_node(const char* name) {
    Json node = Json::parse(R"({"spec": {}, "status": {
      "allocatable": {"cpu": "4", "memory": "1Gi", "pods": "10"},
      "conditions": [{"type": "Ready", "status": "True"}]}})");
    node["metadata"]["name"] = name;
    api.put(kube::kNodes, node);
  }
  std::atomic<int> conflicts = 0;
  void refuse_changes(int count) {  // the first ones
    api.set_fault([this, count](const HttpServerRequest& request) -> std::optional<HttpResponse> {
      if (request.method != "PATCH" || conflicts == count) return std::nullopt;
      ++conflicts;
      return kube::status_response(409, "Conflict", "the object has been modified");
    });
  }
  std::vector<Json> all(const kube::Resource& kind) { return client.list(kind.in(kSpace)).items; }
  Json status() { return client.get(kTestJobs.in(kSpace, "digits"))["status"]; }

  size_t told(const std::string& reason) {
    const std::vector<Json> events = all(kTestEvents);
    return static_cast<size_t>(std::count_if(events.begin(), events.end(), [&](const Json& event) {
      return event["reason"] == reason;
    }));
  }

  // The Secret that a pod reads its token from.
  std::optional<Json> secret_of(const Json& pod) {
    for (const Json& variable : pod["spec"]["containers"][0]["env"]) {
      if (variable["name"] == "ADAPTDL_JOB_TOKEN") {
        return client.find(kube::kSecrets.in(
            kSpace, variable["valueFrom"]["secretKeyRef"]["name"].get<std::string>()));
      }
    }
    return std::nullopt;
  }
};

const Json kStarting =
    Json::parse(R"({"phase": "Starting", "group": 0, "allocation": ["n1"], "replicas": 1})");

// A job tells two metrics, then one.
void check_metric_is_dropped(Lab& lab, Leader& leader) {
  const auto metrics = [&] { return object_at(object_at(lab.status(), "train"), "trainMetrics"); };
  const Json both = {{"loss", 1.0}, {"gpuBusyPercent", 87.0}}, one = {{"loss", 2.0}};
  leader.hints({{"initBatchSize", 32}, {"trainMetrics", both}});
  REQUIRE(soon([&] { return metrics() == both; }));
  leader.hints({{"initBatchSize", 32}, {"trainMetrics", one}});
  CHECK(soon([&] { return metrics() == one; }));
}

}  // namespace

TEST_CASE("controller: a group has its token, though the one before it did not come to that") {
  Lab lab;
  std::string problem;
  const JobObject job = read_job(lab.put_job(kStarting), problem);  // no pod, and no Secret
  Leader leader(lab.api, "key");
  leader.start();
  REQUIRE(soon([&] { return lab.all(kube::kPods).size() == 1; }));
  const auto secret = lab.secret_of(lab.all(kube::kPods)[0]);
  REQUIRE(secret);
  CHECK((*secret)["stringData"]["token"] == job_keys("key", job).token);
  CHECK((*secret)["metadata"]["ownerReferences"][0]["uid"] == job.uid);
  const std::vector<Json> policies = lab.all(kube::kNetworkPolicies);
  REQUIRE(policies.size() == 1);
  CHECK(policies[0]["metadata"]["ownerReferences"][0]["uid"] == job.uid);
  const Json& spec = policies[0]["spec"];
  CHECK(spec["podSelector"]["matchLabels"]["adaptdl/job"] == job.name);
  CHECK(spec["ingress"][0]["from"][0]["podSelector"] == spec["podSelector"]);
}

TEST_CASE("controller: several replicas have a Service by which they find the one of rank 0") {
  Lab lab;
  std::string problem;
  lab.put_node("n2");
  const JobObject job = read_job(
      lab.put_job(Json::parse(
          R"({"phase": "Starting", "group": 0, "allocation": ["n1", "n2"], "replicas": 2})")),
      problem);
  Leader leader(lab.api, "key");
  leader.start();
  REQUIRE(soon([&] { return lab.all(kube::kPods).size() == 2; }));
  const std::vector<Json> services = lab.all(kube::kServices);
  REQUIRE(services.size() == 1);
  CHECK(services[0]["metadata"]["name"] == lab.all(kube::kPods)[1]["spec"]["subdomain"]);
  CHECK(services[0]["metadata"]["ownerReferences"][0]["uid"] == job.uid);
}

TEST_CASE("controller: pods are made of the whole of a template that is too large to be kept") {
  Lab lab;
  Json job = sample_job(Json::object(), kStarting);
  job["metadata"].erase("resourceVersion");
  const Json script = {{"name", "SCRIPT"}, {"value", std::string(200'000, 'x')}};
  job["spec"]["template"]["spec"]["containers"][0]["env"] = Json::array({script});
  lab.api.put(kTestJobs.in(kSpace), job);
  Leader leader(lab.api, "key");
  leader.start();
  REQUIRE(soon([&] { return lab.all(kube::kPods).size() == 1; }));
  const Json pod = lab.all(kube::kPods)[0];
  CHECK(pod["spec"]["containers"][0]["env"][0] == script);
  CHECK(lab.secret_of(pod));
}

TEST_CASE("controller: a metric that a job does not tell any more is not kept") {
  Lab lab;
  lab.put_job(kStarting);
  Leader leader(lab.api, "key");
  leader.start();
  check_metric_is_dropped(lab, leader);
  leader.hints({{"initBatchSize", 32}});
  CHECK(soon([&] { return object_at(lab.status()["train"], "trainMetrics").empty(); }));
}

TEST_CASE("controller: a metric is dropped also before the watch has delivered it") {
  Lab lab;
  lab.put_job(kStarting);
  std::atomic<int> looks = 0;
  // The list is answered once, and then it is old.
  lab.api.set_fault([&](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    if (request.method != "GET" || !request.path.ends_with("/" + kTestJobs.plural) || looks++ == 0)
      return std::nullopt;
    return kube::status_response(503, "ServiceUnavailable", "later");
  });
  Leader leader(lab.api, "key");
  leader.start();
  check_metric_is_dropped(lab, leader);
}

TEST_CASE("controller: pods start also where no Service and no NetworkPolicy may be created") {
  Lab lab;
  lab.put_node("n2");
  lab.put_job(Json::parse(
      R"({"phase": "Starting", "group": 0, "allocation": ["n1", "n2"], "replicas": 2})"));
  lab.api.set_fault([](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    if (request.path.find("/services") == std::string::npos &&
        request.path.find("/networkpolicies") == std::string::npos) {
      return std::nullopt;
    }
    return kube::status_response(403, "Forbidden", "no such things here");
  });
  Leader leader(lab.api, "key");
  leader.start();
  CHECK(soon([&] { return lab.all(kube::kPods).size() == 2; }));
}

TEST_CASE("controller: only what is wrong with its pods counts as a job's failure") {
  struct Answer {
    HttpResponse response;
    int failures;
    const char* reason;
  };
  const auto status = [](int code, const char* reason, const char* message) {
    return kube::status_response(code, reason, message);
  };
  const std::vector<Answer> answers = {
      {status(422, "Invalid", "spec.containers: no"), 1, "Backoff"},
      {status(403, "Forbidden", "pods \"a\" is forbidden: violates PodSecurity \"restricted\""), 1,
       "Backoff"},
      {status(403, "Forbidden", "pods \"a\" is forbidden: exceeded quota: small"), 0,
       "QuotaExceeded"},
      {status(403, "Forbidden",
              "pods is forbidden: User \"system:serviceaccount:adaptdl:adaptdl\" cannot create "
              "resource \"pods\" in API group \"\" in the namespace \"team-a\""),
       0, "PodCreationError"},
      {status(401, "Unauthorized", "Unauthorized"), 0, "PodCreationError"},
      {status(408, "Timeout", "the request did not complete in time"), 0, "PodCreationError"},
      {status(409, "AlreadyExists", "pods \"a\" already exists"), 0, "PodCreationError"},
      {status(500, "InternalError", "etcd"), 0, "PodCreationError"},
      {{200, {{"Content-Type", "text/html"}}, "<html>log in</html>"}, 0, "PodCreationError"}};
  for (const Answer& answer : answers) {
    CAPTURE(answer.response.body);
    Lab lab;
    lab.put_job(kStarting);
    lab.api.set_fault([&](const HttpServerRequest& request) -> std::optional<HttpResponse> {
      const bool makes_pod = request.method == "POST" && request.path.ends_with("/pods");
      return makes_pod ? std::optional(answer.response) : std::nullopt;
    });
    Leader leader(lab.api, "key");
    leader.start();
    CHECK(soon([&] { return lab.status().value("reason", "") == answer.reason; }));
    leader.stop();
    CHECK(lab.status().value("failures", 0) == answer.failures);
    CHECK(lab.all(kube::kPods).empty());
  }
}

TEST_CASE("controller: a token of another key, or of another job of the name, is not taken") {
  Lab lab;
  std::string problem, key = "key";
  for (int life = 0; life < 3; ++life) {
    const JobObject job = read_job(lab.put_job(kStarting), problem);
    Leader leader(lab.api, key);
    leader.start();
    REQUIRE(soon([&] { return lab.all(kube::kPods).size() == 1; }));
    const Json pod = lab.all(kube::kPods)[0];
    const auto secret = lab.secret_of(pod);
    REQUIRE(secret);
    CHECK((*secret)["stringData"]["token"] == job_keys(key, job).token);
    leader.stop();
    lab.api.erase(kube::kPods.in(kSpace, kube::metadata_text(pod, "name")));
    if (life == 0) key = "of another installation";
    if (life == 1) lab.api.erase(kTestJobs.in(kSpace, "digits"));  // and made anew
  }
  CHECK(lab.all(kube::kSecrets).size() == 3);  // none was removed or changed
}

TEST_CASE("controller: pods that the watch has not told of keep the next group from starting") {
  Lab lab;
  std::atomic<bool> behind = true;
  lab.api.set_fault([&](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    if (!behind || request.path != "/api/v1/pods") return std::nullopt;
    if (request.query.find("watch=1") != std::string::npos) {
      return kube::status_response(500, "InternalError", "not now");
    }
    return HttpResponse{
        200,
        {{"Content-Type", "application/json"}},
        R"({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": []})"};
  });
  Json status = kStarting;
  status["phase"] = "Running";
  std::string problem;
  JobObject job = read_job(lab.put_job(status), problem);
  PodSettings settings;
  Json pod = make_pod(job, job.status, {0, "n1"}, {"n1", ""}, settings);
  lab.api.put(kube::kPods.in(kSpace), pod);

  Leader leader(lab.api, "key");
  leader.start();
  REQUIRE(soon([&] { return leader.reconciled() > 0; }));
  leader.stop();
  CHECK(lab.status()["group"] == 0);
  CHECK(lab.all(kube::kPods).size() == 1);

  // What it was waiting for comes, and goes: then there is a next one.
  behind = false;
  leader.start();
  REQUIRE(soon([&] { return leader.has_pods(job); }));
  lab.api.erase(kube::kPods.in(kSpace, kube::metadata_text(pod, "name")));
  REQUIRE(soon([&] { return lab.status()["group"] == 1; }));
  CHECK(soon([&] { return lab.all(kube::kPods).size() == 1; }));
}

TEST_CASE("controller: an allocation that was refused is not told of") {
  Lab lab;
  lab.refuse_changes(3);
  lab.put_node("n1");
  lab.put_job({{"phase", "Pending"}});
  Leader leader(lab.api, "key", false, true);
  leader.start();
  REQUIRE(soon([&] { return lab.told("Scheduled") > 0; }));
  leader.stop();
  CHECK(lab.conflicts == 3);
  CHECK(lab.status()["allocation"] == Json::array({"n1"}));
  CHECK(lab.told("Scheduled") == 1);
}

TEST_CASE("controller: why a job waits is told, although the job changes meanwhile") {
  Lab lab;
  lab.refuse_changes(2);
  lab.put_job({{"phase", "Pending"}});  // and there is no node
  Leader leader(lab.api, "key", false, true);
  leader.start();
  CHECK(soon([&] { return !lab.status().value("why", "").empty(); }));
  CHECK(lab.conflicts == 2);
}

TEST_CASE("controller: the pauses between failures in a row grow, and differ") {
  CHECK(retry_pause(1, 1, 0) == Seconds(1));
  CHECK(retry_pause(3, 1, 0) == Seconds(4));
  CHECK(retry_pause(3, 1, 0.5) == Seconds(5));
  CHECK(retry_pause(1, 0.2, 0) == Seconds(0.2));
  CHECK(retry_pause(1'000'000, 1, 0) == Seconds(60));
}

TEST_CASE("controller: a leader that was deposed writes no more, and ends") {
  Lab lab;
  lab.put_job(kStarting);
  std::atomic<Leader*> leader = nullptr;
  std::atomic<int> later = 0;
  lab.api.set_fault([&](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    if (request.method == "GET" || leader == nullptr) return std::nullopt;
    ++later;
    // It would try again: what it asked for was not done.
    leader.load()->depose();
    return kube::status_response(503, "ServiceUnavailable", "not now");
  });
  Leader deposed(lab.api, "key");
  leader = &deposed;
  deposed.start();
  CHECK(soon([&] { return deposed.ended(); }));
  CHECK(later == 1);
  deposed.stop();
  CHECK(lab.all(kube::kPods).empty());
}

TEST_CASE("controller: a job whose pods take long holds up no other") {
  Lab lab;
  std::string problem;
  Json slow = sample_job(Json::object(), kStarting);
  slow["metadata"] = {{"namespace", kSpace}, {"name", "slow"}};
  lab.api.put(kTestJobs.in(kSpace), slow);
  lab.api.set_fault([&](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    const bool its_pod = request.method == "POST" && request.path.ends_with("/pods") &&
                         request.body.find("slow") != std::string::npos;
    if (!its_pod) return std::nullopt;
    return kube::status_response(503, "ServiceUnavailable", "not now");  // tried for 30 s
  });
  Leader leader(lab.api, "key");
  leader.start();
  REQUIRE(soon([&] { return leader.reconciled() > 0; }));
  const JobObject job = read_job(lab.put_job(kStarting), problem);
  REQUIRE(soon([&] { return lab.all(kube::kPods).size() == 1; }));
  Json pod = lab.all(kube::kPods)[0];
  pod["status"] = {{"phase", "Succeeded"}};
  lab.api.put(kube::kPods.in(kSpace), pod);
  CHECK(soon([&] { return lab.status()["phase"] == "Succeeded"; }));
  leader.depose();  // else it would try to the end of its patience
}

TEST_CASE("controller: an exception of any kind ends no thread, and its job is tried again") {
  Lab lab;
  lab.put_job(kStarting);
  Leader leader(lab.api, "");  // its tokens throw
  leader.start();
  CHECK(soon([&] { return leader.reconciled() >= 3; }));
  CHECK(lab.all(kube::kPods).empty());
}

TEST_CASE("controller: a clock that was set forward deletes and ends nothing") {
  Lab lab;
  // As an operator sees it that begins after a leap of an hour.
  Json job =
      sample_job({{"ttlSecondsAfterFinished", 600}},
                 {{"phase", "Succeeded"}, {"completionTimestamp", rfc3339(wall_now_s() - 3700)}});
  job["metadata"].erase("resourceVersion");
  lab.api.put(kTestJobs.in(kSpace), std::move(job));
  Leader leader(lab.api, "key");
  leader.start();
  REQUIRE(soon([&] { return leader.reconciled() > 0; }));
  leader.stop();
  CHECK(lab.client.find(kTestJobs.in(kSpace, "digits")));
}

TEST_CASE("controller: a node that did not take a job's pod is not the next to be tried") {
  Lab lab;
  lab.put_node("n1");
  lab.put_node("n2");
  std::string problem;
  const JobObject job = read_job(lab.put_job(kStarting), problem);
  Json pod = make_pod(job, job.status, {0, "n1"}, {"n1", ""}, PodSettings{});
  pod["status"] = {{"phase", "Failed"}, {"reason", "NodeAffinity"}, {"message", "not here"}};
  lab.api.put(kube::kPods.in(kSpace), pod);
  Leader leader(lab.api, "key", true, true);
  leader.start();
  REQUIRE(soon([&] { return lab.status()["group"] == 1; }));
  CHECK(lab.status()["allocation"] == Json::array({"n2"}));
}

}  // namespace adaptdl::kubernetes
