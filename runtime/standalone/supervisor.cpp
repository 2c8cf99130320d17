#include "runtime/standalone/supervisor.h"

#include <fmt/format.h>
#include <pthread.h>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/number.h"
#include "core/formats/json.h"
#include "core/job/worker_environment.h"
#include "runtime/standalone/waiting.h"

namespace adaptdl::standalone {
namespace {

// The supervisor itself holds a request for 30 s before it answers that it does not know yet.
constexpr std::chrono::seconds kAskPatience{60}, kPostPatience{30};
constexpr std::chrono::milliseconds kAskPause{500};

// NAMESPACE/NAME as parts of a path.
std::string path_of(const std::string& job_id) {
  const size_t slash = job_id.find('/');
  const bool valid = slash != std::string::npos && slash > 0 && slash + 1 < job_id.size() &&
                     job_id.find_first_of(" \t\r\n?#") == std::string::npos;
  if (!valid) {
    fail("ADAPTDL_JOB_ID: \"{}\" must be NAMESPACE/NAME, by which the supervisor knows the job",
         job_id);
  }
  return job_id;
}

HttpBase base_of(const Place& place) {
  return parse_http_base(
      place.supervisor_url,
      place.supervisor_authorities ? kSecureSupervisorVariable : "ADAPTDL_SUPERVISOR_URL",
      place.supervisor_authorities);
}

std::string first_of(const std::string& body) {
  const auto list = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array() || list.empty() || !list.front().is_string()) {
    fail("ADAPTDL_SUPERVISOR_URL: the supervisor's answer is no list of addresses");
  }
  return list.front().get<std::string>();
}

}  // namespace

std::string discover(const Place& place, TimePoint deadline) {
  const HttpBase base = base_of(place);
  const std::string path = fmt::format("/discover/{}/{}", path_of(place.job_id), place.restarts);
  Waiting waiting;
  for (;;) {
    std::string problem = "it does not know the replicas' addresses yet";
    std::optional<HttpAnswer> answer;
    try {
      answer =
          http_exchange(base, "GET", path, "", std::min(Monotonic::now() + kAskPatience, deadline));
    } catch (const Error& error) {
      problem = error.what();
    }
    if (answer && answer->status == 200) return first_of(answer->body);
    if (answer && answer->status != 408) {
      problem = fmt::format("it answers {} for the job {}", answer->status, place.job_id);
      if (answer->status / 100 == 4) fail("ADAPTDL_SUPERVISOR_URL: {}", problem);
    }
    const TimePoint now = Monotonic::now();
    if (now >= deadline) {
      fail("timed out after {}: the supervisor did not tell the address of rank 0: {}",
           format_duration(place.patience_s), problem);
    }
    if (waiting.due(now)) {
      log_info("replica {} asks the supervisor for the address of rank 0: {}", place.rank, problem);
    }
    std::this_thread::sleep_for(kAskPause);
  }
}

HintPoster::HintPoster(const Place& place)
    : base_(base_of(place)), path_("/hints/" + path_of(place.job_id)), thread_([this] { run(); }) {}

HintPoster::~HintPoster() {
  {
    const std::lock_guard lock(mutex_);  // else the thread could miss it before it waits
    stop_.cancel();
  }
  changed_.notify_all();
  thread_.join();
}

void HintPoster::post(const nlohmann::json& hints) {
  {
    const std::lock_guard lock(mutex_);
    newest_ = hints;
  }
  changed_.notify_all();
}

void HintPoster::run() {
  pthread_setname_np(pthread_self(), "hints");
  for (;;) {
    nlohmann::json hints;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return newest_ || stop_.cancelled(); });
      if (stop_.cancelled()) return;
      hints = *std::exchange(newest_, std::nullopt);
    }
    try {
      const HttpAnswer answer = http_exchange(base_, "PUT", path_, dump_json(hints),
                                              Monotonic::now() + kPostPatience, &stop_);
      if (answer.status != 200) {
        log_warning("the supervisor answers {} to this job's hints", answer.status);
      }
    } catch (const Error& error) {
      if (!stop_.cancelled())
        log_warning("the supervisor did not get this job's hints: {}", error.what());
    }
    if (stop_.wait_for(kInterval)) return;
  }
}

}  // namespace adaptdl::standalone
