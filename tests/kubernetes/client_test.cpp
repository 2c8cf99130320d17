// Tests core/kube against a real API server. run.py starts one and sets these variables:
// ADAPTDL_TEST_KUBECONFIG; ADAPTDL_TEST_IMAGE, a busybox for its node, unset without a node;
// ADAPTDL_TEST_RESTART, a program that restarts the API server.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <mutex>
#include <thread>

#include "core/base/crypto.h"
#include "core/base/files.h"
#include "core/base/process.h"
#include "core/base/system.h"
#include "core/kube/exec.h"
#include "core/kube/informer.h"
#include "core/kube/logs.h"
#include "core/kube/port_forward.h"
#include "core/net/http.h"
#include "tests/unit/base/expect_error.h"
#include "tests/unit/net/certificate.h"

namespace adaptdl::kube {
namespace {

Config real_config() {
  return load_config(
      {.kubeconfig = environment_variable("ADAPTDL_TEST_KUBECONFIG").value_or("not given")});
}

template <typename Condition>
bool soon(Condition condition, double patience_s = 120) {
  const TimePoint start = Monotonic::now();
  while (!condition()) {
    if (seconds_since(start) > patience_s) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

// A namespace for one test, removed at its end.
struct Place {
  Place() : client(real_config()), name("kube-test-" + to_hex(random_bytes(4))) {
    client.create(kNamespaces,
                  {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", name}}}});
    // Pods need it.
    const Resource account{"", "v1", "serviceaccounts", name, "default", ""};
    CHECK(soon([&] { return client.find(account).has_value(); }));
  }
  ~Place() { client.remove(kNamespaces.named(name)); }

  Json config_map(const std::string& object, const std::string& value = "1") const {
    return {{"apiVersion", "v1"},
            {"kind", "ConfigMap"},
            {"metadata", {{"name", object}}},
            {"data", {{"k", value}}}};
  }
  Resource map(const std::string& object) const { return kConfigMaps.in(name, object); }

  Client client;
  const std::string name;
};

// A pod of busybox that runs a shell script.
Resource start_pod(Place& place, const std::string& script, bool wait = true) {
  const Resource pod = kPods.in(place.name, "p");
  const Json container{{"name", "main"},
                       {"image", *environment_variable("ADAPTDL_TEST_IMAGE")},
                       {"imagePullPolicy", "IfNotPresent"},
                       {"command", {"/bin/sh", "-c", script}}};
  place.client.create(kPods.in(place.name),
                      {{"apiVersion", "v1"},
                       {"kind", "Pod"},
                       {"metadata", {{"name", "p"}, {"labels", {{"app", "p"}}}}},
                       {"spec",
                        {{"containers", Json::array({container})},
                         {"restartPolicy", "Never"},
                         {"terminationGracePeriodSeconds", 0}}}});
  if (wait) {
    CHECK(soon([&] { return place.client.get(pod)["status"]["phase"] == "Running"; }));
  }
  return pod;
}

bool has_node() {
  if (environment_variable("ADAPTDL_TEST_IMAGE")) return true;
  MESSAGE("skipped: this cluster has no node");
  return false;
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

struct Ran {
  int code;
  std::string output, errors;
};
Ran run(Client& client, const Resource& pod, const std::vector<std::string>& command,
        const std::string& input_file = "") {
  Ran ran{};
  ExecOptions options;
  options.command = command;
  options.output = [&](std::string_view piece) { ran.output += piece; };
  options.errors = [&](std::string_view piece) { ran.errors += piece; };
  Fd input;
  if (!input_file.empty()) {
    input = open_file(input_file, O_RDONLY);
    options.input = input.get();
  }
  ran.code = exec(client, pod, options);
  return ran;
}

}  // namespace

TEST_CASE("objects: create, conflict, patches, dry runs, preconditions") {
  Place place;
  Client& client = place.client;
  const Json made = client.create(kConfigMaps.in(place.name), place.config_map("a"));
  CHECK(api_error([&] {
          client.create(kConfigMaps.in(place.name), place.config_map("a"));
        }).already_exists());
  Json next = made;
  next["data"]["k"] = "2";
  client.update(place.map("a"), next);
  CHECK(api_error([&] { client.update(place.map("a"), next); }).conflict());
  CHECK(client.patch(place.map("a"), PatchKind::merge, {{"data", {{"l", "3"}}}})["data"].size() ==
        2);
  CHECK(client.patch(place.map("a"), PatchKind::strategic, {{"data", {{"l", nullptr}}}})["data"]
            .size() == 1);
  const Json operations = Json::parse(R"([{"op":"add","path":"/data/m","value":"x"}])");
  CHECK(client.patch(place.map("a"), PatchKind::json, operations)["data"]["m"] == "x");
  client.create(kConfigMaps.in(place.name), place.config_map("dry"), {.dry_run = true});
  CHECK_FALSE(client.find(place.map("dry")));
  const auto invalid =
      api_error([&] { client.create(kConfigMaps.in(place.name), place.config_map("A_b")); });
  CHECK(invalid.invalid());
  REQUIRE_FALSE(invalid.status().causes.empty());
  CHECK(invalid.status().causes[0].field == "metadata.name");
  CHECK(api_error([&] { client.remove(place.map("a"), {.uid = "other"}); }).conflict());
  CHECK(client.remove(place.map("a"), {.uid = made["metadata"]["uid"],
                                       .propagation = DeleteOptions::Propagation::foreground}));
  CHECK(soon([&] { return !client.find(place.map("a")); }));
  CHECK_FALSE(client.remove(place.map("a")));
}

TEST_CASE("server-side apply") {
  Place place;
  Client& client = place.client;
  client.apply(place.map("a"), place.config_map("a", "1"), {.field_manager = "one"});
  Json other = place.config_map("a", "2");
  CHECK(
      api_error([&] { client.apply(place.map("a"), other, {.field_manager = "two"}); }).conflict());
  const Json forced = client.apply(place.map("a"), other, {.field_manager = "two", .force = true});
  CHECK(forced["data"]["k"] == "2");
  other["data"] = {{"l", "1"}};
  CHECK(client.apply(place.map("a"), other, {.field_manager = "two"})["data"] == Json{{"l", "1"}});
}

TEST_CASE("lists by pages, with selectors") {
  Place place;
  for (int i = 0; i < 23; ++i) {
    Json map = place.config_map(fmt::format("m{:02}", i));
    map["metadata"]["labels"] = {{"odd", i % 2 == 0 ? "no" : "yes"}};
    place.client.create(kConfigMaps.in(place.name), map);
  }
  const ObjectList odd =
      place.client.list(kConfigMaps.in(place.name), {.labels = "odd=yes", .page = 4});
  CHECK(odd.items.size() == 11);
  CHECK_FALSE(odd.resource_version.empty());
  CHECK(
      place.client.list(kConfigMaps.in(place.name), {.fields = "metadata.name=m03"}).items.size() ==
      1);
}

TEST_CASE("an informer goes on over a restart of the API server") {
  Place place;
  const Informer informer(place.client, kConfigMaps.in(place.name));
  CHECK(informer.wait_synced(Seconds(60)));
  place.client.create(kConfigMaps.in(place.name), place.config_map("a"));
  CHECK(soon([&] { return informer.find(place.name, "a") != nullptr; }));
  place.client.create(kConfigMaps.in(place.name), place.config_map("b"));
  CHECK(soon([&] { return informer.find(place.name, "b") != nullptr; }));
  const auto restart = environment_variable("ADAPTDL_TEST_RESTART");
  if (!restart) {
    MESSAGE("skipped: this API server cannot be restarted");
    return;
  }
  const CapturedRun run = run_and_capture({.argv = {*restart}}, Seconds(120), true);
  CAPTURE(run.output);
  REQUIRE(run.status.success());
  CHECK(soon([&] { return place.client.remove(place.map("a")); }));
  place.client.apply(place.map("b"), place.config_map("b", "2"), {.force = true});
  CHECK(soon([&] { return informer.find(place.name, "a") == nullptr; }));
  CHECK(soon([&] { return informer.find(place.name, "b")->at("data")["k"] == "2"; }));
  CHECK(informer.problem().empty());
  // A server that has just started knows no earlier events.
  CHECK(api_error([&] {
          watch_once(place.client, kConfigMaps.in(place.name), "1", {.at_most = Seconds(5)},
                     [](const WatchEvent&) {});
        }).gone());
}

TEST_CASE("only the right authority is believed, only the right user let in") {
  Config config = real_config();
  config.connection.authorities = make_certificate().certificate;
  const std::string message = error_of([&] { Client(config).get(kNamespaces.named("default")); });
  CHECK(contains(message, "certificate is not trusted"));

  // A token in a file that is replaced while the client lives.
  const TemporaryDirectory folder;
  Place place;
  const Resource account{"", "v1", "serviceaccounts", place.name, "default", "token"};
  const Json request{{"apiVersion", "authentication.k8s.io/v1"},
                     {"kind", "TokenRequest"},
                     {"spec", {{"expirationSeconds", 600}}}};
  const std::string token =
      place.client.create(account, request)["status"]["token"].get<std::string>();
  write_file_atomic(folder.file("token"), "wrong");
  config = real_config();
  config.user = {};
  config.user.token_file = folder.file("token");
  Client client(config);
  const auto get = [&] { client.get(kPods.in(place.name, "none")); };
  const ApiError stranger = api_error(get);
  CHECK(stranger.unauthorized());
  CHECK(stranger.exit_code() == ExitCode::auth);
  write_file_atomic(folder.file("token"), token);
  const ApiError known = api_error(get);
  CHECK(known.forbidden());
  CHECK(contains(known.what(), "system:serviceaccount:" + place.name + ":default"));
}

TEST_CASE("commands in a pod") {
  if (!has_node()) return;
  Place place;
  const Resource pod = start_pod(place, "sleep 600");
  Ran ran = run(place.client, pod, {"sh", "-c", "echo out; echo err >&2; exit 7"});
  CHECK(ran.code == 7);
  CHECK(ran.output == "out\n");
  CHECK(ran.errors == "err\n");
  CHECK(run(place.client, pod, {"true"}).code == 0);
  CHECK_ERROR(run(place.client, pod, {"no-such-program"}), "no-such-program");
  CHECK(api_error([&] { run(place.client, kPods.in(place.name, "none"), {"true"}); }).not_found());

  // Sends standard input to its end, and back: more than any buffer on the way can hold.
  const TemporaryDirectory folder;
  std::string bytes;
  for (const uint8_t byte : random_bytes(3 << 20)) bytes += static_cast<char>(byte);
  write_file_atomic(folder.file("bytes"), bytes);
  ran = run(place.client, pod, {"cat"}, folder.file("bytes"));
  CHECK(ran.code == 0);
  CHECK(ran.output == bytes);

  ExecOptions terminal{.command = {"sh", "-c", "stty size; exit 3"}, .terminal = true};
  std::string screen;
  terminal.output = [&](std::string_view piece) { screen += piece; };
  terminal.size = [] { return TerminalSize{123, 45}; };
  terminal.command = {"sh", "-c", "sleep 1; stty size; exit 3"};
  CHECK(exec(place.client, pod, terminal) == 3);
  CHECK(screen == "45 123\r\n");

  Cancellation cancel;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    cancel.cancel();
  });
  CHECK_THROWS_AS(exec(place.client, pod, {.command = {"sleep", "60"}}, &cancel), Cancelled);
  later.join();
}

TEST_CASE("logs, while they are written and after") {
  if (!has_node()) return;
  Place place;
  const Resource pod = start_pod(
      place, "for i in 1 2 3 4 5; do echo line $i; echo; sleep 0.3; done; printf end", false);
  std::vector<std::string> lines;
  const auto take = [&](std::string_view line) { lines.emplace_back(line); };
  logs(place.client, pod, {.follow = true}, take);
  REQUIRE(lines.size() == 11);
  CHECK(lines[0] == "line 1");
  CHECK(lines[1].empty());
  CHECK(lines[10] == "end");
  lines.clear();
  logs(place.client, pod, {.timestamps = true, .tail = 3}, take);
  REQUIRE(lines.size() == 3);
  CHECK(contains(lines[0], "Z line 5"));
  CHECK(api_error([&] { logs(place.client, pod, {.previous = true}, take); }).code() == 400);
}

TEST_CASE("ports of a pod, and a service behind the API server") {
  if (!has_node()) return;
  Place place;
  const Resource pod =
      start_pod(place,
                "mkdir /w; head -c 2000000 /dev/zero > /w/big; echo hello > /w/index.html; "
                "exec httpd -f -p 8080 -h /w");
  PortForward forward(place.client, pod, 8080);
  const std::string url = fmt::format("http://127.0.0.1:{}", forward.port());
  HttpClient http;
  CHECK(soon([&] {
    try {
      return http.send({.url = url + "/"}).body == "hello\n";
    } catch (const HttpError&) {
      return false;  // it is not listening yet
    }
  }));
  CHECK(http.send({.url = url + "/big"}).body == std::string(2'000'000, '\0'));
  CHECK(http.send({.url = url + "/none"}).status == 404);

  place.client.create(kServices.in(place.name),
                      {{"apiVersion", "v1"},
                       {"kind", "Service"},
                       {"metadata", {{"name", "web"}}},
                       {"spec",
                        {{"selector", {{"app", "p"}}},
                         {"ports", Json::array({{{"port", 80}, {"targetPort", 8080}}})}}}});
  CHECK(soon([&] {
    return place.client.pass({.url = service_proxy_path(place.name, "web", "80")}).body ==
           "hello\n";
  }));
}

}  // namespace adaptdl::kube
