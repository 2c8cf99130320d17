// Whole operators on a fake API server: who leads, and how one goes.

#include "core/cluster/kubernetes/operator.h"

#include <condition_variable>
#include <doctest/doctest.h>
#include <future>
#include <mutex>

#include "core/base/error.h"
#include "core/cluster/kubernetes/jobs/supervisor_backend.h"
#include "core/cluster/kubernetes/leader_lease.h"
#include "core/formats/json_fields.h"
#include "core/kube/informer.h"
#include "core/net/http.h"
#include "core/net/http_server.h"
#include "tests/support/soon.h"
#include "tests/unit/cluster/kubernetes/fake_kinds.h"
#include "tests/unit/cluster/kubernetes/sample_objects.h"

namespace adaptdl::kubernetes::operator_test {
namespace {

using adaptdl::testing::soon;

constexpr double kGone = 5;  // s after it was told to go; what its pod's end waits for

// An operator with a thread and a client of its own, as a process has them.
class Running {
 public:
  Running(const kube::FakeApi& api, const std::string& identity, OperatorParts parts = {},
          const std::function<void(OperatorOptions&)>& change = {})
      : client_(api.config(), {.cancel = &stop_}) {
    OperatorOptions options;
    options.parts = parts;
    options.name_space = "adaptdl";
    options.identity = identity;
    options.policy = "proportional";
    options.address = "127.0.0.1";
    options.supervisor_port = options.metrics_port = 0;
    if (change) change(options);
    done_ = std::async(std::launch::async, [this, options] {
      Operator serving(client_, options, stop_);
      serving.run();
    });
  }

  // Seconds that it took to end.
  double stop() {
    const TimePoint begun = Monotonic::now();
    stop_.cancel();
    done_.get();
    return seconds_since(begun);
  }

 private:
  Cancellation stop_;
  kube::Client client_;
  std::future<void> done_;
};

struct Lab {
  kube::FakeApi api{operator_kinds()};
  kube::Client client{api.config()};

  std::string leader() {
    const auto lease = client.find(kube::kLeases.in("adaptdl", kLeaseName));
    return lease ? text_at_pointer(*lease, "/spec/holderIdentity") : "";
  }
};

}  // namespace

TEST_CASE("an operator that is told to go gives the lease back, and the next one leads at once") {
  Lab lab;
  Running first(lab.api, "first");
  REQUIRE(soon([&] { return lab.leader() == "first"; }));
  Running second(lab.api, "second");
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // it has seen who leads
  CHECK(first.stop() < kGone);
  CHECK(lab.leader() != "first");
  const TimePoint begun = Monotonic::now();
  CHECK(soon([&] { return lab.leader() == "second"; }));
  CHECK(seconds_since(begun) < LeaderLeaseOptions{}.lease_s / 2);  // nobody waited for its end
  CHECK(second.stop() < kGone);
  CHECK(lab.leader().empty());
}

TEST_CASE("the lease of an operator that does a part of it alone") {
  OperatorParts parts;
  CHECK(parts.decides());
  CHECK(parts.lease() == std::string("adaptdl-operator"));
  parts.controller = false;
  CHECK(parts.lease() == std::string("adaptdl-operator-allocator"));
  parts.allocator = false;
  CHECK(parts.lease() == std::string("adaptdl-operator-expander"));
  parts.expander = false;
  CHECK_FALSE(parts.decides());

  // One that decides nothing needs none, and is there for programs at once.
  Lab lab;
  Running answers(lab.api, "answers", parts);
  REQUIRE(
      soon([&] { return lab.client.find(kube::kSecrets.in("adaptdl", kKeySecret)).has_value(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(lab.client.list(kube::kLeases.in("adaptdl")).items.empty());
  CHECK(answers.stop() < kGone);
}

TEST_CASE("tokens are not made of nothing") {
  Lab lab;
  Json secret = {{"apiVersion", "v1"}, {"kind", "Secret"}, {"metadata", {{"name", kKeySecret}}}};
  for (const Json& data : {Json(), Json::object(), Json({{"key", ""}})}) {
    secret["data"] = data;
    lab.api.put(kube::kSecrets.in("adaptdl"), secret);
    OperatorOptions options;
    options.name_space = "adaptdl";
    options.policy = "proportional";
    CHECK_THROWS_WITH_AS(Operator(lab.client, options, Cancellation()),
                         doctest::Contains("adaptdl-operator-key has no data.key"), Error);
  }
}

TEST_CASE("hints may come while an operator begins") {
  Lab lab;
  lab.api.put(kube::kSecrets.in("adaptdl"), {{"apiVersion", "v1"},
                                             {"kind", "Secret"},
                                             {"metadata", {{"name", kKeySecret}}},
                                             {"data", {{"key", "c2VjcmV0"}}}});
  Json job = sample_job();
  job.update({{"apiVersion", "adaptdl.petuum.com/v1"}, {"kind", "AdaptDLJob"}});
  job["metadata"] = {{"namespace", "team-a"}, {"name", "digits"}};
  std::string problem;
  const JobObject stored = read_job(lab.api.put(kTestJobs.in("team-a"), job), problem);
  lab.api.put(kTestConfigurations, {{"metadata", {{"name", kWebhookConfiguration}}},
                                    {"webhooks", Json::array({{{"name", kWebhookName}}})}});
  // It serves programs, but makes no certificate yet.
  lab.api.set_fault([](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    if (request.path.find(kCertificateSecret) == std::string::npos) return std::nullopt;
    return kube::status_response(503, "ServiceUnavailable", "not yet");
  });
  uint16_t port = 0;
  {
    const HttpServer free({.address = "127.0.0.1"},
                          [](const HttpServerRequest&, const HttpReply&) {});
    port = free.port();
  }
  Running begins(lab.api, "begins", {}, [port](OperatorOptions& options) {
    options.supervisor_port = port;
    options.webhook_port = 0;
  });
  HttpClient program;
  const auto status_of = [&](const char* method, const std::string& path) {
    try {
      return program
          .send({.method = method,
                 .url = fmt::format("http://127.0.0.1:{}{}", port, path),
                 .body = method == std::string("PUT") ? R"({"initBatchSize": 8})" : "",
                 .timeout = Seconds(5)})
          .status;
    } catch (const HttpError&) {
      return 0;  // it does not listen yet
    }
  };
  const std::string hints = "/j/" + job_keys("c2VjcmV0", stored).token + "/hints/team-a/digits";
  CHECK(soon([&] { return status_of("PUT", hints) == 200; }));
  CHECK(status_of("GET", "/healthz") == 200);  // after the hints were handed on

  lab.api.set_fault({});
  CHECK(soon([&] {
    return status_of("PUT", hints) == 200 &&
           lab.client.get(kTestJobs.in("team-a", "digits"))
               .contains(Json::json_pointer("/status/train/initBatchSize"));
  }));
  begins.stop();
}

TEST_CASE("a leader that is to add no nodes removes the placeholders of before") {
  Lab lab;
  const auto pod = [&](const std::string& name, const Json& labels) {
    lab.api.put(kube::kPods.in("adaptdl"), {{"apiVersion", "v1"},
                                            {"kind", "Pod"},
                                            {"metadata", {{"name", name}, {"labels", labels}}},
                                            {"spec", Json::object()}});
  };
  pod("adaptdl-placeholder-1", {{"adaptdl/placeholder", "true"}});
  pod("adaptdl-placeholder-2", {{"adaptdl/placeholder", "true"}});
  pod("other", {{"app", "other"}});
  Running leader(lab.api, "leader");
  CHECK(soon([&] { return lab.client.list(kube::kPods.in("adaptdl")).items.size() == 1; }));
  CHECK(lab.client.find(kube::kPods.in("adaptdl", "other")));
  leader.stop();
}

TEST_CASE("an operator goes though the API server does not answer") {
  Lab lab;
  std::mutex mutex;
  std::condition_variable changed;
  bool frozen = true;
  {
    Running leader(lab.api, "leader");
    REQUIRE(soon([&] { return lab.leader() == "leader"; }));
    lab.api.set_fault([&](const HttpServerRequest&) -> std::optional<HttpResponse> {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !frozen; });
      return std::nullopt;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // a renewal hangs
    CHECK(leader.stop() < kGone);
  }
  {
    Running beginner(lab.api, "beginner");  // it asks for the key, and gets no answer
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    CHECK_THROWS_AS(beginner.stop(), Cancelled);
  }
  const std::lock_guard lock(mutex);
  frozen = false;
  changed.notify_all();
}

}  // namespace adaptdl::kubernetes::operator_test
