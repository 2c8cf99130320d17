#include "core/kube/logs.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/kube/informer.h"
#include "core/kube/retry.h"
#include "core/kube/watch.h"

namespace adaptdl::kube {
namespace {

// For one request; following sends another one.
constexpr Seconds kAtMost{6 * 3600.0};
constexpr double kPause = 0.3;
constexpr double kLongestPause = 5.0;  // while the container has not started

enum class PodState { lives, ended, replaced };

// `ended`: the container has terminated, or the pod is gone. `replaced`: its name is another pod's.
PodState pod_state(Client& client, const Resource& pod, const LogOptions& options,
                   const Cancellation* cancel) {
  Resource object = pod;
  object.subresource.clear();
  std::string text;
  try {
    // A stream, because it can be cancelled.
    client.stream(
        object, {}, client.options().timeout, [&](std::string_view piece) { text += piece; },
        cancel);
  } catch (const ApiError& error) {
    if (error.not_found()) return PodState::ended;
    throw;
  }
  const Json found = parse_json(text, object.describe());
  if (!found.is_object()) fail("GET {}: the answer is not an object", object.describe());
  if (!options.uid.empty() && metadata_text(found, "uid") != options.uid) return PodState::replaced;
  const Json status = found.value("status", Json::object());
  const std::string phase = json_get_or<std::string>(status, "phase", "pod", "");
  if (phase == "Succeeded" || phase == "Failed") return PodState::ended;
  for (const char* list : {"containerStatuses", "initContainerStatuses"}) {
    const auto states = status.find(list);
    if (states == status.end() || !states->is_array()) continue;
    for (const Json& state : *states) {
      const auto name = json_get_or<std::string>(state, "name", "pod", "");
      if (!options.container.empty() && name != options.container) continue;
      const auto now = state.find("state");
      if (now != state.end() && now->contains("terminated")) return PodState::ended;
    }
  }
  return PodState::lives;
}

class Reader {
 public:
  Reader(Client& client, const Resource& pod, const LogOptions& options,
         const std::function<void(std::string_view)>& on_line, const Cancellation* cancel)
      : client_(client), pod_(pod), options_(options), on_line_(on_line), cancel_(cancel) {
    pod_.subresource = "log";
  }

  void run() {
    if (!options_.follow) return read();
    for (;;) {
      bool ended = false;
      came_ = false;
      reading_.reset();
      try {
        // Check before reading, so that lines written in between are not lost.
        const PodState state = pod_state(client_, pod_, options_, cancel_);
        if (state == PodState::replaced) return;
        ended = state == PodState::ended;
        reading_ = Monotonic::now();
        read();
        if (ended) return;
        failures_ = waits_ = 0;
      } catch (const ApiError& error) {
        if (error.not_found() && last_) return;  // the pod was removed after its last line
        if (error.code() >= 500 || error.too_many_requests()) {
          if (!may_go_on(false)) throw;
        } else if (ended || (error.code() != 400 && !error.not_found())) {
          throw;
        } else {
          // 400: the container has not started. 404: it is gone, as the next check shows, or its
          // node does not know it yet.
          failures_ = 0;
          ++waits_;
        }
      } catch (const HttpError&) {
        // Proxies cut off idle connections.
        if (!may_go_on(reading_ && seconds_since(*reading_) > kSound)) throw;
      }
      pause();
    }
  }

 private:
  static constexpr int kPatience = 10;    // failures in a row, minutes in all
  static constexpr double kSound = 50.0;  // s; longer than connecting takes

  // Counts a failure; after a success it is the first in a row.
  bool may_go_on(bool after_good) {
    failures_ = after_good || came_ ? 1 : failures_ + 1;
    return failures_ <= kPatience;
  }

  void read() {
    Query query{{"timestamps", "true"}};
    if (!options_.container.empty()) query.emplace_back("container", options_.container);
    if (options_.follow) query.emplace_back("follow", "true");
    if (options_.previous) query.emplace_back("previous", "true");
    if (last_) {
      query.emplace_back("sinceTime", last_text_);
    } else {
      if (options_.tail) query.emplace_back("tailLines", fmt::format("{}", *options_.tail));
      if (options_.since_s)
        query.emplace_back("sinceSeconds", fmt::format("{}", *options_.since_s));
    }
    LineReader lines;
    client_.stream(
        pod_, query, kAtMost,
        [&](std::string_view piece) {
          lines.add(piece, [&](std::string_view line) { take(line); });
        },
        cancel_);
    const std::string rest = lines.take_rest();
    if (!rest.empty()) take(rest);
  }

  // sinceTime has whole seconds, so some lines arrive again.
  void take(std::string_view line) {
    const size_t space = std::min(line.find(' '), line.size());
    const auto time = parse_rfc3339(line.substr(0, space));
    if (time && last_ && *time <= *last_ && again_) return;
    if (time) {
      again_ = false;
      last_ = time;
      last_text_ = std::string(line.substr(0, space));
    }
    if (time && !options_.timestamps) line.remove_prefix(std::min(space + 1, line.size()));
    came_ = true;
    on_line_(line);
  }

  void pause() {
    again_ = true;
    const double wait = kPause * std::exp2(std::max(waits_ - 1, 0));
    const Seconds duration =
        failures_ > 0 ? reconnect_delay(failures_, 0.5) : Seconds(std::min(wait, kLongestPause));
    if (cancel_ == nullptr) {
      std::this_thread::sleep_for(duration);
    } else if (cancel_->wait_for(duration)) {
      throw Cancelled("logs of " + pod_.describe());
    }
  }

  Client& client_;
  Resource pod_;
  const LogOptions& options_;
  const std::function<void(std::string_view)>& on_line_;
  const Cancellation* cancel_;
  std::optional<WallTime> last_;
  std::string last_text_;
  bool again_ = false;  // the stream repeats earlier lines
  int failures_ = 0;    // in a row
  int waits_ = 0;       // answers in a row that there is no log yet
  // Of the current check and read:
  bool came_ = false;  // a new line arrived
  std::optional<TimePoint> reading_;
};

}  // namespace

void logs(Client& client, const Resource& pod, const LogOptions& options,
          const std::function<void(std::string_view)>& on_line, const Cancellation* cancel) {
  Reader(client, pod, options, on_line, cancel).run();
}

}  // namespace adaptdl::kube
