#include "core/sched/supervisor.h"

#include <doctest/doctest.h>
#include <fstream>
#include <sys/resource.h>
#include <thread>

#include "core/base/log.h"
#include "tests/support/soon.h"
#include "tests/unit/net/http_peer.h"
#include "tests/unit/sched/fake_jobs.h"

namespace adaptdl {
namespace {

using adaptdl::testing::soon;

struct World {
  FakeJobs jobs;
  Supervisor supervisor;

  explicit World(const HttpServerOptions& options = {}) : supervisor(jobs, options) {}

  void put(const std::string& job, int64_t group, const std::vector<std::string>& addresses,
           std::optional<std::string> token = std::nullopt) {
    jobs.with([&](auto& all) {
      all[job].token = token;
      all[job].addresses[group] = addresses;
    });
  }
  HttpPeer::Answer ask(const std::string& method, const std::string& target,
                       const std::string& body = "") const {
    HttpPeer peer(supervisor.port());
    peer.send(fmt::format("{} {} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{}", method,
                          target, body.size(), body));
    return peer.receive(method != "HEAD").value();
  }
  int status(const std::string& method, const std::string& target,
             const std::string& body = "") const {
    return ask(method, target, body).status;
  }
  // A poll that waits, begun.
  HttpPeer poll(const std::string& target) {
    HttpPeer peer(supervisor.port());
    peer.send(fmt::format("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", target));
    return peer;
  }
  // Until the server has done what it was asked for before, on whatever connection.
  void settle(int looks) {
    while (jobs.looks() < looks) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::vector<SchedulingHints> hints(const std::string& job, size_t count) {
    for (;;) {
      const auto found = jobs.with([&](auto& all) { return all[job].hints; });
      if (found.size() >= count) return found;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
};

const std::string kHints =
    R"({"initBatchSize": 128, "localBszBounds": [32, 256], "globalBatchSize": null, )"
    R"("maxBatchSize": 2048, "maxProfiledReplicas": 2, "gradientAccumulation": true, )"
    R"("gradParams": {"norm": 0.041, "var": 0.5}, "perfParams": {"alpha_c": 0.031, )"
    R"("beta_c": 0.0005, "alpha_n": 1.1000000000000001e-08, "beta_n": 1.1000000000000001e-08, )"
    R"("alpha_r": 1e-08, "beta_r": 1e-08, "gamma": 1.000999}})";

}  // namespace

TEST_CASE("paths and methods") {
  World world;
  world.put("team-a/resnet", 0, {"10.0.0.5", "10.0.0.9"});
  CHECK(world.status("GET", "/healthz") == 200);
  CHECK(world.status("HEAD", "/healthz") == 200);
  CHECK(world.status("GET", "/j/whatever/healthz") == 200);
  const auto answer = world.ask("GET", "/discover/team-a/resnet/0");
  CHECK(answer.status == 200);
  CHECK(answer.head.find("Content-Type: application/json; charset=utf-8\r\n") != std::string::npos);
  CHECK(Json::parse(answer.body) == Json({"10.0.0.5", "10.0.0.9"}));
  // A base URL that ends with '/'.
  CHECK(world.status("GET", "//discover/team-a/resnet/0") == 200);
  CHECK(world.status("GET", "/j/x//discover/team-a/resnet/0") == 200);
  CHECK(world.status("HEAD", "/discover/team-a/resnet/0") == 200);
  for (const char* path : {"/", "/j", "/j/token", "/discover", "/discover/None/0", "/hints/a",
                           "/healthz/a", "/discover/a/b/0/1", "/other"}) {
    CAPTURE(path);
    CHECK(world.status("GET", path) == 404);
  }
  const auto refused = world.ask("POST", "/hints/team-a/resnet", kHints);
  CHECK(refused.status == 405);
  CHECK(refused.head.find("Allow: PUT\r\n") != std::string::npos);
  CHECK(world.status("PUT", "/discover/team-a/resnet/0") == 405);
  CHECK(world.status("DELETE", "/healthz") == 405);
  CHECK(world.status("GET", "/discover/team-a/resnet/zero") == 400);
  CHECK(world.status("GET", "/discover/team-a/resnet/1?timeout=soon") == 400);
  CHECK(world.status("GET", "/discover/team-a/resnet/1?timeout=-1") == 400);
  CHECK(world.status("GET", "/discover/team-a/resnet/1?timeout=nan") == 400);
}

TEST_CASE("who asks too early is held, and then told 408") {
  World world;
  world.put("a/b", 0, {"10.0.0.1"});
  for (const char* path : {"/discover/a/b/1?timeout=0.2", "/discover/a/none/0?timeout=0.2",
                           "/j/token/discover/a/none/0?timeout=0.2"}) {
    const TimePoint begun = Monotonic::now();
    const auto answer = world.ask("GET", path);
    CHECK(answer.status == 408);
    CHECK(answer.body.empty());
    CHECK(seconds_since(begun) > 0.19);
  }
  CHECK(world.status("GET", "/discover/a/none/0?timeout=0") == 408);
  // Without a time it is 30 s: still there after this while.
  const int looks = world.jobs.looks();
  HttpPeer peer = world.poll("/discover/a/b/1");
  world.settle(looks + 1);
  CHECK_FALSE(peer.receive(true, Seconds(0.3)));
  world.supervisor.stop(Seconds(5));
  CHECK(peer.receive()->status == 408);
}

TEST_CASE("held polls are answered when their job has its addresses") {
  World world;
  std::vector<HttpPeer> peers;
  for (int i = 0; i < 4; ++i) peers.push_back(world.poll("/discover/a/b/3"));
  HttpPeer other = world.poll("/discover/a/c/3");
  world.settle(5);
  world.put("a/b", 2, {"10.0.0.1"});
  world.supervisor.changed();
  CHECK_FALSE(peers[0].receive(true, Seconds(0.1)));
  world.put("a/b", 3, {"10.0.0.2", "10.0.0.3"});
  world.supervisor.changed();
  for (HttpPeer& peer : peers) {
    const auto answer = peer.receive();
    CHECK(answer->status == 200);
    CHECK(answer->body == R"(["10.0.0.2","10.0.0.3"])");
  }
  CHECK_FALSE(other.receive(true, Seconds(0.1)));
}

TEST_CASE("polls whose clients went away are forgotten") {
  World world;
  for (int i = 0; i < 3; ++i) world.poll("/discover/a/b/0");
  HttpPeer peer = world.poll("/discover/a/c/0");
  world.settle(4);
  // One look at each poll that still waits: in the end at one.
  int looks = 0;
  for (int round = 0; looks != 1 && round < 1000; ++round) {
    const int before = world.jobs.looks();
    world.supervisor.changed();
    world.settle(before + 1);
    CHECK(world.status("GET", "/healthz") == 200);
    looks = world.jobs.looks() - before;
  }
  CHECK(looks == 1);
  world.put("a/c", 0, {"x"});
  world.supervisor.changed();
  CHECK(peer.receive()->status == 200);
}

TEST_CASE("a job with a token is served only under it") {
  World world;
  world.put("a/b", 0, {"10.0.0.1"}, "secret");
  CHECK(world.status("GET", "/j/secret/discover/a/b/0") == 200);
  CHECK(world.status("GET", "/discover/a/b/0") == 401);
  for (const char* token : {"secre", "secret1", "Secret", "%73ecret"}) {
    CHECK(world.status("GET", fmt::format("/j/{}/discover/a/b/0", token)) == 403);
    CHECK(world.status("PUT", fmt::format("/j/{}/hints/a/b", token), kHints) == 403);
  }
  CHECK(world.status("PUT", "/hints/a/b", kHints) == 401);
  CHECK(world.status("PUT", "/j/secret/hints/a/b", kHints) == 200);
  CHECK(world.hints("a/b", 1).size() == 1);
  // A poll may come before the job is known, and its token with it.
  const int before = world.jobs.looks();
  HttpPeer wrong = world.poll("/j/wrong/discover/a/c/0"), none = world.poll("/discover/a/c/0"),
           right = world.poll("/j/right/discover/a/c/0");
  world.settle(before + 3);
  CHECK_FALSE(wrong.receive(true, Seconds(0.1)));
  world.put("a/c", 0, {"10.0.0.2"}, "right");
  world.supervisor.changed();
  CHECK(right.receive()->status == 200);
  CHECK(wrong.receive()->status == 403);
  CHECK(none.receive()->status == 401);
}

TEST_CASE("a replica tells that it leads") {
  World world;
  world.put("a/b", 3, {"10.0.0.5"}, "secret");
  CHECK(world.status("PUT", "/j/secret/leads/a/b/3/2") == 200);
  CHECK(world.status("GET", "/healthz") == 200);  // it answers before it tells
  CHECK(world.jobs.with([](auto& all) { return all["a/b"].leads; }) ==
        std::vector<std::pair<int64_t, int>>{{3, 2}});
  for (const char* wrong : {"3/-1", "3/x", "x/2", "3/99999999999"}) {
    CHECK(world.status("PUT", std::string("/j/secret/leads/a/b/") + wrong) == 400);
  }
  CHECK(world.status("GET", "/j/secret/leads/a/b/3/2") == 405);
  CHECK(world.status("PUT", "/j/secret/leads/a/b/3") == 404);
  CHECK(world.status("PUT", "/j/secret/leads/a/none/3/2") == 404);
  CHECK(world.status("PUT", "/j/other/leads/a/b/3/2") == 403);
  CHECK(world.status("PUT", "/j/secret/leads/a/b/3/2", "{}") == 400);
  CHECK(world.jobs.with([](auto& all) { return all["a/b"].leads; }).size() == 1);
}

TEST_CASE("hints arrive whole, and nonsense is a 400") {
  World world;
  world.put("a/b", 0, {"10.0.0.1"});
  const auto answer = world.ask("PUT", "/hints/a/b", kHints);
  CHECK(answer.status == 200);
  CHECK(answer.body.empty());
  const SchedulingHints got = world.hints("a/b", 1)[0];
  CHECK(to_json(got) == Json::parse(kHints));
  CHECK(world.status("PUT", "/hints/a/b", R"({"gradParams": null, "unknown": [1]})") == 200);
  CHECK_FALSE(world.hints("a/b", 2)[1].grad);

  std::string not_a_number = kHints;
  not_a_number.replace(not_a_number.find("0.041"), 5, "NaN");
  const auto refused = world.ask("PUT", "/hints/a/b", not_a_number);
  CHECK(refused.status == 400);
  CHECK(refused.body.starts_with("hints of a/b: gradParams"));
  for (const char* body : {"", "{", "[]", "NaN", R"({"maxBatchSize": Infinity})",
                           R"({"initBatchSize": -1})", "\xff\xfe"}) {
    CAPTURE(body);
    CHECK(world.status("PUT", "/hints/a/b", body) == 400);
  }
  CHECK(world.status("PUT", "/hints/a/b", std::string(70'000, ' ') + "{}") == 413);
  CHECK(world.status("PUT", "/hints/a/none", kHints) == 404);
  CHECK(world.hints("a/b", 2).size() == 2);
}

TEST_CASE("a scheduler in trouble does not end programs that ask for addresses") {
  set_log_level(LogLevel::error);
  World world;
  world.put("a/b", 0, {"10.0.0.1"});
  world.jobs.break_with("the disk is full");
  CHECK(world.status("GET", "/discover/a/b/0?timeout=0.05") == 408);
  CHECK(world.status("PUT", "/hints/a/b", kHints) == 500);
  HttpPeer peer = world.poll("/discover/a/b/0");
  world.settle(3);
  world.jobs.break_with("");
  world.supervisor.changed();
  CHECK(peer.receive()->status == 200);
  set_log_level(LogLevel::info);
}

TEST_CASE("a request for an unknown job is held for seconds only") {
  World world;
  const TimePoint start = Monotonic::now();
  CHECK(world.status("GET", "/discover/a/none/0?timeout=300") == 408);
  CHECK(seconds_since(start) > 4);
  CHECK(seconds_since(start) < 15);
}

TEST_CASE("nobody can hold more than a share of the connections") {
  set_log_level(LogLevel::error);
  World world({.max_connections = 400});
  world.put("a/b", 0, {"10.0.0.1"}, "secret");
  world.put("a/c", 0, {"10.0.0.2"}, "other");
  const auto told_to_ask_again = [&](const std::string& target) {
    const auto answer = world.ask("GET", target);
    return answer.status == 408 && answer.head.find("Retry-After: 1\r\n") != std::string::npos;
  };
  // Strangers, who are all at one address: a hundredth.
  std::vector<HttpPeer> strangers;
  for (int i = 0; i < 4; ++i) strangers.push_back(world.poll(fmt::format("/discover/x/{}/0", i)));
  world.settle(4);
  CHECK(told_to_ask_again("/discover/x/y/0"));
  // A job's own replicas: a quarter.
  std::vector<HttpPeer> replicas;
  int looks = world.jobs.looks();
  for (int i = 0; i < 100; ++i) replicas.push_back(world.poll("/j/secret/discover/a/b/1"));
  world.settle(looks + 100);
  CHECK(told_to_ask_again("/j/secret/discover/a/b/1"));
  // Other jobs wait as usual, and the shares come back.
  HttpPeer other = world.poll("/j/other/discover/a/c/1");
  CHECK_FALSE(other.receive(true, Seconds(0.1)));
  for (HttpPeer& stranger : strangers) CHECK(stranger.receive()->status == 408);
  world.put("a/b", 1, {"10.0.0.3"}, "secret");
  world.supervisor.changed();
  for (HttpPeer& replica : replicas) CHECK(replica.receive()->status == 200);
  HttpPeer again = world.poll("/j/secret/discover/a/b/2"), stranger = world.poll("/discover/x/z/0");
  CHECK_FALSE(again.receive(true, Seconds(0.1)));
  CHECK_FALSE(stranger.receive(true, Seconds(0.1)));
  set_log_level(LogLevel::info);
}

TEST_CASE("a body is read from the job's own programs only") {
  World world;
  world.put("a/b", 0, {"10.0.0.1"}, "secret");
  for (const auto& [target, status] :
       {std::pair("/hints/a/b", 401), std::pair("/j/wrong/hints/a/b", 403),
        std::pair("/hints/a/none", 404), std::pair("/healthz", 405)}) {
    CAPTURE(target);
    HttpPeer peer(world.supervisor.port());
    peer.send(fmt::format("PUT {} HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n", target));
    CHECK(peer.receive()->status == status);
    CHECK(peer.closes());
  }
  HttpPeer peer(world.supervisor.port());
  peer.send("GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n");
  CHECK(peer.receive()->status == 400);
}

TEST_CASE("hints that come too fast are applied slowly, and the newest last") {
  World world;
  world.put("a/b", 0, {"10.0.0.1"});
  world.put("a/c", 0, {"10.0.0.1"});
  HttpPeer peer(world.supervisor.port());
  const TimePoint begun = Monotonic::now();
  constexpr int kSent = 1000;
  for (int i = 1; i <= kSent; ++i) {
    const std::string body = fmt::format(R"({{"maxProfiledReplicas": {}}})", i);
    peer.send(fmt::format("PUT /hints/a/b HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{}",
                          body.size(), body));
    REQUIRE(peer.receive()->status == 200);
  }
  // 5 at once, and one more every 10 s that this may have taken.
  CHECK(static_cast<double>(world.hints("a/b", 5).size()) <= 6 + seconds_since(begun) / 10);
  CHECK(world.status("PUT", "/hints/a/c", kHints) == 200);  // another job is not concerned
  CHECK(world.hints("a/c", 1).size() == 1);
  // Some 10 s later, with the next one.
  CHECK(soon([&] { return world.hints("a/b", 6).back().max_profiled_replicas == kSent; }));
}

TEST_CASE("changes from many threads while programs come and go") {
  World world;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string job = fmt::format("a/{}-{}", t, i);
        HttpPeer peer = world.poll("/discover/" + job + "/0");
        HttpPeer gone = world.poll("/discover/" + job + "/0");
        gone.close();
        world.put(job, 0, {job});
        world.supervisor.changed();
        const auto answer = peer.receive();
        const bool good = answer && answer->body == "[\"" + job + "\"]";
        if (!good) FAIL_CHECK("no addresses for " << job);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

namespace {

int threads_here() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Threads:")) return std::stoi(line.substr(8));
  }
  return 0;
}

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("1,000 held polls cost neither threads nor much memory") {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit before = limit;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4096);
  setrlimit(RLIMIT_NOFILE, &limit);
  constexpr int kPolls = 1000;
  REQUIRE(limit.rlim_cur > 2 * kPolls + 50);  // both ends are here
  {
    World world;
    CHECK(world.status("GET", "/healthz") == 200);
    const int threads = threads_here();
    [[maybe_unused]] const double memory = resident_bytes();  // a sanitizer takes more
    std::vector<HttpPeer> peers;
    peers.reserve(kPolls);
    world.put("a/b", 7, {"10.0.0.7"});  // a known job
    for (int i = 0; i < kPolls; ++i) {
      peers.push_back(world.poll(fmt::format("/discover/a/b/{}", i % 2)));
      REQUIRE(peers.back().connected());
    }
    world.settle(kPolls);
    CHECK(threads_here() <= threads);  // one that has just been joined may still be counted before
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    CHECK((resident_bytes() - memory) / kPolls < 10'000);
#endif
    // Others are served meanwhile, and time passes without work.
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const auto microseconds = [&] {
      return used.ru_utime.tv_sec * 1'000'000L + used.ru_utime.tv_usec;
    };
    const long begun = microseconds();
    getrusage(RUSAGE_SELF, &used);
    CHECK(microseconds() - begun < 30'000);
    CHECK(world.status("GET", "/healthz") == 200);

    world.put("a/b", 0, {"10.0.0.1"});
    world.put("a/b", 1, {"10.0.0.2"});
    world.supervisor.changed();
    int answered = 0;
    for (HttpPeer& peer : peers) answered += peer.receive().value().status == 200;
    CHECK(answered == kPolls);
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace adaptdl
