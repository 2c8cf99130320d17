// `adaptdl logs` on Kubernetes, through lost connections, new pods and the end of the job.

#include <atomic>
#include <doctest/doctest.h>
#include <functional>
#include <mutex>
#include <set>
#include <utility>

#include "core/base/number.h"
#include "core/client/kubernetes/logs.h"
#include "tests/support/soon.h"
#include "tests/unit/client/kubernetes_lab.h"
#include "tests/unit/client/standing.h"
#include "tests/unit/kube/fake_api_request.h"

namespace adaptdl::client {
namespace {

// What pods have printed, as their nodes tell it: whole seconds of sinceTime, the last tailLines.
class PodLogs {
 public:
  // `late`: who follows a pod asks, at first, before its node knows of it.
  explicit PodLogs(kube::FakeApi& api, bool late = false) : late_(late) {
    api.set_fault([this](const HttpServerRequest& request) { return answer(request); });
  }

  // Its node cannot be reached.
  void lose(const std::string& pod) {
    const std::lock_guard lock(mutex_);
    lost_.insert(pod);
  }

  // A pod of that name is new.
  void forget(const std::string& pod) {
    const std::lock_guard lock(mutex_);
    lines_.erase(pod);
  }

  // How often somebody has asked for the pod itself, and for its log.
  int looks(const std::string& pod) {
    const std::lock_guard lock(mutex_);
    return looks_[pod];
  }
  int reads(const std::string& pod) {
    const std::lock_guard lock(mutex_);
    return reads_[pod];
  }

  // Called when somebody asks for that pod the next time, before the answer.
  void at_look(const std::string& pod, std::function<void()> act) {
    const std::lock_guard lock(mutex_);
    acts_[pod] = std::move(act);
  }

  void add(const std::string& pod, const std::string& line) {
    const std::lock_guard lock(mutex_);
    const int64_t milliseconds = 40 * count_++;
    lines_[pod].push_back(fmt::format("2026-01-01T00:{:02}:{:02}.{:03}000000Z {}\n",
                                      milliseconds / 60'000, milliseconds / 1000 % 60,
                                      milliseconds % 1000, line));
  }

 private:
  std::optional<HttpResponse> answer(const HttpServerRequest& request) {
    const std::vector<std::string> parts = kube::fake::split(request.path, '/');
    if (!request.path.ends_with("/log")) {
      look(parts.back());
      return std::nullopt;
    }
    const std::string& pod = parts[parts.size() - 2];
    if (kube::fake::parameter(request, "timestamps") != "true") {
      return kube::status_response(400, "BadRequest", "no times");
    }
    const std::string since = kube::fake::parameter(request, "sinceTime").substr(0, 19);
    const std::string tail = kube::fake::parameter(request, "tailLines");
    const std::lock_guard lock(mutex_);
    ++reads_[pod];
    if (lost_.contains(pod)) {
      return kube::status_response(500, "InternalError", "dial tcp: i/o timeout",
                                   {{"Retry-After", "60"}});
    }
    const bool follows = kube::fake::parameter(request, "follow") == "true";
    const bool begins = lines_[pod].size() < 20;
    if (late_ && follows && begins && asked_.insert(pod).second) {
      return kube::status_response(404, "NotFound", "the pod's node does not know of it yet");
    }
    if (lines_[pod].empty()) {
      return kube::status_response(400, "BadRequest", "its container is waiting to start");
    }
    const std::vector<std::string>& lines = lines_[pod];
    const size_t most = tail.empty() ? lines.size() : parse_unsigned(tail, "tailLines");
    std::string text;
    for (size_t i = lines.size() - std::min(most, lines.size()); i < lines.size(); ++i) {
      if (lines[i].substr(0, 19) >= since) text += lines[i];
    }
    return HttpResponse{200, {{"Content-Type", "text/plain"}}, text};
  }

  void look(const std::string& pod) {
    std::function<void()> act;
    {
      const std::lock_guard lock(mutex_);
      ++looks_[pod];
      act = std::exchange(acts_[pod], {});
    }
    if (act) act();
  }

  const bool late_;
  std::mutex mutex_;
  std::map<std::string, std::vector<std::string>> lines_;
  std::map<std::string, int> looks_, reads_;
  std::map<std::string, std::function<void()>> acts_;
  std::set<std::string> asked_, lost_;  // pods
  int64_t count_ = 0;
};

using Told = std::map<int64_t, std::vector<std::string>>;  // by replica

std::vector<std::string> numbered(const std::string& what, int from, int count) {
  std::vector<std::string> lines;
  for (int i = from; i < from + count; ++i) lines.push_back(fmt::format("{} {}", what, i));
  return lines;
}

// What `act` says on standard error.
template <typename Act>
std::string said(const KubernetesLab& lab, Act act) {
  {
    const Fd errors = open_file(lab.file("errors"), O_WRONLY | O_CREAT | O_TRUNC);
    const Standing two(2, errors.get());
    act();
  }
  return read_file(lab.file("errors"), 1 << 20);
}

}  // namespace

TEST_CASE("logs -f: each line once, over lost connections, new pods and the end") {
  KubernetesLab lab;
  PodLogs logs(lab.fake.api(), true);
  std::atomic<bool> ended = false;
  lab.put_pod("net-0-0", 0);
  lab.put_pod("net-0-1", 1);
  for (const std::string& line : numbered("first", 0, 50)) logs.add("net-0-0", line);
  lab.fake.cut(3, 900);

  Told told;
  std::thread job([&] {
    for (int i = 0; i < 40; ++i) {
      logs.add("net-0-0", fmt::format("zero {}", i));
      logs.add("net-0-1", fmt::format("one {}", i));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    lab.put_pod("net-0-0", 0, "Failed");
    lab.put_pod("net-0-1", 1, "Failed");
    for (int rank = 0; rank < 3; ++rank) {
      lab.put_pod(fmt::format("net-1-{}", rank), rank, "Pending", 1);
    }
    for (int i = 0; i < 40; ++i) {
      for (int rank = 0; rank < 3; ++rank) {
        logs.add(fmt::format("net-1-{}", rank), fmt::format("again {}", i));
      }
      if (i == 5) {
        for (int rank = 0; rank < 3; ++rank) {
          lab.put_pod(fmt::format("net-1-{}", rank), rank, "Running", 1);
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    for (int rank = 0; rank < 3; ++rank) {
      lab.put_pod(fmt::format("net-1-{}", rank), rank, "Succeeded", 1);
    }
    ended = true;
  });
  {
    const auto reader =
        read_kubernetes_logs(*lab.cluster, lab.job["metadata"]["uid"],
                             {.name = "net", .follow = true}, [&] { return !ended.load(); });
    const LogLine take = [&](int64_t replica, const std::string& line) {
      told[replica].push_back(line);
    };
    for (;;) {
      const bool more = reader->may_grow();
      reader->next(take, !more);
      if (!more) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    CHECK(reader->replicas() == 3);
  }
  job.join();
  const auto joined = [](std::vector<std::string> a, const std::vector<std::string>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  // Pods of one replica may be told beside each other; the lines of each are in order.
  const auto of = [&](int64_t replica, const std::string& word) {
    std::vector<std::string> lines;
    for (const std::string& line : told[replica]) {
      if ((line.find("again") == 0) == (word == "again")) lines.push_back(line);
    }
    return lines;
  };
  CHECK(of(0, "") == joined(numbered("first", 0, 50), numbered("zero", 0, 40)));
  CHECK(of(1, "") == numbered("one", 0, 40));
  for (const int64_t replica : {0, 1, 2}) CHECK(of(replica, "again") == numbered("again", 0, 40));
}

TEST_CASE("logs -f: a replica that comes back under its pod's name, each line once") {
  KubernetesLab lab;
  PodLogs logs(lab.fake.api());
  const std::string pod = "net-0-1";
  const auto reader = read_kubernetes_logs(*lab.cluster, lab.job["metadata"]["uid"],
                                           {.name = "net", .follow = true}, [] { return true; });
  std::vector<std::string> told;
  const auto tells = [&](const std::vector<std::string>& lines) {
    return testing::soon([&] {
             reader->next([&](int64_t, const std::string& line) { told.push_back(line); }, false);
             return told.size() >= lines.size();
           }) &&
           told == lines;
  };
  logs.add(pod, "first");
  lab.put_pod(pod, 1);
  CHECK(tells({"first"}));
  // After its reader has ended.
  std::atomic<int> before = -1;
  logs.at_look(pod, [&] {
    lab.fake.api().erase(kube::kPods.in("lab", pod));
    before = logs.reads(pod);
  });
  CHECK(testing::soon([&] { return before >= 0 && logs.reads(pod) > before; }));
  logs.forget(pod);
  logs.add(pod, "second");
  lab.put_pod(pod, 1);
  CHECK(tells({"first", "second"}));
  // While its reader is about to look.
  logs.at_look(pod, [&] {
    lab.fake.api().erase(kube::kPods.in("lab", pod));
    logs.forget(pod);
    logs.add(pod, "third");
    lab.put_pod(pod, 1);
  });
  CHECK(tells({"first", "second", "third"}));
  const int last = logs.looks(pod);
  CHECK(testing::soon([&] { return logs.looks(pod) > last + 1; }));
  CHECK(tells({"first", "second", "third"}));
}

TEST_CASE("logs -f: a pod that has not started is left alone, and read once it has") {
  KubernetesLab lab;
  PodLogs logs(lab.fake.api());
  lab.put_pod("net-0-0", 0);
  lab.put_pod("net-0-1", 1, "Pending");
  logs.add("net-0-0", "zero");
  const auto reader = read_kubernetes_logs(*lab.cluster, lab.job["metadata"]["uid"],
                                           {.name = "net", .follow = true}, [] { return true; });
  // Its reader's second look.
  CHECK(testing::soon([&] { return logs.looks("net-0-0") > 1; }));
  CHECK(logs.looks("net-0-1") == 0);
  logs.add("net-0-1", "one");
  lab.put_pod("net-0-1", 1);
  Told told;
  CHECK(testing::soon([&] {
    reader->next([&](int64_t replica, const std::string& line) { told[replica].push_back(line); },
                 false);
    return told.size() == 2;
  }));
  CHECK(told == Told{{0, {"zero"}}, {1, {"one"}}});
}

TEST_CASE("logs: what there is, of one replica, of the last lines") {
  KubernetesLab lab;
  PodLogs logs(lab.fake.api());
  lab.put_pod("net-0-0", 0, "Succeeded");
  lab.put_pod("net-0-1", 1, "Succeeded");
  lab.put_pod("net-0-2", 2, "Pending");  // has printed nothing yet
  for (const std::string& line : numbered("zero", 0, 5)) logs.add("net-0-0", line);
  for (const std::string& line : numbered("one", 0, 5)) logs.add("net-0-1", line);
  const auto read = [&](LogOptions options) {
    options.name = "net";
    Told told;
    const auto reader = read_kubernetes_logs(*lab.cluster, lab.job["metadata"]["uid"], options,
                                             [] { return false; });
    reader->next([&](int64_t replica, const std::string& line) { told[replica].push_back(line); },
                 true);
    return told;
  };
  CHECK(read({}) == Told{{0, numbered("zero", 0, 5)}, {1, numbered("one", 0, 5)}});
  CHECK(read({.replica = 1}) == Told{{1, numbered("one", 0, 5)}});
  CHECK(read({.tail = 2}) == Told{{0, numbered("zero", 3, 2)}, {1, numbered("one", 3, 2)}});
  lab.fake.api().erase(kube::kPods.in("lab", "net-0-2"));
  CHECK(read({.follow = true, .tail = 1}) ==
        Told{{0, numbered("zero", 4, 1)}, {1, numbered("one", 4, 1)}});
}

TEST_CASE("logs -f: a reader that goes while pods print, and while nobody takes their lines") {
  KubernetesLab lab;
  PodLogs logs(lab.fake.api());
  lab.put_pod("net-0-0", 0);
  for (const std::string& line : numbered("line", 0, 12'000)) logs.add("net-0-0", line);
  const auto reader = read_kubernetes_logs(*lab.cluster, lab.job["metadata"]["uid"],
                                           {.name = "net", .follow = true}, [] { return true; });
  const TimePoint begun = Monotonic::now();
  while (reader->replicas() == 0 && seconds_since(begun) < 20) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(reader->replicas() == 1);
}

TEST_CASE("logs: a node that cannot be reached hides no other replica") {
  KubernetesLab lab;
  PodLogs logs(lab.fake.api());
  for (const int rank : {0, 1}) {
    lab.put_pod(fmt::format("net-0-{}", rank), rank);
    logs.add(fmt::format("net-0-{}", rank), "line");
  }
  Told told;
  const auto read = [&] {
    const auto reader = read_kubernetes_logs(*lab.cluster, lab.job["metadata"]["uid"],
                                             {.name = "net"}, [] { return false; });
    reader->next([&](int64_t replica, const std::string& line) { told[replica].push_back(line); },
                 true);
  };
  logs.lose("net-0-0");
  const std::string one = said(lab, read);
  CHECK(one.starts_with("adaptdl: the log of replica 0 ends here: GET pods/net-0-0/log in lab: "));
  CHECK(one.find("i/o timeout") != std::string::npos);
  CHECK(told == Told{{1, {"line"}}});
  logs.lose("net-0-1");
  std::string sentence;
  const std::string both = said(lab, [&] {
    try {
      read();
    } catch (const Error& error) {
      sentence = error.what();
    }
  });
  CHECK(both.find("the log of replica 1 ends here") != std::string::npos);
  CHECK(sentence == "cluster kubernetes (lab): cannot read any log of net");
}

TEST_CASE("logs -f: what takes long to print is printed to its end") {
  KubernetesLab lab;
  PodLogs logs(lab.fake.api());
  lab.put_pod("net-0-0", 0, "Succeeded");
  const std::vector<std::string> lines = numbered("line", 0, 30'000);
  for (const std::string& line : lines) logs.add("net-0-0", line);
  const auto reader = read_kubernetes_logs(
      *lab.cluster, lab.job["metadata"]["uid"], {.name = "net", .follow = true},
      [] { return false; }, Seconds(1));
  std::vector<std::string> told;
  const std::string errors = said(lab, [&] {
    reader->next(
        [&](int64_t, const std::string& line) {
          if (told.size() % 10'000 == 0) std::this_thread::sleep_for(Seconds(1.2));
          told.push_back(line);
        },
        true);
  });
  CHECK(told == lines);
  CHECK(errors.empty());
}

TEST_CASE("logs -f: of a pod that says nothing to the end, this is said") {
  KubernetesLab lab;
  PodLogs logs(lab.fake.api());
  lab.put_pod("net-0-0", 0, "Succeeded");
  lab.put_pod("net-0-1", 1);
  logs.add("net-0-0", "line");
  logs.lose("net-0-1");
  Told told;
  const std::string errors = said(lab, [&] {
    const auto reader = read_kubernetes_logs(
        *lab.cluster, lab.job["metadata"]["uid"], {.name = "net", .follow = true},
        [] { return false; }, Seconds(2));
    reader->next([&](int64_t replica, const std::string& line) { told[replica].push_back(line); },
                 true);
  });
  CHECK(told == Told{{0, {"line"}}});
  CHECK(errors.starts_with("adaptdl: the log of replica 1 ends here: no output for 2 s"));
}

}  // namespace adaptdl::client
