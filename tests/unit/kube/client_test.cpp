#include "core/kube/client.h"

#include <atomic>

#include "core/kube/answer.h"
#include "core/kube/retry.h"
#include "core/kube/trace.h"
#include "core/kube/watch.h"
#include "tests/unit/base/expect_error.h"
#include "tests/unit/kube/fake_api.h"

namespace adaptdl::kube {
namespace {

Json config_map(const std::string& name, const std::string& value = "1") {
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata", {{"name", name}, {"labels", {{"app", "x"}}}}},
          {"data", {{"k", value}}}};
}

const Resource kMaps = kConfigMaps.in("default");
Resource map_named(const std::string& name) {
  return kConfigMaps.in("default", name);
}

template <typename F>
ApiError api_error(F&& action) {
  try {
    action();
  } catch (const ApiError& error) {
    return error;
  }
  FAIL("no ApiError");
  throw;
}

}  // namespace

TEST_CASE("paths of resources") {
  CHECK(kPods.in("a", "b", "log").path() == "/api/v1/namespaces/a/pods/b/log");
  CHECK(kNodes.named("n").path() == "/api/v1/nodes/n");
  CHECK(kLeases.in("x").path() == "/apis/coordination.k8s.io/v1/namespaces/x/leases");
  CHECK(kPods.in("a", "b/../c").path() == "/api/v1/namespaces/a/pods/b%2F..%2Fc");
  CHECK(query_text({{"a", "x y"}, {"a", "&="}, {"b", ""}}) == "?a=x%20y&a=%26%3D&b=");
  CHECK(service_proxy_path("ns", "web", "http", "/v2/") ==
        "/api/v1/namespaces/ns/services/web:http/proxy/v2/");
}

TEST_CASE("objects are created, read, changed and removed") {
  FakeApi api;
  Client client(api.config());
  CHECK_FALSE(client.find(map_named("a")));
  const Json made = client.create(kMaps, config_map("a"));
  CHECK(made["metadata"]["uid"].is_string());
  CHECK(client.get(map_named("a")) == made);
  CHECK(api_error([&] { client.create(kMaps, config_map("a")); }).already_exists());
  CHECK_FALSE(api_error([&] { client.create(kMaps, config_map("a")); }).conflict());
  CHECK(api_error([&] { client.get(map_named("b")); }).not_found());

  Json next = made;
  next["data"]["k"] = "2";
  const Json second = client.update(map_named("a"), next);
  CHECK(second["data"]["k"] == "2");
  CHECK(api_error([&] { client.update(map_named("a"), next); }).conflict());

  CHECK(client.patch(map_named("a"), PatchKind::merge, {{"data", {{"l", "3"}}}})["data"] ==
        Json{{"k", "2"}, {"l", "3"}});
  const Json operations = Json::parse(R"([{"op":"remove","path":"/data/l"}])");
  CHECK(client.patch(map_named("a"), PatchKind::json, operations)["data"] == Json{{"k", "2"}});
  CHECK(api_error([&] { client.patch(map_named("a"), PatchKind::json, operations); }).invalid());
  CHECK(client.patch(map_named("a"), PatchKind::strategic, {{"data", {{"m", "1"}}}}).is_object());

  CHECK(client.patch(map_named("a"), PatchKind::merge, {{"data", nullptr}}, {.dry_run = true}) !=
        client.get(map_named("a")));
  CHECK(client.create(kMaps, config_map("dry"), {.dry_run = true}).is_object());
  CHECK_FALSE(client.find(map_named("dry")));

  CHECK(api_error([&] { client.remove(map_named("a"), {.uid = "other"}); }).conflict());
  CHECK(client.remove(map_named("a"), {.uid = made["metadata"]["uid"]}));
  CHECK_FALSE(client.remove(map_named("a")));

  Json unnamed = config_map("");
  unnamed["metadata"] = {{"generateName", "job-"}};
  CHECK(client.create(kMaps, unnamed)["metadata"]["name"].get<std::string>().starts_with("job-"));
  Json unknown = config_map("u");
  unknown["specs"] = 1;
  CHECK_ERROR(client.create(kMaps, unknown),
              "POST configmaps in default: unknown field specs (400");
}

TEST_CASE("a client that may change nothing reads, and sends no change, also not once more") {
  FakeApi api;
  Client client(api.config());
  bool may = true;
  Client acting(client, [&] { return may; });
  const Json object = {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"name", "a"}}}};
  acting.create(kConfigMaps.in("x"), object);
  std::atomic<int> changes = 0;
  api.set_fault([&](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    if (request.method == "GET") return std::nullopt;
    ++changes;
    may = false;
    return status_response(503, "ServiceUnavailable", "try again");
  });
  CHECK_THROWS_AS(acting.update(kConfigMaps.in("x", "a"), object), Cancelled);
  CHECK_THROWS_AS(acting.remove(kConfigMaps.in("x", "a")), Cancelled);
  CHECK(changes == 1);
  CHECK(acting.find(kConfigMaps.in("x", "a")).has_value());
  CHECK(client.requests() == acting.requests());
}

TEST_CASE("server-side apply: fields have managers") {
  FakeApi api;
  Client client(api.config());
  client.apply(map_named("a"), config_map("a", "1"), {.field_manager = "one"});
  Json other = config_map("a", "2");
  CHECK(
      api_error([&] { client.apply(map_named("a"), other, {.field_manager = "two"}); }).conflict());
  CHECK(client.apply(map_named("a"), other, {.field_manager = "two", .force = true})["data"]["k"] ==
        "2");
  other["data"] = {{"l", "1"}};
  CHECK(client.apply(map_named("a"), other, {.field_manager = "two"})["data"] == Json{{"l", "1"}});
}

TEST_CASE("a list is read page by page, and anew when a page is gone") {
  FakeApi api;
  Client client(api.config());
  for (int i = 0; i < 25; ++i) api.put(kMaps, config_map(fmt::format("m{:02}", i)));
  Json other = config_map("zz");
  other["metadata"]["labels"]["app"] = "y";
  api.put(kMaps, other);
  ListOptions options{.labels = "app=x", .page = 10};
  options.trim = [](Json& object) { object.erase("data"); };
  int before = api.requests();
  ObjectList list = client.list(kMaps, options);
  REQUIRE(list.items.size() == 25);
  CHECK(api.requests() == before + 3);
  CHECK(list.items[24]["metadata"]["name"] == "m24");
  CHECK_FALSE(list.items[0].contains("data"));
  CHECK(client.list(kConfigMaps).items.size() == 26);
  CHECK(client.list(kPods).items.empty());

  int pages = 0;
  api.set_fault([&](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    if (!request.parameter("continue") || ++pages != 2) return std::nullopt;
    return status_response(410, "Expired", "too old");
  });
  before = api.requests();
  list = client.list(kMaps, options);
  CHECK(list.items.size() == 25);
  CHECK(api.requests() == before + 3 + 3);
  api.set_fault([&](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    if (!request.parameter("continue")) return std::nullopt;
    return status_response(410, "Expired", "too old");
  });
  CHECK(api_error([&] { client.list(kMaps, options); }).gone());
}

TEST_CASE("a list of large objects is read in smaller pages") {
  FakeApi api;
  Client client(api.config(), {.max_answer = 128 << 10});
  const std::string large(2 << 10, 'x');
  for (int i = 0; i < 70; ++i) {
    Json map = config_map(fmt::format("m{:02}", i));
    map["data"]["large"] = large;
    api.put(kMaps, map);
  }
  ListOptions options;
  options.trim = [](Json& object) { object.erase("data"); };
  const int before = api.requests();
  const ObjectList list = client.list(kMaps, options);
  REQUIRE(list.items.size() == 70);
  CHECK(list.items[69]["metadata"]["name"] == "m69");
  CHECK(api.requests() <= before + 2 + 3);  // pages of 500 and 125 are too large, 31 is not
}

TEST_CASE("an object that is nested too deeply does not hide the others") {
  FakeApi api;
  Client client(api.config());
  Json deep = "the bottom";
  for (int i = 0; i < 70; ++i) deep = i % 2 == 0 ? Json{{"a", deep}} : Json::array({1, deep});
  Json odd = config_map("b");
  odd["data"] = {{"deep", deep}, {"other", "[{"}};
  const auto check = [](const Json& object) {
    CHECK(too_deep(object));
    CHECK(object["data"]["other"] == "[{");
    const std::string text = dump_json(object);
    CHECK(text.find("the bottom") == std::string::npos);
    CHECK_NOTHROW(parse_json(text, "it", {.max_depth = kMostDepth}));
    CHECK_THROWS(parse_json(text, "it", {.max_depth = kMostDepth - 1}));
  };
  for (const char* name : {"a", "c"}) api.put(kMaps, config_map(name));
  api.put(kMaps, odd);
  const ObjectList list = client.list(kMaps);
  REQUIRE(list.items.size() == 3);
  for (const size_t i : {0, 2}) CHECK_FALSE(too_deep(list.items[i]));
  check(list.items[1]);
  check(client.get(map_named("b")));
  CHECK_FALSE(too_deep(client.get(map_named("a"))));
  odd["metadata"]["resourceVersion"] = "7";
  check(parse_watch_line(dump_json({{"type", "ADDED"}, {"object", odd}})).object);
}

TEST_CASE("a list is taken apart before its items are parsed") {
  const std::string text = R"( {"kind": "List", "metadata": {"items": [{"a": 1}], "continue": "n"},
    "other": "\"items\": [{", "items" : [ {"a": "}]", "b": [{}, [2]]} ,{},
    {"items": [{"items": []}]}], "last": [[{}]]} )";
  const ListAnswer answer = parse_list(text, "it");
  Json list = answer.list, items = Json::array();
  for (const std::string_view item : answer.items) items.push_back(Json::parse(item));
  list["items"] = items;
  CHECK(list == Json::parse(text));
  CHECK(items.size() == 3);
  CHECK(parse_list(R"({"items": null})", "it").items.empty());
  CHECK(parse_list("{}", "it").items.empty());
  for (const char* bad : {"", "{", R"({"items": [{]})", R"({"items": [{})", R"({"items": [{} {}]})",
                          R"({"items": [{}]} {)", R"({"items": {"a": {}}})", R"({"items": [[{}]]})",
                          R"({"items": [0, {}], "items": [{}]})", "[[{}]]", "}]}{[{"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_list(bad, "it"), Error);
  }
}

TEST_CASE("answers that are no objects are Errors") {
  FakeApi api;
  Client client(api.config());
  std::string body;
  api.set_fault([&](const HttpServerRequest&) -> std::optional<HttpResponse> {
    return HttpResponse{200, {}, body};
  });
  for (const char* answer : {"[]", "7", "null", R"("text")"}) {
    CAPTURE(answer);
    body = answer;
    CHECK_ERROR(client.get(map_named("a")), "the answer is not an object");
    CHECK_ERROR(client.find(map_named("a")), "the answer is not an object");
    CHECK_ERROR(client.update(map_named("a"), config_map("a")), "the answer is not an object");
    CHECK_ERROR(client.list(kMaps), "the answer is not a list");
    body = fmt::format(R"({{"items": [{{}}, {}]}})", answer);
    CHECK_ERROR(client.list(kMaps), "an item is not an object");
  }
}

TEST_CASE("what may be repeated is, within the budget") {
  FakeApi api;
  Client client(api.config());
  api.put(kMaps, config_map("a"));
  std::atomic<int> left = 0;
  int status = 500;
  HttpHeaders headers;
  api.set_fault([&](const HttpServerRequest&) -> std::optional<HttpResponse> {
    if (left-- <= 0) return std::nullopt;
    return status_response(status, "", "not now", headers);
  });
  const auto attempts = [&](int answer, int times, auto&& action) {
    status = answer;
    left = times;
    const int before = api.requests();
    action();
    return api.requests() - before;
  };
  CHECK(attempts(500, 2, [&] { client.get(map_named("a")); }) == 3);
  CHECK(attempts(503, 1, [&] { client.apply(map_named("a"), config_map("a")); }) == 2);
  CHECK(attempts(429, 2, [&] { client.create(kMaps, config_map("b")); }) == 3);
  // A creation that may have been done is not done again.
  CHECK(attempts(500, 1, [&] {
          CHECK_ERROR(client.create(kMaps, config_map("c")), "not now (500)");
        }) == 1);
  CHECK(attempts(429, 1, [&] {
          const WriteOptions once{.insist = false};
          CHECK(
              api_error([&] { client.create(kMaps, config_map("c"), once); }).too_many_requests());
        }) == 1);
  CHECK(attempts(404, 1, [&] { CHECK_ERROR(client.get(map_named("a")), "(404"); }) == 1);
  CHECK(attempts(409, 1, [&] { CHECK_ERROR(client.get(map_named("a")), "(409"); }) == 1);

  headers = {{"Retry-After", "1"}};
  const TimePoint start = Monotonic::now();
  CHECK(attempts(429, 1, [&] { client.get(map_named("a")); }) == 2);
  CHECK(seconds_since(start) >= 1.0);
  headers = {{"Retry-After", "3600"}};
  CHECK(attempts(429, 1, [&] { CHECK_ERROR(client.get(map_named("a")), "429"); }) == 1);

  Client dead(
      [&] {
        Config config = api.config();
        config.server = "http://127.0.0.1:1";
        return config;
      }(),
      {.retry_budget = Seconds(0.3)});
  CHECK_THROWS_AS(dead.create(kMaps, config_map("d")), HttpError);
}

TEST_CASE("the decision to repeat") {
  const auto delay = [](int code, bool repeatable, int attempt = 1, double after = 0) {
    return retry_delay({true, true, {.code = code, .retry_after = Seconds(after)}}, repeatable,
                       attempt, Seconds(0), Seconds(30), 0.0);
  };
  CHECK(delay(503, true) == Seconds(0.1));
  CHECK(delay(503, true, 3) == Seconds(0.4));
  CHECK(delay(503, true, 30) == Seconds(5));
  CHECK(delay(503, true, 1, 7) == Seconds(7));
  CHECK_FALSE(delay(503, true, 1, 31));
  CHECK_FALSE(delay(503, false));
  CHECK(delay(429, false) == Seconds(0.1));
  CHECK_FALSE(delay(501, true));
  CHECK_FALSE(delay(409, true));
  const auto lost = [](bool arrived, bool repeatable) {
    return retry_delay({false, arrived, {}}, repeatable, 1, Seconds(0), Seconds(30), 0.0);
  };
  CHECK(lost(false, false));
  CHECK(lost(true, true));
  CHECK_FALSE(lost(true, false));
  CHECK(reconnect_delay(1, 0.0) == Seconds(0.8));
  CHECK(reconnect_delay(2, 0.5) == Seconds(2.0));
  CHECK(reconnect_delay(1000, 0.0) == Seconds(30));
}

TEST_CASE("a Status says what was wrong") {
  const ApiError error("POST jobs", parse_status(R"({"kind":"Status","status":"Failure","code":422,
    "reason":"Invalid","message":"job \"a\" is invalid","details":{"name":"a","kind":"Job",
    "retryAfterSeconds":3,"causes":[{"reason":"FieldValueInvalid","message":"must be positive",
    "field":"spec.maxReplicas"}]}})",
                                                 422));
  CHECK(std::string(error.what()) ==
        "POST jobs: job \"a\" is invalid; spec.maxReplicas: must be positive (422 Invalid)");
  CHECK(error.invalid());
  CHECK(error.status().causes.at(0).field == "spec.maxReplicas");
  CHECK(error.status().retry_after == Seconds(3));
  const ApiError page("GET x", parse_status("<html>bad gateway</html>\n", 502));
  CHECK(std::string(page.what()) == "GET x: <html>bad gateway</html> (502)");
  const ApiError login("GET x", parse_status("", 401));
  CHECK(login.unauthorized());
  CHECK(login.exit_code() == ExitCode::auth);
  CHECK(contains(login.what(), "log in again"));
  CHECK(ApiError("", parse_status("no", 403)).forbidden());
}

TEST_CASE("requests are shown without their secrets") {
  const HttpRequest request{.method = "PUT",
                            .url = "https://me:pw@h/api/v1/namespaces/a/secrets/s?token=t0p&a=b",
                            .headers = {{"Authorization", "Bearer t0p"}, {"Accept", "x"}},
                            .body = R"({"data":{"k":"t0p"}})"};
  const HttpResponse response{200, {}, R"({"kind":"Secret","data":{"k":"t0p"}})"};
  const std::string text =
      request_trace(request) + "\n" + response_trace(request, response, Seconds(0.1));
  CAPTURE(text);
  CHECK_FALSE(contains(text, "t0p"));
  CHECK_FALSE(contains(text, "pw"));
  CHECK(contains(text, "PUT https://h/api/v1/namespaces/a/secrets/s?token=...&a=b"));
  CHECK(contains(text, "Accept: x"));
  CHECK(contains(text, ": 200 in 100 ms"));
  const HttpRequest plain{.url = "https://h/api/v1/pods"};
  CHECK(contains(response_trace(plain, {200, {}, "{\"a\":1}"}, Seconds(1)), "{\"a\":1}"));
  CHECK_FALSE(contains(response_trace(plain, response, Seconds(1)), "t0p"));

  FakeApi api;
  std::string told;
  Client client(api.config(), {.trace = [&](const std::string& line) { told += line + "\n"; }});
  client.find(map_named("none"));
  CHECK(contains(told, "/configmaps/none: 404 in "));
}

TEST_CASE("requests pass to services as they are") {
  FakeApi api;
  Client client(api.config());
  api.set_fault([](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    return HttpResponse{418, {}, request.method + " " + request.path + " " + request.body};
  });
  const HttpResponse response = client.pass(
      {.method = "PUT", .url = service_proxy_path("a", "b", "80", "/x"), .body = "bytes"});
  CHECK(response.status == 418);
  CHECK(response.body == "PUT /api/v1/namespaces/a/services/b:80/proxy/x bytes");
}

}  // namespace adaptdl::kube
