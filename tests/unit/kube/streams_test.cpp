#include <fcntl.h>
#include <list>
#include <poll.h>
#include <stdexcept>
#include <thread>

#include "core/base/files.h"
#include "core/base/poll.h"
#include "core/kube/exec.h"
#include "core/kube/logs.h"
#include "core/kube/port_forward.h"
#include "core/net/websocket.h"
#include "tests/unit/base/expect_error.h"
#include "tests/unit/kube/fake_cluster.h"
#include "tests/unit/kube/fake_streams.h"
#include "tests/unit/net/http_peer.h"
#include "tests/unit/net/loopback_server.h"

namespace adaptdl::kube {
namespace {

const Resource kPod = kPods.in("default", "p");

struct Ran {
  int code;
  std::string output, errors;
};
Ran run(Client& client, const std::vector<std::string>& command, int input = -1,
        bool counted = false, const Cancellation* cancel = nullptr) {
  Ran ran{};
  ran.code = exec(client, kPod,
                  {.command = command,
                   .input = input,
                   .input_is_counted = counted,
                   .output = [&](std::string_view piece) { ran.output += piece; },
                   .errors = [&](std::string_view piece) { ran.errors += piece; }},
                  cancel);
  return ran;
}

}  // namespace

TEST_CASE("a command's input, outputs and end") {
  FakeStreams server("v5.channel.k8s.io");
  Client client(server.config());
  const TemporaryDirectory folder;
  std::string bytes(500'000, 'a');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  write_file_atomic(folder.file("in"), bytes);
  const Fd input = open_file(folder.file("in"), O_RDONLY);
  Ran ran = run(client, {"cat"}, input.get());
  CHECK(ran.code == 0);
  CHECK(ran.output == bytes);
  // It ends while its input is on the way.
  const Fd long_input = open_file(folder.file("in"), O_RDONLY);
  CHECK(run(client, {"cat", "3"}, long_input.get()).code == 0);
  ran = run(client, {"fail"});
  CHECK(ran.code == 7);
  CHECK(ran.output == "out");
  CHECK(ran.errors == "err");
  CHECK_ERROR(run(client, {"missing"}), "exec in pods/p in default: no such (500 InternalError)");
  CHECK_THROWS_AS(run(client, {"drop"}), HttpError);
  Cancellation cancel;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    cancel.cancel();
  });
  CHECK_THROWS_AS(run(client, {"hang"}, -1, false, &cancel), Cancelled);
  other.join();
}

TEST_CASE("a server is silent when it leaves a ping unanswered") {
  FakeStreams server("v5.channel.k8s.io");
  Client client(server.config());
  CHECK_ERROR(exec(client, kPod, {.command = {"mute"}, .silence = Seconds(0.3)}),
              "exec in pods/p in default: the server has not answered for 0");
  // Not when it is we who do not listen for longer than that.
  const TemporaryDirectory folder;
  const FakeCluster cluster(folder.path());
  Client other(cluster.config());
  std::string got;
  const auto take = [&](std::string_view piece) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3000));
    got += piece;
  };
  CHECK(exec(other, kPod,
             {.command = {"sh", "-c", "echo a; sleep 6; exit 3"},
              .output = take,
              .silence = Seconds(2.0)}) == 3);
  CHECK(got == "a\n");
}

TEST_CASE("the answer to a ping is no message, but is heard, also by who did not wait for it") {
  FakeStreams server("v5.channel.k8s.io");
  WebSocket socket(
      {.url = server.config().server + "/api/v1/namespaces/default/pods/p/exec?command=hang",
       .protocols = {"v5.channel.k8s.io"}});
  socket.ping();
  REQUIRE(wait_ready(socket.fd(), POLLIN, Monotonic::now() + std::chrono::seconds(60)));
  CHECK_FALSE(socket.receive().has_value());
  CHECK(socket.frames() == 1);
}

TEST_CASE("a command that writes for ever is ended all the same") {
  FakeStreams server("v5.channel.k8s.io");
  Client client(server.config());
  Cancellation cancel;
  int pieces = 0;
  const auto take = [&](std::string_view) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (++pieces == 100) cancel.cancel();
    if (pieces == 1000) throw std::runtime_error("it goes on");
  };
  CHECK_THROWS_AS(exec(client, kPod, {.command = {"flood"}, .output = take}, &cancel), Cancelled);
}

TEST_CASE("an older server cannot end a command's input") {
  FakeStreams server("v4.channel.k8s.io");
  Client client(server.config());
  const TemporaryDirectory folder;
  write_file_atomic(folder.file("in"), "abc");
  const Fd input = open_file(folder.file("in"), O_RDONLY);
  CHECK_ERROR(run(client, {"cat"}, input.get()), "older than Kubernetes 1.30");
  const Fd again = open_file(folder.file("in"), O_RDONLY);
  CHECK(run(client, {"cat", "3"}, again.get(), true).output == "abc");
}

TEST_CASE("connections that are refused say why") {
  FakeStreams server("");
  Client client(server.config());
  CHECK_ERROR(run(client, {"cat"}), "none of the client's protocols");
  try {
    exec(client, kPods.in("secret", "p"), {.command = {"true"}});
    FAIL("no ApiError");
  } catch (const ApiError& error) {
    CHECK(error.forbidden());
    CHECK(contains(error.what(), "connect to pods/p/exec in secret: not you (403 Forbidden)"));
  }
}

TEST_CASE("what a Status of the error channel says") {
  CHECK(exit_code("x", Json{{"status", "Success"}}) == 0);
  const auto ended = [](const char* code) {
    return Json{
        {"status", "Failure"},
        {"message", "m"},
        {"details", {{"causes", Json::array({{{"reason", "ExitCode"}, {"message", code}}})}}}};
  };
  CHECK(exit_code("x", ended("255")) == 255);
  CHECK_ERROR(exit_code("x", ended("256")), "x: m");
  CHECK_ERROR(exit_code("x", ended("-1")), "x: m");
  CHECK_ERROR(exit_code("x", Json{}), "x: the server could not run the command");
}

TEST_CASE("a forwarded port passes bytes both ways") {
  FakeStreams server("v4.channel.k8s.io");
  Client client(server.config());
  {
    const PortForward forward(client, kPod, 8080);
    HttpPeer one(forward.port()), other(forward.port());
    const auto talk = [](HttpPeer& peer, const std::string& text) {
      REQUIRE(peer.send(text));
      std::string got(text.size(), ' ');
      CHECK(recv_exactly(peer.fd(), std::as_writable_bytes(std::span(got)),
                         Monotonic::now() + std::chrono::seconds(20)));
      CHECK(got == text);
    };
    talk(one, "abc");
    talk(other, std::string(300'000, 'x'));
    talk(one, "bye");
    CHECK(one.closes());
    talk(other, "still here");
    // A connection that is open ends with the forwarding.
  }
  {
    // Programs that have said their last, and read late, get all.
    const PortForward forward(client, kPod, 8080);
    std::list<HttpPeer> peers;
    for (int i = 0; i < 4; ++i) {
      HttpPeer& late = peers.emplace_back(forward.port());
      REQUIRE(late.send("much"));
      ::shutdown(late.fd(), SHUT_WR);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    for (HttpPeer& late : peers) {
      std::string got(6u << 20, ' ');
      CHECK(recv_exactly(late.fd(), std::as_writable_bytes(std::span(got)),
                         Monotonic::now() + std::chrono::seconds(20)));
      CHECK(late.closes());
    }
  }
  const PortForward broken(client, kPod, 1, 0, "localhost");
  HttpPeer peer(broken.port());
  CHECK(peer.closes());
  CHECK_ERROR(PortForward(client, kPod, 1, broken.port(), "localhost"),
              "another program listens there");
  CHECK_THROWS_AS(PortForward(client, kPod, 1, 0, "192.0.2.1"), Error);  // another machine's
}

TEST_CASE("logs are followed through lost connections, each line once") {
  FakeApi api;
  Client client(api.config());
  Json pod{{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", {{"name", "p"}}}};
  api.put(kPods.in("default"), pod);
  int calls = 0;
  std::string queries;
  api.set_fault([&](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    if (request.path.ends_with("/pods/p") && calls >= 4) {
      return HttpResponse{200, {}, R"({"status":{"phase":"Succeeded"}})"};
    }
    if (!request.path.ends_with("/log")) return std::nullopt;
    queries += request.query + "\n";
    const std::string a = "2026-01-31T08:05:09.1Z a\n", b = "2026-01-31T08:05:09.2Z \n",
                      c = "2026-01-31T08:05:10.1Z c d";
    switch (++calls) {
      case 1:
        return status_response(400, "BadRequest", "ContainerCreating");
      case 2:
        return HttpResponse{200, {}, a};
      case 3:
        return HttpResponse{200, {}, a + b};
      default:
        return HttpResponse{200, {}, a + b + c};
    }
  });
  std::string got;
  logs(client, kPod, {.follow = true, .tail = 100},
       [&](std::string_view line) { got += fmt::format("[{}]", line); });
  CHECK(got == "[a][][c d]");
  CHECK(queries.starts_with("timestamps=true&follow=true&tailLines=100\n"));
  CHECK(contains(queries, "follow=true&sinceTime=2026-01-31T08%3A05%3A09.1Z\n"));
  calls = 1;
  got.clear();
  logs(client, kPod, {.timestamps = true}, [&](std::string_view line) { got += line; });
  CHECK(got == "2026-01-31T08:05:09.1Z a");
}

TEST_CASE("a container that does not start is asked for less and less often") {
  FakeApi api;
  Client client(api.config());
  api.put(kPods.in("default"), {{"metadata", {{"name", "p"}}}, {"status", {{"phase", "Running"}}}});
  int calls = 0;
  api.set_fault([&](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    if (!request.path.ends_with("/log")) {
      if (calls < 2) return std::nullopt;
      return HttpResponse{200, {}, R"({"status":{"phase":"Succeeded"}})"};
    }
    if (++calls < 3) return status_response(400, "BadRequest", "ContainerCreating");
    return HttpResponse{200, {}, "2026-01-31T08:05:09.1Z a\n"};
  });
  std::string got;
  const TimePoint begun = Monotonic::now();
  logs(client, kPod, {.follow = true}, [&](std::string_view line) { got += line; });
  CHECK(got == "a");
  CHECK(seconds_since(begun) > 0.8);  // 0.3 and 0.6 s, not twice 0.3 s
}

TEST_CASE("logs are followed through failures of the server, and of its answers about the pod") {
  const std::string running = R"({"status":{"phase":"Running"}})",
                    ended = R"({"status":{"phase":"Succeeded"}})", a = "2026-01-31T08:05:09.1Z a\n",
                    b = "2026-01-31T08:05:09.2Z b\n", c = "2026-01-31T08:05:10.1Z c\n";
  const auto answer = [](int status, const std::string& body) {
    return fmt::format("HTTP/1.1 {} x\r\nContent-Length: {}\r\n\r\n{}", status, body.size(), body);
  };
  // In turn: of the pod, of its log.
  const std::vector<std::string> answers = {
      answer(200, running),
      answer(200, a),
      "HTTP/1.1 200 x\r\nContent-Length: 9\r\n\r\n",  // and no more
      answer(200, running),
      answer(200, a + b),
      answer(429, ""),
      answer(200, running),
      answer(200, b),
      answer(200, ended),
      answer(503, ""),
      answer(200, ended),
      answer(200, b + c)};
  size_t asked = 0;
  const LoopbackServer server([&](const std::string&) {
    return asked < answers.size() ? answers[asked++] : answer(404, "");
  });
  Config config;
  config.server = server.url("");
  Client client(config, {.retry_budget = Seconds(0)});
  std::string got;
  logs(client, kPod, {.follow = true}, [&](std::string_view line) { got += line; });
  CHECK(got == "abc");
  CHECK(asked == answers.size());
  // Not following, there is one try.
  asked = 9;
  CHECK_THROWS_AS(logs(client, kPod, {}, [](std::string_view) {}), ApiError);
}

}  // namespace adaptdl::kube
