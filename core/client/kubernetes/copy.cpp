#include "core/client/kubernetes/copy.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unistd.h>

#include "core/base/console.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/interruption.h"
#include "core/base/pipe.h"
#include "core/client/job_tar.h"
#include "core/client/kubernetes/exec.h"
#include "core/client/kubernetes/pods.h"
#include "core/client/kubernetes/storage.h"
#include "core/cluster/kubernetes/jobs/pod_object.h"
#include "core/formats/json_fields.h"
#include "core/kube/exec.h"
#include "core/kube/informer.h"
#include "core/oci/untar.h"

namespace adaptdl::client {
namespace {

constexpr Seconds kStart{120};  // for a pod whose node may have to pull the image
constexpr Seconds kPodInterval{0.3};
constexpr Seconds kEndTold{5};  // within which a node reports that a replica has ended
constexpr int kMostPods = 5;    // replicas that may end before copying fails
constexpr size_t kMostErrors = 64u << 10, kMostComplaint = 2000;

// A pod with the job's storage; the destructor removes it. Create it after signals are caught, so
// that it is always removed.
class StoragePod {
 public:
  StoragePod(KubernetesConnection& cluster, const Json& job, const Cancellation& cancel)
      : cluster_(cluster) {
    if (auto running = running_pod(cluster, job)) {
      pod_ = *running;
      return;
    }
    make(job);
    try {
      wait(cancel);
    } catch (...) {
      remove();
      throw;
    }
  }
  ~StoragePod() {
    if (made_) remove();
  }
  StoragePod(const StoragePod&) = delete;
  StoragePod& operator=(const StoragePod&) = delete;

  const RunningPod& pod() const { return pod_; }
  bool made() const { return made_; }  // true: the pod is not a replica

 private:
  void make(const Json& job) {
    const std::string name = kube::metadata_text(job, "name"), claim = storage_claim(job);
    if (claim.empty()) {
      fail("{} has no running replica, and no storage of its own ({})", name,
           "a volume adaptdl-pvc, which `adaptdl submit` creates");
    }
    const auto found = cluster_.reach(
        [&] { return cluster_.client().find(kube::kClaims.in(cluster_.name_space(), claim)); });
    if (!found) fail("{}: its storage is gone: PersistentVolumeClaim {} not found", name, claim);
    const Json made = cluster_.reach([&] {
      return cluster_.client().create(cluster_.pods(),
                                      copy_pod(job, claim, kube::metadata_text(*found, "uid")));
    });
    pod_ = {cluster_.pods(kube::metadata_text(made, "name")), "copy"};
    made_ = true;
  }

  void wait(const Cancellation& cancel) const {
    const TimePoint begun = Monotonic::now();
    for (;;) {
      const Json object = cluster_.reach([&] { return cluster_.client().get(pod_.pod); });
      const std::string phase = text_at_pointer(object, "/status/phase");
      if (phase == "Running") return;
      const kubernetes::PodFacts facts = kubernetes::read_pod(object);
      if (phase == "Failed" || phase == "Succeeded" || seconds_since(begun) > kStart.count()) {
        fail("{}, needed to reach the job's storage, does not start: {}: {}", pod_.pod.describe(),
             facts.reason.empty() ? phase : facts.reason, facts.message);
      }
      if (cancel.wait_for(kPodInterval)) throw Cancelled(pod_.pod.describe());
    }
  }

  void remove() noexcept {
    try {
      // With its grace time: else the next pod with this volume would wait for minutes until the
      // node has noticed.
      cluster_.client().remove(pod_.pod);
    } catch (const std::exception& error) {
      talk(fmt::format("adaptdl: cannot remove {}, which ends within {} hours: {}",
                       pod_.pod.describe(), kCopyPodLife_s / 3600, error.what()));
    }
  }

  KubernetesConnection& cluster_;
  RunningPod pod_;
  bool made_ = false;
};

struct Ran {
  int code = 0;
  std::string errors;  // the end of its standard error
};

class Transfer {
 public:
  Transfer(KubernetesConnection& cluster, const Json& job)
      : cluster_(cluster),
        job_(job),
        name_(kube::metadata_text(job, "name")),
        tools_(job),
        interruption_({SIGINT, SIGTERM, SIGHUP}),
        pod_(guarded([&] { return std::make_unique<StoragePod>(cluster, job, cancel()); })) {}

  CopyResult fetch(const std::string& folder, const std::vector<std::string>& members,
                   const std::string& to, const std::map<std::string, std::string>& names) {
    const std::vector<std::string> words = tools_.pack(folder, members);
    Pipe pipe;
    oci::UntarResult result;
    CopyResult told;
    beside(
        [&] {
          const int writer = pipe.writer.get();
          const Ran ran = run(
              words, -1, [&](std::string_view bytes) { write_all(writer, bytes, "unpacking"); });
          if (!tools_.packed(ran.code, ran.errors, told)) throw failure(ran);
        },
        [&] { pipe.writer.reset(); },
        [&] {
          const auto source = oci::read_descriptor(pipe.reader.get(), "the connection");
          result = oci::untar(source, to, {.names = names});
          while (!source().empty()) continue;  // reads what follows the archive's end
        },
        [&] { pipe.reader.reset(); });
    told.files = result.files;
    told.bytes = result.bytes;
    told.skipped.insert(told.skipped.end(), result.skipped.begin(), result.skipped.end());
    return told;
  }

  bool is_folder(const std::string& path) {
    return guarded([&] {
      const Ran ran = run(tools_.is_folder(path), -1, {});
      if (ran.code > kKilled) throw failure(ran);
      return ran.code == 0;
    });
  }

  CopyResult bring(const std::string& from, const std::string& folder, const std::string& name) {
    const std::vector<std::string> words = tools_.unpack(folder);
    Pipe pipe;
    CopyResult result;
    beside(
        [&] {
          const Ran ran = run(words, pipe.reader.get(), {});
          if (ran.code != 0) throw failure(ran);
          // tar is done where the archive ends; more blocks may follow, which are empty.
          const auto rest = oci::read_descriptor(pipe.reader.get(), "the pipe");
          while (!rest().empty()) continue;
        },
        [&] { pipe.reader.reset(); },
        [&] {
          const int writer = pipe.writer.get();
          result = pack_tar(from, name, [&](std::string_view bytes) {
            write_all(writer, bytes, "the connection");
          });
        },
        [&] { pipe.writer.reset(); });
    return result;
  }

  // After a failure: whether it failed because its replica ended, which may happen at any time.
  bool replica_ended() {
    if (!broken_ || pod_->made()) return false;
    const TimePoint begun = Monotonic::now();
    while (interruption_.signal() == 0 && seconds_since(begun) < kEndTold.count()) {
      const auto running = running_pod(cluster_, job_);
      if (!running || running->pod.name != pod_->pod().pod.name) return true;
      std::this_thread::sleep_for(kPodInterval);
    }
    return false;
  }

 private:
  static constexpr int kKilled = 128;  // larger exit codes: the signal that ended a command

  Cancellation& cancel() { return interruption_.cancellation(); }

  // Runs `there` in a thread and `here` in this one. When one has ended, it ends the other by
  // closing its end of a pipe. Throws the first error.
  void beside(const std::function<void()>& there, const std::function<void()>& close_there,
              const std::function<void()>& here, const std::function<void()>& close_here) {
    std::mutex mutex;
    std::exception_ptr first;
    const auto side = [&](const std::function<void()>& act, const std::function<void()>& close) {
      bool failed = false;
      try {
        act();
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
        failed = true;
      }
      close();
      return failed;
    };
    std::thread thread([&] { side(there, close_there); });
    if (side(here, close_here)) cancel().cancel();
    thread.join();
    if (first) guarded([&] { std::rethrow_exception(first); });
  }

  // After a signal the only error is the interruption.
  template <typename Act>
  auto guarded(Act act) -> std::invoke_result_t<Act> {
    try {
      return act();
    } catch (const Error&) {
      if (interruption_.signal() == 0) throw;
      throw Error("interrupted; files copied so far are kept", ExitCode::interrupted);
    }
  }

  Ran run(const std::vector<std::string>& words, int input,
          const std::function<void(std::string_view)>& output) {
    Ran ran;
    kube::ExecOptions options;
    options.container = pod_->pod().container;
    options.command = words;
    options.input = input;
    options.output = output;
    options.errors = [&](std::string_view bytes) {
      ran.errors += bytes;
      if (ran.errors.size() <= kMostErrors) return;
      const size_t line = ran.errors.find('\n', ran.errors.size() - kMostErrors);
      ran.errors.erase(0, line == std::string::npos ? ran.errors.size() - kMostErrors : line + 1);
    };
    broken_ = true;
    ran.code = cluster_.reach([&] {
      try {
        return kube::exec(cluster_.client(), pod_->pod().pod, options, &cancel());
      } catch (const kube::ApiError& error) {
        if (!start_failure(error.status().message)) throw;
        broken_ = false;
        fail("the image of {} has no {}, which copying needs: {}", name_, words[0],
             error.status().message);
      }
    });
    broken_ = ran.code > kKilled;
    return ran;
  }

  // The last line says why tar failed; the line before may say on which file.
  Error failure(const Ran& ran) const {
    std::string said = ran.errors;
    while (said.ends_with('\n')) said.pop_back();
    if (said.size() > kMostComplaint) said.erase(0, said.size() - kMostComplaint);
    std::replace(said.begin(), said.end(), '\n', ';');
    return Error(
        fmt::format("{}: {}", name_,
                    said.empty() ? fmt::format("tar failed with exit code {}", ran.code) : said));
  }

  KubernetesConnection& cluster_;
  const Json& job_;
  const std::string name_;
  const StorageTools tools_;
  Interruption interruption_;
  std::unique_ptr<StoragePod> pod_;
  bool broken_ = false;  // the pod ended the command, or did not start it
};

// Runs `act` with a Transfer. If the replica ends meanwhile, runs it again in another pod of the
// job.
template <typename Act>
CopyResult transfer(KubernetesConnection& cluster, const Json& job, Act act) {
  for (int pods = 1;; ++pods) {
    Transfer by(cluster, job);
    try {
      return act(by);
    } catch (const Error&) {
      if (pods == kMostPods || !by.replica_ended()) throw;
    }
  }
}

}  // namespace

CopyResult copy_from_storage(KubernetesConnection& cluster, const Json& job,
                             const std::string& place, const std::string& to) {
  if (place == kStorageFolder) {
    make_directories(to);
    return transfer(cluster, job, [&](Transfer& by) {
      return by.fetch(place, {"checkpoint", "share"}, to,
                      {{"checkpoint", "checkpoint"}, {"share", "share"}});
    });
  }
  const std::string name = file_name(place);
  const bool into = is_directory(to);
  const std::string folder = into ? to : parent_directory(absolute_path(to));
  if (!is_directory(folder)) fail("{}: folder {} not found", to, folder);
  return transfer(cluster, job, [&](Transfer& by) {
    return by.fetch(parent_directory(place), {name}, folder,
                    {{name, into ? name : file_name(absolute_path(to))}});
  });
}

CopyResult copy_to_storage(KubernetesConnection& cluster, const std::string& from, const Json& job,
                           const std::string& place) {
  if (place == kStorageFolder) {
    fail("name one of its folders: {0}/checkpoint, {0}/share", kStorageFolder);
  }
  const std::string source = real_path(from);
  std::optional<bool> into;  // decided once: a failed first try may leave a folder
  return transfer(cluster, job, [&](Transfer& by) {
    if (!into) into = by.is_folder(place);
    return *into ? by.bring(source, place, file_name(absolute_path(from)))
                 : by.bring(source, parent_directory(place), file_name(place));
  });
}

}  // namespace adaptdl::client
