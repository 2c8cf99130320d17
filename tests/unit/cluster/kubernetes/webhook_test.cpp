// The webhook on a fake API server, asked over TLS as the API server asks.

#include "core/cluster/kubernetes/webhook/webhook.h"

#include <atomic>
#include <doctest/doctest.h>
#include <memory>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/formats/base64.h"
#include "core/formats/json_fields.h"
#include "core/kube/informer.h"
#include "core/net/http.h"
#include "tests/support/soon.h"
#include "tests/unit/cluster/kubernetes/fake_kinds.h"
#include "tests/unit/cluster/kubernetes/sample_objects.h"
#include "tests/unit/net/certificate.h"

namespace adaptdl::kubernetes::webhook_test {
namespace {

using adaptdl::testing::soon;

constexpr const char* kHost = "adaptdl-validator.adaptdl.svc";
constexpr double kLong = 90 * 86400;

struct Lab {
  kube::FakeApi api{operator_kinds()};
  kube::Client client{api.config()};

  Lab() { configure(); }

  // As `adaptdl install` leaves it.
  void configure() {
    const Json service = {{"service", {{"name", "adaptdl-validator"}, {"namespace", "adaptdl"}}}};
    const Json hook = {{"name", kWebhookName}, {"clientConfig", service}};
    const Json other = {{"name", "other"}, {"clientConfig", {{"caBundle", "eA=="}}}};
    api.put(kTestConfigurations,
            {{"metadata", {{"name", kWebhookConfiguration}}}, {"webhooks", {other, hook}}});
  }

  std::string told() {  // whom the API server is to believe
    const Json found = client.get(kTestConfigurations.named(kWebhookConfiguration));
    return from_base64(text_at_pointer(found, "/webhooks/1/clientConfig/caBundle"), "caBundle");
  }

  Json secret() { return client.get(kube::kSecrets.in("adaptdl", kCertificateSecret)); }

  static WebhookOptions options(double life_s = kLong) {
    return {
        .name_space = "adaptdl", .address = "127.0.0.1", .port = 0, .certificate_life_s = life_s};
  }
};

// A new connection each time, as after a change of certificates.
HttpResponse ask(uint16_t port, const std::string& authorities, HttpRequest request) {
  HttpClient client({.authorities = authorities, .server_name = kHost});
  request.url = fmt::format("https://127.0.0.1:{}{}", port, request.url);
  request.timeout = Seconds(20);
  return client.send(request);
}

HttpRequest review(const Json& spec) {
  const Json request = {{"uid", "42"},
                        {"operation", "CREATE"},
                        {"namespace", "team-a"},
                        {"object", {{"metadata", {{"name", "x"}}}, {"spec", spec}}}};
  return {.method = "POST",
          .url = "/validate?timeout=10s",
          .headers = {{"Content-Type", "application/json"}},
          .body = dump_json({{"kind", "AdmissionReview"}, {"request", request}})};
}

}  // namespace

TEST_CASE("webhook: certificates are made, told, and shared by those who come later") {
  Lab lab;
  const Webhook first(lab.client, Lab::options());
  REQUIRE(soon([&] { return first.ready(); }));
  const std::string authorities = lab.told();
  CHECK(ask(first.port(), authorities, {.url = "/healthz"}).status == 200);
  CHECK(text_at_pointer(lab.client.get(kTestConfigurations.named(kWebhookConfiguration)),
                        "/webhooks/0/clientConfig/caBundle") == "eA==");  // another's
  const Json made = lab.secret();
  CHECK(made["metadata"]["labels"][kLabelInstalled] == "adaptdl");

  const Webhook second(lab.client, Lab::options());
  REQUIRE(soon([&] { return second.ready(); }));
  CHECK(lab.secret() == made);
  CHECK(ask(second.port(), authorities, {.url = "/healthz"}).status == 200);
  // Under another name it is not believed.
  HttpClient stranger({.authorities = authorities, .server_name = "elsewhere.adaptdl.svc"});
  CHECK_THROWS_AS(
      stranger.send({.url = fmt::format("https://127.0.0.1:{}/healthz", second.port())}),
      HttpError);
}

TEST_CASE("webhook: of two that begin at once one makes the certificates") {
  Lab lab;
  std::unique_ptr<Webhook> one, other;
  std::thread beside([&] {
    kube::Client client(lab.api.config());
    one = std::make_unique<Webhook>(client, Lab::options());
    soon([&] { return one->ready(); });
    one.reset();
  });
  other = std::make_unique<Webhook>(lab.client, Lab::options());
  beside.join();
  REQUIRE(soon([&] { return other->ready(); }));
  const ServerCertificates kept = from_secret_data(lab.secret()["data"]);
  CHECK(lab.told() == kept.authorities);
  CHECK(ask(other->port(), kept.authorities, {.url = "/healthz"}).status == 200);
}

TEST_CASE("webhook: certificates are changed in time, through refusals, and believed again") {
  Lab lab;
  const Webhook first(lab.client, Lab::options(3)), second(lab.client, Lab::options(3));
  REQUIRE(soon([&] { return first.ready() && second.ready(); }));
  // The API server refuses now and then, and one of two writers is told 409.
  std::atomic<int> count = 0;
  lab.api.set_fault([&](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    if (request.method == "GET" || ++count % 2 == 0) return std::nullopt;
    if (count % 4 == 1) return kube::status_response(500, "InternalError", "etcd");
    return kube::status_response(409, "Conflict", "the object has been modified");
  });
  std::set<std::string> served;
  std::string authorities = lab.told();
  const TimePoint begun = Monotonic::now();
  while (served.size() < 3 && seconds_since(begun) < 60) {
    served.insert(from_secret_data(lab.secret()["data"]).server.certificate);
    // A server is believed by whoever has just looked; that may take one more look.
    for (const Webhook* webhook : {&first, &second}) {
      CHECK(soon([&] {
        authorities = lab.told();
        try {
          return ask(webhook->port(), authorities, {.url = "/healthz"}).status == 200;
        } catch (const HttpError&) {
          return false;
        }
      }));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK(served.size() == 3);
}

TEST_CASE("webhook: who must show a certificate must do so after a change of its own, too") {
  Lab lab;
  const Certificate caller = make_certificate(), stranger = make_certificate();
  // Of the same authorities, but of a server: some pod may have one.
  const KeyPair authority = make_authority("servers", wall_now_s(), 600);
  const KeyPair server = make_server_certificate(authority, {"pod"}, wall_now_s(), 600);
  WebhookOptions options = Lab::options(3);
  options.client_authorities = caller.certificate + authority.certificate;
  const Webhook webhook(lab.client, options);
  REQUIRE(soon([&] { return webhook.ready(); }));
  const auto answers = [&](const Certificate& shown) {
    HttpClient client({.authorities = lab.told(),
                       .certificate = shown.certificate,
                       .key = shown.key,
                       .server_name = kHost});
    try {
      return client.send({.url = fmt::format("https://127.0.0.1:{}/healthz", webhook.port())})
                 .status == 200;
    } catch (const HttpError&) {
      return false;
    }
  };
  const std::string first = from_secret_data(lab.secret()["data"]).server.certificate;
  for (const bool changed : {false, true}) {
    CAPTURE(changed);
    if (changed) {
      REQUIRE(
          soon([&] { return from_secret_data(lab.secret()["data"]).server.certificate != first; }));
    }
    CHECK(soon([&] { return answers(caller); }));
    CHECK_FALSE(answers({}));
    CHECK_FALSE(answers(stranger));
    CHECK_FALSE(answers({server.certificate, server.key}));
  }
  options.client_authorities = "";  // of a file that has become empty
  CHECK_THROWS_WITH_AS(Webhook(lab.client, options), doctest::Contains("authorities"), Error);
}

TEST_CASE("webhook: reviews, and what is none") {
  Lab lab;
  const Webhook webhook(lab.client, Lab::options());
  REQUIRE(soon([&] { return webhook.ready(); }));
  const std::string authorities = lab.told();
  const auto asked = [&](HttpRequest request) {
    return ask(webhook.port(), authorities, std::move(request));
  };
  const auto verdict = [&](const Json& spec) {
    const HttpResponse response = asked(review(spec));
    CHECK(response.status == 200);
    return Json::parse(response.body)["response"];
  };
  const Json good = sample_job()["spec"];
  CHECK(verdict(good)["allowed"] == true);
  Json bad = good;
  bad["minReplicas"] = 3;
  bad["maxReplicas"] = 2;
  CHECK(verdict(bad)["allowed"] == false);
  CHECK(verdict(bad)["status"]["message"].get<std::string>().starts_with("spec.maxReplicas"));

  CHECK(asked({.url = "/validate"}).status == 405);
  CHECK(asked({.url = "/other"}).status == 404);
  for (const char* body : {"", "{", "[]", "7", R"({"kind": "Pod"})", R"({"request": 3})"}) {
    CAPTURE(body);
    HttpRequest request = review(good);
    request.body = body;
    CHECK(asked(request).status == 400);
  }
  // The API server checks metadata before it asks; others that reach the port do not.
  for (const char* metadata : {"1", "[]", R"({"generateName": 1})", R"({"generateName": {}})",
                               R"({"name": 1})", R"({"name": "x", "uid": []})"}) {
    CAPTURE(metadata);
    HttpRequest request = review(good);
    Json sent = Json::parse(request.body);
    sent["request"]["object"]["metadata"] = Json::parse(metadata);
    request.body = dump_json(sent);
    CHECK(asked(request).status == 200);
  }
  CHECK(verdict(good)["allowed"] == true);

  // What the API server says of the template, with the field as the job has it.
  std::atomic<int> code = 422;
  lab.api.set_fault([&](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    if (request.path.find("/podtemplates") == std::string::npos) return std::nullopt;
    if (request.query.find("dryRun=All") == std::string::npos) return text_response(500, "not dry");
    const Json cause = {{"field", "template.spec.containers[0].image"},
                        {"message", "Required value"},
                        {"reason", "FieldValueRequired"}};
    return HttpResponse{code,
                        {},
                        dump_json({{"kind", "Status"},
                                   {"code", code.load()},
                                   {"reason", "Invalid"},
                                   {"details", {{"causes", {cause}}}}})};
  });
  const Json refused = verdict(good);
  CHECK(refused["allowed"] == false);
  CHECK(refused["status"]["code"] == 422);
  CHECK(refused["status"]["message"].get<std::string>().find(
            "spec.containers[0].image: Required value") != std::string::npos);
  code = 500;  // it cannot say: the controller will find out
  CHECK(verdict(good)["allowed"] == true);
}

TEST_CASE("webhook: many reviews at once, and an end among them") {
  Lab lab;
  auto webhook = std::make_unique<Webhook>(lab.client, Lab::options());
  REQUIRE(soon([&] { return webhook->ready(); }));
  const std::string authorities = lab.told();
  const uint16_t port = webhook->port();
  std::atomic<int> admitted = 0, over = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      for (;;) {
        try {
          const HttpResponse response = ask(port, authorities, review(sample_job()["spec"]));
          if (response.status == 200) ++admitted;
          if (response.status == 503) throw HttpError("over", false);
        } catch (const HttpError&) {
          ++over;
          return;
        }
      }
    });
  }
  CHECK(soon([&] { return admitted >= 24; }));
  webhook.reset();
  for (std::thread& client : clients) client.join();
  CHECK(over == 8);
}

TEST_CASE("webhook: it is not ready where nobody was told of it") {
  Lab lab;
  lab.api.erase(kTestConfigurations.named(kWebhookConfiguration));
  const Webhook webhook(lab.client, Lab::options());
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK_FALSE(webhook.ready());
  lab.configure();
  CHECK(soon([&] { return webhook.ready(); }));
}

}  // namespace adaptdl::kubernetes::webhook_test
