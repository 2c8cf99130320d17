#include "core/oci/registry.h"

#include "core/oci/digest.h"
#include "core/oci/media_types.h"
#include "tests/unit/base/expect_error.h"
#include "tests/unit/net/certificate.h"
#include "tests/unit/oci/fake_registry.h"

namespace adaptdl::oci::registry_test {
namespace {

using Access = FakeRegistryOptions::Access;
using Pauses = std::vector<double>;

RegistryOptions noting(Pauses& pauses) {
  RegistryOptions options;
  options.pause = [&](Seconds pause) { pauses.push_back(pause.count()); };
  return options;
}

Registry open_registry(const FakeRegistry& fake, const std::string& repository = "app",
                       RegistryOptions options = {}, const CredentialPlaces& places = {}) {
  options.plain_http = true;
  return Registry(fake.reference(repository), options, places);
}

Blob file_blob(const TemporaryDirectory& folder, const std::string& bytes) {
  replace_file(folder.file("blob"), bytes);
  return {digest_of(bytes), bytes.size(), folder.file("blob"), ""};
}

HttpResponse status(int code, HttpHeaders headers = {}) {
  return {code, std::move(headers), ""};
}

}  // namespace

TEST_CASE("blobs are sent once, from memory and from files, and come back whole") {
  FakeRegistry fake;
  TemporaryDirectory folder;
  Registry registry = open_registry(fake);
  std::vector<std::string> states;
  const Blob small = blob_of("small"), large = file_blob(folder, std::string(3'000'000, 'x'));
  for (int i = 0; i < 2; ++i) {
    registry.upload("app", small);
    registry.upload("app", large);
  }
  CHECK(registry.bytes_sent() == 3'000'005);
  CHECK(fake.blob_bytes() == 3'000'005);
  CHECK(fake.count("PUT") == 2);
  CHECK(registry.blob("app", small.digest, 5) == "small");
  CHECK_ERROR(registry.blob("app", small.digest, 4), "is larger than 4 bytes");
  registry.download("app", large.digest, large.size, folder.file("back"));
  CHECK(digest_of_file(folder.file("back")) == large.digest);
  CHECK_ERROR(registry.download("app", large.digest, 7, folder.file("short")),
              "is larger than the expected 7 bytes");
  CHECK_FALSE(path_exists(folder.file("short")));
  CHECK_ERROR(registry.blob("app", digest_of("none"), 5),
              "BLOB_UNKNOWN: said the fake (status 404)");
  CHECK(fake.problems().empty());
}

TEST_CASE("what comes with another digest is refused") {
  FakeRegistry fake;
  TemporaryDirectory folder;
  Registry registry = open_registry(fake);
  const std::string digest = fake.add_blob("app", "right");
  for (int i = 0; i < 2; ++i) fake.answer_next("GET /v2/app", {{200, {}, "wrong"}});
  CHECK_ERROR(registry.blob("app", digest, 99), "has another digest");
  CHECK_ERROR(registry.download("app", digest, 5, folder.file("back")), "has another digest");
  CHECK_FALSE(path_exists(folder.file("back")));
  fake.answer_next("GET /v2/app", {{200, {{"Docker-Content-Digest", digest}}, "{}"}});
  CHECK_ERROR(registry.manifest("app", "latest"), "the data was changed in transit");
  fake.answer_next("GET /v2/app", {{200, {}, "{}"}});
  CHECK_ERROR(registry.manifest("app", digest), "the data was changed in transit");
  CHECK_ERROR(registry.manifest("app", "none"), "image not found");
}

TEST_CASE("a busy registry is asked three times, 1 s and 3 s apart or when it says") {
  FakeRegistry fake;
  Pauses pauses;
  Registry registry = open_registry(fake, "app", noting(pauses));
  const std::string digest = fake.add_blob("app", "b");
  for (const int passing : {408, 429, 500, 502, 503, 504}) {
    CAPTURE(passing);
    pauses.clear();
    fake.answer_next("GET /v2/app/blobs", {status(passing), status(passing)});
    CHECK(registry.blob("app", digest, 9) == "b");
    CHECK(pauses == Pauses{1, 3});
  }
  pauses.clear();
  fake.answer_next("GET /v2/app/blobs", {status(429, {{"Retry-After", "17"}})});
  CHECK(registry.blob("app", digest, 9) == "b");
  CHECK(pauses == Pauses{17});
  pauses.clear();
  fake.answer_next("GET /v2/app/blobs", {status(429, {{"Retry-After", "3600"}})});
  CHECK_ERROR(registry.blob("app", digest, 9), "status 429");
  CHECK(pauses.empty());
  fake.answer_next("GET /v2/app/blobs", {status(500), status(500), status(500)});
  CHECK_ERROR(registry.blob("app", digest, 9), "status 500");
  pauses.clear();
  fake.answer_next("GET /v2/app/blobs", {status(403)});
  CHECK_ERROR(registry.blob("app", digest, 9), "status 403");
  CHECK(pauses.empty());
}

TEST_CASE("a registry that forbids is told with its reason and as missing access") {
  FakeRegistry fake;
  const HttpResponse denied{403, {}, R"({"errors": [{"code": "DENIED", "message": "expired"}]})"};
  const auto refusal = [&](const RegistryOptions& options, const auto& action) {
    Registry registry = open_registry(fake, "app", options);
    try {
      action(registry);
    } catch (const Error& error) {
      CHECK(error.exit_code() == ExitCode::auth);
      CHECK(contains(error.what(), "is refused: DENIED: expired (status 403); "));
      return std::string(error.what());
    }
    FAIL_CHECK("no Error");
    return std::string();
  };
  const auto upload = [](Registry& registry) { registry.upload("app", blob_of("x")); };
  fake.answer_next("HEAD", {status(403)});
  fake.answer_next("POST", {denied});
  CHECK(contains(refusal({}, upload), "`docker login " + fake.name() + "`"));
  CHECK(fake.count("POST") == 1);
  fake.answer_next("GET /v2/app/manifests", {denied});
  refusal({}, [](Registry& registry) { registry.manifest("app", "latest"); });
  fake.answer_next("PUT /v2/app/manifests", {denied});
  refusal({}, [](Registry& registry) { registry.put_manifest("app", "t", kOciManifest, "{}"); });

  // docker's login means nothing to a proxy.
  fake.answer_next("POST", {denied});
  RegistryOptions proxied;
  proxied.proxy.url = "http://" + fake.name();
  const std::string told = refusal(proxied, upload);
  CHECK(contains(told, "needs the permission to use the registry through this address"));
  CHECK_FALSE(contains(told, "login"));
}

TEST_CASE("who refuses only to look for a blob gets it") {
  FakeRegistry fake;
  Registry registry = open_registry(fake);
  for (const int refused : {400, 403, 405}) {
    CAPTURE(refused);
    const Blob blob = blob_of(fmt::format("blob {}", refused));
    fake.answer_next("HEAD", {status(refused)});
    registry.upload("app", blob);
    CHECK(fake.blobs("app").contains(blob.digest));
  }
  fake.answer_next("HEAD", {status(429, {{"Retry-After", "3600"}})});
  CHECK_ERROR(registry.upload("app", blob_of("x")), "cannot look for sha256:");
}

TEST_CASE("storage elsewhere that forbids is no question of the login") {
  HttpServer elsewhere({}, [](const HttpServerRequest&, const HttpReply& reply) {
    reply.send({403, {}, ""});
  });
  FakeRegistry fake({.blobs_elsewhere = fmt::format("http://127.0.0.1:{}", elsewhere.port())});
  Registry registry = open_registry(fake);
  const std::string digest = fake.add_blob("app", "layer");
  try {
    registry.blob("app", digest, 99);
    FAIL_CHECK("no Error");
  } catch (const Error& error) {
    CHECK(error.exit_code() == ExitCode::error);
    CHECK(contains(error.what(), "cannot read " + digest + ": status 403"));
  }
  elsewhere.stop(Seconds(0));
}

TEST_CASE("an upload that fails half way is begun anew") {
  FakeRegistry fake({.put_status = 202});  // and the first one is lost
  TemporaryDirectory folder;
  Pauses pauses;
  Registry registry = open_registry(fake, "app", noting(pauses));
  const Blob blob = file_blob(folder, "some bytes");
  fake.answer_next("POST", {status(503)});
  registry.upload("app", blob);
  CHECK(pauses == Pauses{1, 3});
  CHECK(fake.blobs("app").at(blob.digest) == "some bytes");
  fake.answer_next("PUT", {status(500), status(500), status(500)});
  CHECK_ERROR(registry.upload("app", blob_of("other")), "cannot store sha256:");
  CHECK(fake.problems().empty());
}

TEST_CASE("where one request is too large, pieces go") {
  FakeRegistry fake({.largest_body = 20u << 20});
  TemporaryDirectory folder;
  Registry registry = open_registry(fake);
  std::string bytes;
  for (int i = 0; bytes.size() < (33u << 20); ++i) bytes += fmt::format("{:>15} ", i);
  registry.upload("app", file_blob(folder, bytes));
  CHECK(fake.count("PATCH") == 3);
  CHECK(fake.blobs("app").at(digest_of(bytes)) == bytes);
  CHECK(fake.problems().empty());
}

TEST_CASE("mounting moves no bytes; where it is refused, nothing is left behind") {
  FakeRegistry fake;
  Registry registry = open_registry(fake, "new");
  const std::string digest = fake.add_blob("base", "layer");
  CHECK(registry.mount("new", digest, "base"));
  CHECK(registry.has_blob("new", digest));
  CHECK_FALSE(registry.mount("new", digest_of("none"), "base"));
  CHECK(fake.count("DELETE /v2/new/blobs/uploads/") == 1);
  CHECK(fake.blob_bytes() == 0);
  CHECK(fake.problems().empty());
}

TEST_CASE("tokens are asked for by credentials, one for pushing and one for mounting") {
  FakeRegistry fake({.access = Access::token});
  const FakeLogin login(fake.name());
  Registry registry = open_registry(fake, "app", {}, login.places);
  const std::string digest = fake.add_blob("base", "layer");
  registry.upload("app", blob_of("bytes"));
  CHECK(registry.mount("app", digest, "base"));
  CHECK(fake.problems().empty());
}

TEST_CASE("a token that ends in the middle is replaced") {
  FakeRegistry fake({.access = Access::token, .token_uses = 2});
  const FakeLogin login(fake.name());
  Registry registry = open_registry(fake, "app", {}, login.places);
  for (int i = 0; i < 5; ++i) registry.upload("app", blob_of(fmt::format("bytes {}", i)));
  CHECK(fake.blobs("app").size() == 5);
  CHECK(fake.problems().empty());
}

TEST_CASE("Basic works, identity tokens work, and wrong ones are told with what to do") {
  {
    FakeRegistry fake({.access = Access::basic});
    const FakeLogin login(fake.name());
    open_registry(fake, "app", {}, login.places).upload("app", blob_of("b"));
    CHECK(fake.problems().empty());
    CHECK_ERROR(open_registry(fake).upload("app", blob_of("c")),
                "no credentials found for it, log in");
    const FakeLogin wrong(fake.name(), "somebody", "else");
    CHECK_ERROR(open_registry(fake, "app", {}, wrong.places).upload("app", blob_of("c")),
                "may do this: `docker login 127.0.0.1:");
  }
  FakeRegistry fake({.access = Access::token, .identity_token = "it"});
  const FakeLogin login(fake.name(), "<token>", "it");
  open_registry(fake, "app", {}, login.places).upload("app", blob_of("b"));
  const FakeLogin wrong(fake.name(), "<token>", "not it");
  try {
    open_registry(fake, "app", {}, wrong.places).upload("app", blob_of("c"));
    FAIL("no Error");
  } catch (const Error& error) {
    CHECK(error.exit_code() == ExitCode::auth);
    CHECK(contains(error.what(), "refuses the credentials"));
    CHECK_FALSE(contains(error.what(), "not it"));
  }
}

TEST_CASE("credentials stay with the registry, wherever it sends for blobs or with them") {
  std::vector<std::string> told;
  HttpServer elsewhere({}, [&](const HttpServerRequest& request, const HttpReply& reply) {
    told.push_back(request.header("authorization").value_or("none"));
    reply.send({request.method == "PUT" ? 201 : 200, {}, "layer"});
  });
  const std::string there = fmt::format("http://127.0.0.1:{}", elsewhere.port());
  FakeRegistry fake({.access = Access::basic, .blobs_elsewhere = there});
  const FakeLogin login(fake.name());
  Registry registry = open_registry(fake, "app", {}, login.places);
  CHECK(registry.blob("app", fake.add_blob("app", "layer"), 99) == "layer");
  fake.answer_next("POST /v2/app/blobs/uploads/", {status(202, {{"Location", there + "/u?a=b"}})});
  registry.upload("app", blob_of("x"));
  elsewhere.stop(Seconds(0));
  CHECK(told == std::vector<std::string>{"none", "none"});
}

TEST_CASE("who refuses access elsewhere decides nothing about the registry's credentials") {
  size_t asked = 0;
  HttpServer collector({}, [&](const HttpServerRequest&, const HttpReply& reply) {
    ++asked;
    reply.send({200, {}, "{\"token\":\"t\"}"});
  });
  const std::string challenge =
      fmt::format("Bearer realm=\"http://127.0.0.1:{}/token\"", collector.port());
  HttpServer elsewhere({}, [&](const HttpServerRequest&, const HttpReply& reply) {
    reply.send({401, {{"WWW-Authenticate", challenge}}, ""});
  });
  const std::string there = fmt::format("http://127.0.0.1:{}", elsewhere.port());
  for (const Access access : {Access::basic, Access::token}) {
    FakeRegistry fake({.access = access, .blobs_elsewhere = there});
    const FakeLogin login(fake.name());
    Registry registry = open_registry(fake, "app", {}, login.places);
    const std::string digest = fake.add_blob("app", "layer");
    const std::string error = error_of([&] { registry.blob("app", digest, 99); });
    CHECK(contains(error, "cannot read " + digest + ": status 401"));
    fake.answer_next("POST /v2/app/blobs/uploads/", {status(202, {{"Location", there + "/u"}})});
    CHECK_ERROR(registry.upload("app", blob_of("x")), "status 401");
    registry.upload("app", blob_of("x"));
    CHECK(fake.problems().empty());
  }
  elsewhere.stop(Seconds(0));
  collector.stop(Seconds(0));
  CHECK(asked == 0);
}

TEST_CASE("a proxy in front gets its headers, and addresses go through it") {
  FakeRegistry fake;
  HttpServer proxy({}, [&](const HttpServerRequest& request, const HttpReply& reply) {
    HttpRequest on;
    on.method = request.method;
    on.url = "http://" + fake.name() + request.path.substr(6) +
             (request.query.empty() ? "" : "?" + request.query);
    on.body = request.body;
    if (request.header("x-for-proxy") != "yes" || !request.path.starts_with("/proxy/")) {
      return reply.send({500, {}, ""});
    }
    if (const auto type = request.header("content-type")) on.headers = {{"Content-Type", *type}};
    HttpClient client;
    HttpResponse answer = client.send(on);
    std::erase_if(answer.headers, [](const auto& h) {
      return h.first == "content-length" || h.first == "connection";
    });
    reply.send(answer);
  });
  RegistryOptions options;
  options.proxy.url = fmt::format("http://127.0.0.1:{}/proxy", proxy.port());
  options.proxy.headers = [] { return HttpHeaders{{"X-For-Proxy", "yes"}}; };
  options.pause = [](Seconds) {};
  Registry registry({"localhost:32000", "app", "latest", ""}, options, {});
  registry.upload("app", blob_of("bytes"));
  CHECK(fake.blobs("app").contains(digest_of("bytes")));
  proxy.stop(Seconds(0));
  CHECK(fake.problems().empty());
}

TEST_CASE("a registry of this machine is found by HTTP when it speaks no TLS; others are not") {
  FakeRegistry fake;
  const std::string digest = fake.add_blob("app", "b");
  std::vector<std::string> trace;
  RegistryOptions options;
  options.trace = [&](const std::string& line) { trace.push_back(line); };
  Registry registry(fake.reference("app"), options, {});
  CHECK(registry.blob("app", digest, 9) == "b");
  REQUIRE(trace.size() == 3);
  CHECK(trace[0].starts_with("GET https://127.0.0.1:"));
  CHECK(contains(trace[0], "no answer"));
  CHECK(contains(trace[1], "/v2/: 200"));
  HttpServer page({}, [](const HttpServerRequest&, const HttpReply& reply) {
    reply.send({500, {}, "<html>"});
  });
  Pauses pauses;
  Registry none({fmt::format("127.0.0.1:{}", page.port()), "app", "latest", ""}, noting(pauses),
                {});
  CHECK_ERROR(none.blob("app", digest, 9), "https://127.0.0.1:");
}

TEST_CASE("a registry of this machine whose certificate is not trusted is not asked by HTTP") {
  const Certificate own = make_certificate();
  HttpServer secure({.tls = HttpTls{own.certificate, own.key}},
                    [](const HttpServerRequest&, const HttpReply& reply) {
                      reply.send({200, {}, ""});
                    });
  std::string trace;
  RegistryOptions options;
  options.trace = [&](const std::string& line) { trace += line + "\n"; };
  Registry registry({fmt::format("localhost:{}", secure.port()), "app", "latest", ""}, options, {});
  CHECK_ERROR(registry.blob("app", digest_of("b"), 9), "certificate is not trusted");
  CHECK(!contains(trace, "http://"));
}

TEST_CASE("the trace holds no query and no secret") {
  FakeRegistry fake({.access = Access::token});
  const FakeLogin login(fake.name());
  std::string trace;
  RegistryOptions options;
  options.trace = [&](const std::string& line) { trace += line + "\n"; };
  Registry registry = open_registry(fake, "app", options, login.places);
  registry.upload("app", blob_of("x"));
  CHECK(contains(trace, "PUT http://127.0.0.1:"));
  CHECK(contains(trace, "/token: 200"));
  for (const char* secret : {"?", "_state", "secret", "token-", "Basic"}) {
    CAPTURE(secret);
    CHECK_FALSE(contains(trace, secret));
  }
}

}  // namespace adaptdl::oci::registry_test
