#include "core/kube/watch.h"

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "core/formats/json_fields.h"
#include "core/kube/informer.h"
#include "tests/support/soon.h"
#include "tests/unit/base/expect_error.h"
#include "tests/unit/kube/fake_api.h"
#include "tests/unit/kube/fake_api_request.h"
#include "tests/unit/net/loopback_server.h"

namespace adaptdl::kube::watch_test {
namespace {

using adaptdl::testing::soon;

const Resource kMaps = kConfigMaps.in("default");

Json config_map(const std::string& name, const std::string& value = "1") {
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata", {{"name", name}}},
          {"data", {{"k", value}}}};
}

// What an informer has told, as text; its thread writes.
struct Told {
  InformerCallbacks callbacks() {
    const auto name = [](const Object& object) { return name_of(*object).second; };
    return {.added = [=, this](const Object& now) { add("+" + name(now)); },
            .updated = [=, this](const Object&, const Object& now) { add("~" + name(now)); },
            .deleted = [=, this](const Object& before) { add("-" + name(before)); },
            .synced = [this] { add("synced"); }};
  }
  void add(const std::string& text) {
    const std::lock_guard lock(mutex);
    all += text + " ";
  }
  std::string get() {
    const std::lock_guard lock(mutex);
    return all;
  }
  std::mutex mutex;
  std::string all;
};

}  // namespace

TEST_CASE("lines of a watch") {
  const WatchEvent event = parse_watch_line(
      R"({"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"7"}}})");
  CHECK(event.type == WatchEvent::Type::modified);
  CHECK(event.resource_version == "7");
  CHECK(event.object["metadata"]["name"] == "a");
  try {
    parse_watch_line(R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired",
                        "message":"too old"}})");
    FAIL("no ApiError");
  } catch (const ApiError& error) {
    CHECK(error.gone());
  }
  CHECK_ERROR(parse_watch_line(R"({"type":"NEWS","object":{}})"), "unknown type NEWS");
  CHECK_ERROR(parse_watch_line(R"({"type":"ADDED"})"), "without an object");
  CHECK_ERROR(parse_watch_line(R"({"type":"ADDED","object":{"metadata":{}}})"),
              "without a resourceVersion");
  CHECK_ERROR(parse_watch_line("{"), "watch: line 1");
}

TEST_CASE("lines are put together from pieces") {
  LineReader reader(10);
  std::string got;
  const auto on_line = [&](std::string_view line) { got += fmt::format("[{}]", line); };
  for (const char* piece : {"a", "b\ncd\n\ne", "", "f\n", "rest"}) reader.add(piece, on_line);
  CHECK(got == "[ab][cd][ef]");
  CHECK(reader.take_rest() == "rest");
  CHECK_ERROR(reader.add("12345678901", on_line), "longer than 10");
  reader.take_rest();
  CHECK_ERROR(reader.add("12345678901\n", on_line), "longer than 10");
}

TEST_CASE("a watch takes events that come in pieces, and goes on from the last whole one") {
  const std::string first =
      R"({"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"7"}}})";
  const std::string mark = R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}})";
  const LoopbackServer server([&](const std::string&) {
    const std::string body = first + "\n" + mark + "\n{\"type\":\"ADD";
    return "HTTP/1.1 200 OK\r\n\r\n" + body;
  });
  Config config;
  config.server = server.url("");
  Client client(config);
  std::string got;
  const std::string version = watch_once(client, kMaps, "1", {}, [&](const WatchEvent& event) {
    got += event.type == WatchEvent::Type::bookmark ? "bookmark " : "event ";
  });
  CHECK(got == "event bookmark ");
  CHECK(version == "9");
}

TEST_CASE("a text of an object, or none") {
  const Json pod = {{"metadata", {{"labels", {{"adaptdl/job", "a"}}}}},
                    {"spec", {{"containers", {{{"name", "main"}}}}, {"priority", 3}}}};
  CHECK(text_at_pointer(pod, "/metadata/labels/adaptdl~1job") == "a");
  CHECK(text_at_pointer(pod, "/spec/containers/0/name") == "main");
  for (const char* nothing : {"/spec/containers/1/name", "/spec/containers/x/name",
                              "/spec/priority", "/spec/priority/deep", "/status/phase", "/spec"}) {
    CAPTURE(nothing);
    CHECK(text_at_pointer(pod, nothing).empty());
  }
  CHECK(text_at_pointer(Json(), "/status/phase").empty());
}

TEST_CASE("an informer's copy follows through broken watches and forgotten versions") {
  FakeApi api;
  Client client(api.config());
  api.put(kMaps, config_map("a"));
  Told told;
  InformerOptions options;
  options.trim = [](Json& object) { object["data"].erase("big"); };
  Json big = config_map("b");
  big["data"]["big"] = "x";
  big["metadata"]["managedFields"] = Json::array({1});
  api.put(kMaps, big);
  const Informer informer(client, kConfigMaps, options, told.callbacks());
  CHECK(informer.wait_synced(Seconds(20)));
  CHECK(soon([&] { return told.get() == "+a +b synced "; }));
  CHECK(informer.synced());
  CHECK(informer.find("default", "b")->at("data") == Json{{"k", "1"}});
  CHECK_FALSE(informer.find("default", "b")->at("metadata").contains("managedFields"));
  CHECK(informer.find("default", "none") == nullptr);

  // More than one watch brings.
  for (int i = 0; i < 10; ++i) api.put(kMaps, config_map(fmt::format("c{}", i)));
  CHECK(soon([&] { return informer.size() == 12; }));
  const Object before = informer.find("default", "a");
  api.put(kMaps, config_map("a", "2"));
  CHECK(soon([&] { return contains(told.get(), "~a"); }));
  CHECK(informer.find("default", "a")->at("data")["k"] == "2");
  CHECK(before->at("data")["k"] == "1");
  api.erase(kMaps.in("default", "c0"));
  CHECK(soon([&] { return contains(told.get(), "-c0"); }));
  CHECK(informer.all().size() == 11);
  CHECK(informer.all("default").size() == 11);
  CHECK(informer.all("other").empty());

  for (const bool as_event : {false, true}) {
    CAPTURE(as_event);
    CHECK(soon([&] { return api.watches() == 1; }));
    const std::string name = as_event ? "e" : "d";
    api.set_fault([](const HttpServerRequest& request) -> std::optional<HttpResponse> {
      if (request.parameter("watch")) return status_response(500, "InternalError", "down");
      return std::nullopt;
    });
    api.compact(as_event);
    api.erase(kMaps.in("default", as_event ? "c2" : "c1"));
    api.put(kMaps, config_map(name));
    api.compact(as_event);
    CHECK(soon([&] { return contains(told.get(), "+" + name); }));
    CHECK(soon([&] { return contains(told.get(), as_event ? "-c2" : "-c1"); }));
    api.set_fault({});
  }
  CHECK_FALSE(contains(told.get(), "-a"));
}

TEST_CASE("an object made anew under its name is deleted, then added") {
  FakeApi api;
  Client client(api.config());
  api.put(kMaps, config_map("a"));
  Told told;
  const Informer informer(client, kMaps, {}, told.callbacks());
  CHECK(informer.wait_synced(Seconds(20)));
  CHECK(soon([&] { return api.watches() == 1; }));
  api.compact();  // so that the informer only sees the result
  api.erase(kMaps.in("default", "a"));
  api.put(kMaps, config_map("a"));
  api.compact();
  CHECK(soon([&] { return told.get() == "+a synced -a +a "; }));
}

TEST_CASE("an informer says why it does not get on, and ends at once") {
  FakeApi api;
  api.set_fault([](const HttpServerRequest&) -> std::optional<HttpResponse> {
    return status_response(403, "Forbidden", "you may not");
  });
  Client client(api.config());
  {
    const Informer informer(client, kPods);
    CHECK(soon([&] { return contains(informer.problem(), "you may not (403 Forbidden)"); }));
    CHECK_FALSE(informer.wait_synced(Seconds(0.01)));
    api.set_fault({});
    CHECK(informer.wait_synced(Seconds(20)));
    CHECK(soon([&] { return informer.problem().empty(); }));
    CHECK(soon([&] { return api.watches() == 1; }));
  }
}

TEST_CASE("a problem lasts until a watch works, and each is told once") {
  FakeApi api;
  Client client(api.config(), {.retry_budget = Seconds(0)});
  std::atomic<int> watches = 0;
  std::mutex mutex;  // of what follows
  std::vector<std::string> told;
  std::string patience;
  api.set_fault([&](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    if (!request.parameter("watch")) return std::nullopt;
    const std::lock_guard lock(mutex);
    patience = fake::parameter(request, "timeoutSeconds");
    ++watches;
    return status_response(503, "ServiceUnavailable", "too busy");
  });
  FollowCallbacks callbacks;
  callbacks.listed = [](const ObjectList&) {};
  callbacks.happened = [](const WatchEvent&) {};
  callbacks.stuck = [&](const std::string& problem) {
    const std::lock_guard lock(mutex);
    told.push_back(problem);
  };
  Cancellation cancel;
  std::thread follower([&] { follow(client, kMaps, {}, callbacks, cancel); });
  CHECK(soon([&] { return watches == 2; }));
  {
    const std::lock_guard lock(mutex);
    REQUIRE(told.size() == 1);
    CHECK(contains(told[0], "too busy (503 ServiceUnavailable)"));
    CHECK(patience == "5");  // after that it is known to work, though nothing happens
  }
  api.set_fault({});
  api.put(kMaps, config_map("a"));
  CHECK(soon([&] {
    const std::lock_guard lock(mutex);
    return told.size() == 2 && told[1].empty();
  }));
  cancel.cancel();
  follower.join();
}

}  // namespace adaptdl::kube::watch_test
