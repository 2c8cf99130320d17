// Whole operators on a fake API server: who leads, and how one goes.

#include "core/cluster/kubernetes/operator.h"

#include <condition_variable>
#include <doctest/doctest.h>
#include <future>
#include <mutex>

#include "core/base/error.h"
#include "core/cluster/kubernetes/election.h"
#include "core/kube/informer.h"
#include "tests/unit/kubernetes/fake_kinds.h"

namespace adaptdl::kubernetes {
namespace {

constexpr Seconds kSoon{20};  // on a busy machine
constexpr double kGone = 2;   // s after it was told to go; what its pod's end waits for

bool soon(const std::function<bool()>& condition) {
  const TimePoint begun = Monotonic::now();
  while (!condition()) {
    if (seconds_since(begun) > kSoon.count()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

// An operator with a thread and a client of its own, as a process has them.
class Running {
 public:
  Running(const kube::FakeApi& api, const std::string& identity, OperatorParts parts = {})
      : client_(api.config(), {.cancel = &stop_}) {
    OperatorOptions options;
    options.parts = parts;
    options.name_space = "adaptdl";
    options.identity = identity;
    options.policy = "proportional";
    options.address = "127.0.0.1";
    options.supervisor_port = options.metrics_port = 0;
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
    return lease ? kube::text_at(*lease, "/spec/holderIdentity") : "";
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
  CHECK(seconds_since(begun) < ElectionOptions{}.lease_s / 2);  // nobody waited for its end
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

}  // namespace adaptdl::kubernetes
