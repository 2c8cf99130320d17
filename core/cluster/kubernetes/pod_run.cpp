#include "core/cluster/kubernetes/pod_run.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unistd.h>

#include "core/base/cancellation.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/system.h"
#include "core/cluster/kubernetes/secure_supervisor.h"
#include "core/formats/json.h"
#include "core/job/worker_environment.h"
#include "core/launch/hosts/agent.h"
#include "core/launch/io/run_progress.h"
#include "core/net/http.h"

namespace adaptdl::kubernetes {
namespace {

constexpr Seconds kHintPause{10};  // between two posts
constexpr Seconds kLeadPause{10};  // between two reports that this pod leads
constexpr Seconds kRetryPause{1};  // after one that has failed
constexpr Seconds kLongestSleep{60};
constexpr int kDiscoverTimeout = 2;  // s; signals are handled between requests

std::string variable(const char* name) {
  const auto value = environment_variable(name);
  if (!value || value->empty()) fail("{} is not set; the operator sets it in a job's pods", name);
  return *value;
}

template <typename T>
T number(const char* name) {
  const std::string text = variable(name);
  const auto value = try_parse<T>(text);
  if (!value || *value < T{0}) fail("{}: {} is not a number of at least 0", name, text);
  return *value;
}

std::string checkpoint_folder() {
  const auto folder = environment_variable("ADAPTDL_CHECKPOINT_PATH");
  if (folder && !folder->empty()) return *folder;
  fail(
      "no checkpoint directory: set ADAPTDL_CHECKPOINT_PATH (as `adaptdl submit` does) or "
      "--checkpoint-dir to a directory that all pods of the job share");
}

// Hides the job's token, which is a part of its URLs, in a message.
std::string without_token(const PodRun& pod, std::string text) {
  for (size_t at = text.find(pod.token); at != std::string::npos; at = text.find(pod.token)) {
    text.replace(at, pod.token.size(), "...");
  }
  return text;
}

HttpClient supervisor_client(const PodRun& pod) {
  HttpClientOptions options;
  if (!pod.authorities.empty()) {
    options.authorities = pod.authorities;
    options.server_name = kSupervisorHost;
  }
  return HttpClient(options);
}

// The supervisor answers when the pod of rank 0 has an address.
launch::LauncherAddress discover(const PodRun& pod) {
  HttpRequest request;
  request.url = fmt::format("{}/discover/{}/{}?timeout={}", pod.supervisor_url, pod.job, pod.group,
                            kDiscoverTimeout);
  request.timeout = Seconds(kDiscoverTimeout + 5);
  request.connect_timeout = Seconds(3);
  HttpResponse answer;
  try {
    answer = supervisor_client(pod).send(request);
  } catch (const Error& error) {
    fail("{}", without_token(pod, error.what()));
  }
  if (answer.status == 408) fail("the launcher's pod has no address yet");
  if (answer.status != 200) fail("the supervisor answered {}: {}", answer.status, answer.body);
  const Json list = Json::parse(answer.body, nullptr, false);
  if (!list.is_array() || list.empty() || !list[0].is_string()) {
    fail("the supervisor's answer is not a list of addresses: {}", answer.body);
  }
  return {list[0].get<std::string>(), pod.port};
}

}  // namespace

std::optional<PodRun> pod_run() {
  if (environment_variable("ADAPTDL_RESCALE").value_or("") != "live") return std::nullopt;
  PodRun pod;
  pod.authorities = environment_variable(kSupervisorAuthoritiesVariable).value_or("");
  pod.supervisor_url =
      variable(pod.authorities.empty() ? "ADAPTDL_SUPERVISOR_URL" : kSecureSupervisorVariable);
  pod.job = variable("ADAPTDL_JOB_ID");
  pod.token = variable("ADAPTDL_JOB_TOKEN");
  pod.link_key = environment_variable(kLinkKeyVariable).value_or(pod.token);
  pod.group = number<int64_t>("ADAPTDL_NUM_RESTARTS");
  pod.rank = number<int>("ADAPTDL_REPLICA_RANK");
  pod.port = number<uint16_t>("ADAPTDL_MASTER_PORT");
  return pod;
}

void set_pod_options(const PodRun& pod, const Given& given, launch::RunOptions& options) {
  const auto lacks = [&](const char* flag) { return !given(flag); };
  if (lacks("name")) options.name = pod.job.substr(pod.job.find('/') + 1);
  if (lacks("checkpoint-dir")) options.checkpoint_dir = checkpoint_folder();
  if (lacks("output")) {
    options.output_dir =
        environment_variable("ADAPTDL_SHARE_PATH").value_or(options.checkpoint_dir);
  }
  if (lacks("log-dir")) {
    const auto chosen = environment_variable("TMPDIR");
    options.log_dir = chosen ? *chosen + "/adaptdl-logs" : join_path(runtime_directory(), "logs");
  }
  // The secret includes the group's number, so that pods of an earlier group cannot join.
  options.hosts = launch::HostsOptions{.secret = fmt::format("{}/{}", pod.link_key, pod.group),
                                       .port = pod.port,
                                       .folder_decides = true,
                                       .hands_over = true};
  options.echo_logs = true;
}

void set_successor_options(launch::Successor lost, launch::RunOptions& options) {
  launch::HostsOptions& hosts = *options.hosts;
  hosts.slots = 0;
  hosts.secret = std::move(lost.secret);
  hosts.listener = std::make_shared<Fd>(std::move(lost.listener));
  options.succeeds = std::move(lost.roster);
  options.fresh = false;
}

std::string pod_tensorboard_folder() {
  return environment_variable("ADAPTDL_TENSORBOARD_LOGDIR").value_or("");
}

struct HintPoster::Impl {
  Impl(const PodRun& the_pod, launch::Talk the_talk)
      : pod(the_pod),
        talk(std::move(the_talk)),
        client(supervisor_client(pod)),
        thread([this] { run(); }) {}

  void run() {
    std::unique_lock lock(mutex);
    while (!quit) {
      const TimePoint now = Monotonic::now();
      const bool posts = !newest.is_null() && now >= post_at, tells = leads && now >= lead_at;
      const std::string body = posts ? std::exchange(newest, Json()).dump() : "";
      if (posts || tells) {
        lock.unlock();
        const bool told_it = tells && send("leads", fmt::format("/{}/{}", pod.group, pod.rank), "");
        if (posts) send("hints", "", body);
        lock.lock();
        if (posts) post_at = time_after(Monotonic::now(), kHintPause);
        if (tells) lead_at = time_after(Monotonic::now(), told_it ? kLeadPause : kRetryPause);
        continue;
      }
      TimePoint until = time_after(now, kLongestSleep);
      if (!newest.is_null()) until = std::min(until, post_at);
      if (leads) until = std::min(until, lead_at);
      changed.wait_until(lock, until);
    }
  }

  // Whether it has arrived. Hints are not sent again: the next ones come soon.
  bool send(const char* what, const std::string& path, const std::string& body) {
    std::string problem;
    try {
      HttpRequest request;
      request.method = "PUT";
      request.url = fmt::format("{}/{}/{}{}", pod.supervisor_url, what, pod.job, path);
      if (!body.empty()) request.headers = {{"Content-Type", "application/json"}};
      request.body = body;
      request.cancel = &cancel;
      const HttpResponse answer = client.send(request);
      if (answer.status != 200) {
        problem = fmt::format("the supervisor answered {}: {}", answer.status, answer.body);
      }
    } catch (const Cancelled&) {
      return false;
    } catch (const Error& error) {
      problem = error.what();
    }
    if (!problem.empty() && !told) {
      talk(fmt::format("cannot send {} to the scheduler: {}",
                       body.empty() ? "that this replica leads" : "hints",
                       without_token(pod, problem)));
    }
    told = !problem.empty();
    return problem.empty();
  }

  const PodRun pod;
  const launch::Talk talk;
  HttpClient client;
  bool told = false;  // used by the thread only: the present problem was reported
  Cancellation cancel;
  std::mutex mutex;
  std::condition_variable changed;
  Json newest;
  bool leads = false;
  TimePoint post_at = TimePoint::min(), lead_at = TimePoint::min();
  launch::RunProgress progress;
  bool quit = false;
  std::thread thread;
};

HintPoster::HintPoster(const PodRun& pod, launch::Talk talk)
    : impl_(std::make_unique<Impl>(pod, std::move(talk))) {}

HintPoster::~HintPoster() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->quit = true;
  }
  impl_->cancel.cancel();
  impl_->changed.notify_all();
  impl_->thread.join();
}

void HintPoster::post(const Json& hints) {
  const std::lock_guard lock(impl_->mutex);
  impl_->newest = hints;
  if (Json metrics = impl_->progress.metrics(); hints.is_object() && !metrics.empty()) {
    impl_->newest["trainMetrics"].update(metrics);  // beside what the replicas said
  }
  impl_->changed.notify_all();
}

void HintPoster::event(const Json& event) {
  const std::lock_guard lock(impl_->mutex);
  impl_->progress.event(event);
}

void HintPoster::lead() {
  const std::lock_guard lock(impl_->mutex);
  impl_->leads = true;
  impl_->changed.notify_all();
}

int run_pod_agent(const PodRun& pod, const launch::RunOptions& options, const launch::Talk& talk) {
  launch::AgentOptions agent;
  agent.run = options;
  agent.id = std::to_string(pod.rank);
  agent.host = host_name();
  agent.find_launcher = [&] { return discover(pod); };
  agent.check_folder = true;
  agent.lost_exit = static_cast<int>(ExitCode::terminated);  // the operator restarts all
  agent.listener = std::make_shared<Fd>();
  agent.leads_at = pod.port;  // the pods of a job look for its launcher there only
  agent.lead = [&](int listener, const launch::Roster& roster) {
    talk("this replica's pod is to lead the run");
    return launch::start_successor(listener, roster, options.hosts->secret);
  };
  return launch::run_agent(agent, talk);
}

}  // namespace adaptdl::kubernetes
