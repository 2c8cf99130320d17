#include "core/client/kubernetes/logs.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <set>
#include <thread>

#include "core/base/console.h"
#include "core/base/error.h"
#include "core/cluster/kubernetes/jobs/pod_object.h"
#include "core/formats/json_fields.h"
#include "core/kube/informer.h"
#include "core/kube/logs.h"

namespace adaptdl::client {
namespace {

constexpr size_t kMostLines = 10'000;  // held for a slow reader

struct Pod {
  std::string name, uid, container;
  int64_t group = -1;
  int rank = -1;
  bool fresh = false;  // came while others were followed: read its log from the beginning
};

std::string first_container(const Json& pod) {
  const auto spec = pod.find("spec");
  if (spec == pod.end() || !spec->is_object()) return "";
  const auto containers = spec->find("containers");
  if (containers == spec->end() || !containers->is_array() || containers->empty()) return "";
  return containers->front().value("name", "");
}

class KubernetesLogs : public LogReader {
 public:
  KubernetesLogs(KubernetesConnection& cluster, std::string uid, const LogOptions& options,
                 std::function<bool()> may_grow, Seconds last_words)
      : cluster_(cluster),
        uid_(std::move(uid)),
        options_(options),
        may_grow_(std::move(may_grow)),
        last_words_(last_words) {
    if (!options_.follow) return;
    kube::InformerOptions which{.labels = selector()};
    kube::InformerCallbacks callbacks;
    callbacks.added = [this](const kube::Object& pod) { follow(*pod); };
    callbacks.updated = [this](const kube::Object&, const kube::Object& pod) { follow(*pod); };
    pods_.emplace(cluster_.client(), cluster_.pods(), which, callbacks);
    pods_->wait_synced(Seconds(10));
    begun_ = true;
  }

  ~KubernetesLogs() override {
    pods_.reset();  // no pod is added after this
    cancel_.cancel();
    {
      const std::lock_guard lock(mutex_);
      room_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
  }

  bool next(const LogLine& take, bool all) override {
    if (!options_.follow) return read_all(take);
    if (all) wait_for_last_words(take);
    return drain(take);
  }

  bool may_grow() override { return may_grow_(); }

  size_t replicas() const override {
    const std::lock_guard lock(mutex_);
    return ranks_.size();
  }

 private:
  struct Line {
    int rank;
    std::string text;
  };

  std::string selector() const {
    return fmt::format("{}={}", kubernetes::kLabelJob, options_.name);
  }

  // The pod, if it is the job's and the options select it.
  std::optional<Pod> wanted(const Json& object) const {
    const kubernetes::PodFacts facts = kubernetes::read_pod(object);
    if (facts.owner_uid != uid_ || facts.rank < 0) return std::nullopt;
    if (options_.replica && *options_.replica != facts.rank) return std::nullopt;
    return Pod{facts.name, facts.uid, first_container(object), facts.group, facts.rank};
  }

  kube::LogOptions log_options(const Pod& pod) const {
    kube::LogOptions options{.container = pod.container, .uid = pod.uid, .follow = options_.follow};
    if (pod.fresh) return options;
    options.tail = options_.tail;
    if (options_.since) {
      options.since_s = std::max<int64_t>(1, static_cast<int64_t>(options_.since->count()));
    }
    return options;
  }

  std::vector<Pod> list() {
    std::vector<Pod> pods;
    for (const Json& object :
         cluster_.client().list(cluster_.pods(), {.labels = selector()}).items) {
      if (auto pod = wanted(object)) pods.push_back(std::move(*pod));
    }
    std::sort(pods.begin(), pods.end(), [](const Pod& a, const Pod& b) {
      return std::tie(a.group, a.rank) < std::tie(b.group, b.rank);
    });
    return pods;
  }

  bool read_all(const LogLine& take) {
    if (read_) return false;
    read_ = true;
    bool any = false;
    std::optional<ExitCode> failure;
    const auto failed = [&](const Pod& pod, const Error& error) {
      complain(pod.rank, error.what());
      if (!failure) failure = error.exit_code();
    };
    for (const Pod& pod : cluster_.reach([&] { return list(); })) {
      try {
        kube::logs(cluster_.client(), cluster_.pods(pod.name), log_options(pod),
                   [&](std::string_view line) {
                     any = true;
                     ranks_.insert(pod.rank);
                     take(pod.rank, std::string(line));
                   });
        ranks_.insert(pod.rank);
      } catch (const kube::ApiError& error) {
        // 400: its container has not started; 404: the pod was deleted meanwhile.
        if (error.code() != 400 && !error.not_found()) failed(pod, error);
      } catch (const HttpError& error) {
        failed(pod, error);
      }
    }
    if (failure && ranks_.empty()) {
      throw Error(
          fmt::format("cluster {}: cannot read any log of {}", cluster_.name(), options_.name),
          *failure);
    }
    return any;
  }

  // Runs on the informer's thread.
  void follow(const Json& object) {
    // Such a pod has no log yet; the watch reports its start.
    if (text_at_pointer(object, "/status/phase") == "Pending") return;
    if (auto pod = wanted(object)) follow(std::move(*pod));
  }

  // Runs on the informer's thread, and at the end on the reader's.
  void follow(Pod pod) {
    const std::lock_guard lock(mutex_);
    if (!followed_.insert(pod.uid).second) return;
    reading_.insert(pod.rank);
    pod.fresh = begun_;
    threads_.emplace_back([this, pod = std::move(pod)] { read(pod); });
  }

  void read(const Pod& pod) {
    try {
      kube::logs(
          cluster_.client(), cluster_.pods(pod.name), log_options(pod),
          [&](std::string_view line) { put(pod.rank, line); }, &cancel_);
    } catch (const Cancelled&) {
    } catch (const kube::ApiError& error) {
      // The container never started, or the pod was deleted before its log was read.
      if (error.code() != 400 && !error.not_found()) complain(pod.rank, error.what());
    } catch (const Error& error) {
      complain(pod.rank, error.what());
    }
    const std::lock_guard lock(mutex_);
    reading_.erase(reading_.find(pod.rank));
    came_.notify_all();
  }

  static void complain(int rank, const std::string& why) {
    talk(fmt::format("adaptdl: the log of replica {} ends here: {}", rank, why));
  }

  void put(int rank, std::string_view line) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return lines_.size() < kMostLines || cancel_.cancelled(); });
    ranks_.insert(rank);
    lines_.push_back({rank, std::string(line)});
    came_.notify_all();
  }

  bool drain(const LogLine& take) {
    std::deque<Line> lines;
    {
      const std::lock_guard lock(mutex_);
      lines.swap(lines_);
      room_.notify_all();
    }
    for (const Line& line : lines) take(line.rank, line.text);
    return !lines.empty();
  }

  // The job has ended, and its pods have ended or will soon. The watch may not have reported the
  // last pods yet.
  void wait_for_last_words(const LogLine& take) {
    if (over_) return;
    over_ = true;
    try {
      for (Pod& pod : list()) follow(std::move(pod));
    } catch (const Error&) {  // then only the known pods are read
    }
    std::set<int> silent;
    for (TimePoint progress = Monotonic::now(); silent.empty();) {
      if (drain(take)) progress = Monotonic::now();  // after printing, which may take long
      std::unique_lock lock(mutex_);
      if (!lines_.empty()) continue;
      if (reading_.empty()) return;
      if (seconds_since(progress) > last_words_.count()) {
        silent.insert(reading_.begin(), reading_.end());
      } else {
        came_.wait_for(lock, std::chrono::milliseconds(100));
      }
    }
    for (const int rank : silent) {
      complain(rank, fmt::format("no output for {:.0f} s, though there may be more",
                                 last_words_.count()));
    }
  }

  KubernetesConnection& cluster_;
  const std::string uid_;
  const LogOptions options_;
  const std::function<bool()> may_grow_;
  const Seconds last_words_;
  bool read_ = false, over_ = false;
  std::atomic<bool> begun_ = false;
  Cancellation cancel_;
  mutable std::mutex mutex_;  // of what follows, to threads_
  std::condition_variable came_, room_;
  std::deque<Line> lines_;
  std::set<int> ranks_;
  std::set<std::string> followed_;  // uids, since a live job uses names again
  std::multiset<int> reading_;      // ranks whose threads are reading
  std::list<std::thread> threads_;
  std::optional<kube::Informer> pods_;
};

}  // namespace

std::unique_ptr<LogReader> read_kubernetes_logs(KubernetesConnection& cluster,
                                                const std::string& uid, const LogOptions& options,
                                                std::function<bool()> may_grow,
                                                Seconds last_words) {
  return std::make_unique<KubernetesLogs>(cluster, uid, options, std::move(may_grow), last_words);
}

}  // namespace adaptdl::client
