#include "core/cluster/local/local_supervisor.h"

#include <doctest/doctest.h>

#include "core/base/poll.h"
#include "core/net/http.h"

using namespace adaptdl;
using namespace adaptdl::local;

namespace {

struct SupervisedJobs {
  LocalSupervisor supervisor;
  HttpClient client{{}};

  SupervisedJobs() {
    supervisor.serve(0);
    supervisor.add("a", "token-a");
    supervisor.add("b", "token-b");
    for (const char* job : {"a", "b"}) supervisor.live(job, 2);
  }
  // `prefix`: "/j/TOKEN" or "".
  HttpResponse discover(const std::string& prefix, const std::string& place) {
    return client.send({.url = supervisor.url() + prefix + "/discover/" + place + "/0?timeout=0.1",
                        .timeout = Seconds(20)});
  }
  int hint(const std::string& prefix, const std::string& job) {
    return client
        .send({.method = "PUT",
               .url = supervisor.url() + prefix + "/hints/default/" + job,
               .body = R"({"initBatchSize":64})",
               .timeout = Seconds(20)})
        .status;
  }
  bool told() const { return wait_ready(supervisor.fd(), POLLIN, Monotonic::now() + kSoon); }

  static constexpr std::chrono::seconds kSoon{20};
};

}  // namespace

TEST_CASE("local supervisor: a job's programs are answered by its token, and nobody else") {
  SupervisedJobs jobs;
  const HttpResponse found = jobs.discover("/j/token-a", "default/a");
  CHECK(found.status == 200);
  CHECK(found.body == R"(["127.0.0.1","127.0.0.1"])");
  CHECK(jobs.discover("", "default/a").status == 401);
  for (const char* other : {"/j/token-b", "/j/token-", "/j/token-aa", "/j/TOKEN-A"}) {
    CAPTURE(other);
    CHECK(jobs.discover(other, "default/a").status == 403);
    CHECK(jobs.hint(other, "a") == 403);
  }
  CHECK(jobs.hint("", "a") == 401);
  CHECK(jobs.hint("/j/token-a", "c") == 404);
  CHECK(jobs.discover("/j/token-a", "elsewhere/a").status == 408);  // an unknown job may come
  CHECK(jobs.supervisor.take_hints().empty());

  CHECK(jobs.hint("/j/token-a", "a") == 200);
  REQUIRE(jobs.told());
  const auto hints = jobs.supervisor.take_hints();
  CHECK(hints.size() == 1);
  CHECK(hints.at("a")["initBatchSize"] == 64);
  CHECK(jobs.supervisor.take_hints().empty());
}

TEST_CASE("local supervisor: what a job sent last is not taken for its successor's") {
  SupervisedJobs jobs;
  CHECK(jobs.hint("/j/token-a", "a") == 200);
  REQUIRE(jobs.told());
  jobs.supervisor.remove("a");
  CHECK(jobs.discover("/j/token-a", "default/a").status == 408);
  CHECK(jobs.hint("/j/token-a", "a") == 404);
  jobs.supervisor.add("a", "another");
  CHECK(jobs.supervisor.take_hints().empty());
  CHECK(jobs.discover("/j/token-a", "default/a").status == 403);
  CHECK(jobs.discover("/j/another", "default/a").status == 408);  // it has no replicas yet
  jobs.supervisor.live("a", 1);
  CHECK(jobs.discover("/j/another", "default/a").body == R"(["127.0.0.1"])");
  jobs.supervisor.gone("a");
  CHECK(jobs.discover("/j/another", "default/a").status == 408);
}

TEST_CASE("local supervisor: it takes its port again, or another if that is taken") {
  uint16_t port = 0;
  {
    LocalSupervisor before;
    before.serve(0);
    port = before.port();
    CHECK(port < 32768);  // the system assigns those above by itself
    LocalSupervisor beside;
    beside.serve(port);
    CHECK(beside.port() != port);
    CHECK(beside.port() != 0);
  }
  LocalSupervisor after;
  after.serve(port);
  CHECK(after.port() == port);
}
