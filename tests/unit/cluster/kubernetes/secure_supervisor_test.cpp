// The supervisor over HTTPS, with its certificates on a fake API server.

#include "core/cluster/kubernetes/secure_supervisor.h"

#include <doctest/doctest.h>
#include <set>
#include <thread>

#include "core/job/worker_environment.h"
#include "core/kube/informer.h"
#include "core/net/http.h"
#include "runtime/standalone/supervisor.h"
#include "tests/unit/cluster/kubernetes/fake_kinds.h"

namespace adaptdl::kubernetes::secure_supervisor_test {
namespace {

struct OneJob : SupervisorBackend {
  std::optional<SupervisedJob> find(const std::string&, const std::string& name) override {
    if (name != "digits") return std::nullopt;
    return SupervisedJob{"token"};
  }
  std::optional<std::vector<std::string>> addresses(const std::string&, const std::string&,
                                                    int64_t) override {
    return std::vector<std::string>{"10.0.0.1"};
  }
  void hints(const std::string&, const std::string&, const SchedulingHints&) override {}
};

struct Lab {
  kube::FakeApi api{operator_kinds()};
  kube::Client client{api.config()};
  OneJob jobs;

  SecureSupervisorOptions options(double life_s = 90 * 86400) {
    return {"adaptdl", "127.0.0.1", 0, life_s};
  }

  ServerCertificates kept() {
    return from_secret_data(client.get(kube::kSecrets.in("adaptdl", kSupervisorSecret))["data"]);
  }
};

// A new connection each time.
HttpResponse ask(uint16_t port, const std::string& authorities, const std::string& path) {
  HttpClient client({.authorities = authorities, .server_name = kSupervisorHost});
  return client.send({.url = fmt::format("https://127.0.0.1:{}{}", port, path)});
}

}  // namespace

TEST_CASE("a live job's launcher finds its group over HTTPS, and no impostor") {
  Lab lab;
  const SecureSupervisor supervisor(lab.client, lab.jobs, lab.options());
  const std::string trusted = supervisor.authorities();
  CHECK(trusted == lab.kept().authorities);
  const HttpResponse found = ask(supervisor.port(), trusted, "/j/token/discover/a/digits/0");
  CHECK(found.status == 200);
  CHECK(found.body == R"(["10.0.0.1"])");
  CHECK(ask(supervisor.port(), trusted, "/j/other/discover/a/digits/0").status == 403);
  // Another operator of the namespace proves the same; one of another installation does not.
  const SecureSupervisor second(lab.client, lab.jobs, lab.options());
  CHECK(ask(second.port(), trusted, "/healthz").status == 200);
  Lab elsewhere;
  const SecureSupervisor impostor(elsewhere.client, elsewhere.jobs, elsewhere.options());
  CHECK_THROWS_AS(ask(impostor.port(), trusted, "/healthz"), HttpCertificateError);
}

TEST_CASE("so does a program of the library") {
  Lab lab, elsewhere;
  const SecureSupervisor supervisor(lab.client, lab.jobs, lab.options());
  const SecureSupervisor impostor(elsewhere.client, elsewhere.jobs, elsewhere.options());
  const TlsAuthorities trusted(supervisor.authorities(), kSupervisorHost);
  const auto url = [](const SecureSupervisor& whose) {
    return fmt::format("https://127.0.0.1:{}/j/token", whose.port());
  };
  const auto soon = [] { return Monotonic::now() + std::chrono::seconds(20); };
  standalone::Place place;
  place.supervisor_url = url(supervisor);
  place.supervisor_authorities = trusted;
  place.job_id = "a/digits";
  CHECK(standalone::discover(place, soon()) == "10.0.0.1");
  const auto refused = [&](const SecureSupervisor& whose, const TlsAuthorities& authorities) {
    const auto base = standalone::parse_http_base(url(whose), "URL", authorities);
    try {
      standalone::http_exchange(base, "GET", "/discover/a/digits/0", "", soon());
    } catch (const Error& error) {
      const std::string said = error.what();
      INFO(said);
      CHECK(said.find("token") == std::string::npos);
      CHECK(said.find("its certificate is not to be believed") != std::string::npos);
      return true;
    }
    return false;
  };
  CHECK(refused(impostor, trusted));
  CHECK(refused(supervisor, TlsAuthorities(supervisor.authorities(), "another.name")));
  CHECK(refused(supervisor, TlsAuthorities(supervisor.authorities(), "127.0.0.1")));
  CHECK_THROWS_AS(TlsAuthorities("no PEM", kSupervisorHost), Error);
}

TEST_CASE("its certificate is renewed, and pods that run go on trusting it") {
  Lab lab;
  // It has a third of that for the next one: 2 s, also on a loaded machine.
  const SecureSupervisor supervisor(lab.client, lab.jobs, lab.options(6));
  const std::string trusted = supervisor.authorities();
  std::set<std::string> served;
  const TimePoint begun = Monotonic::now();
  while (served.size() < 3 && seconds_since(begun) < 60) {
    served.insert(lab.kept().server.certificate);
    CHECK(ask(supervisor.port(), trusted, "/healthz").status == 200);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK(served.size() == 3);
  CHECK(supervisor.authorities() == trusted);
}

}  // namespace adaptdl::kubernetes::secure_supervisor_test
