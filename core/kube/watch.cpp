#include "core/kube/watch.h"

#include <optional>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/formats/json_fields.h"
#include "core/kube/answer.h"
#include "core/kube/retry.h"

namespace adaptdl::kube {
namespace {

// A watch that lasted this long (s) is no failure: the next pause is the shortest again.
constexpr double kSound = 30.0;
// How long a watch after a failure lasts at most: a watch without events shows only by its end that
// it works.
constexpr Seconds kTrial{5.0};

// Lists, then watches until something goes wrong or `cancel`.
class Follower {
 public:
  Follower(Client& client, const Resource& collection, const FollowOptions& options,
           const FollowCallbacks& callbacks, const Cancellation& cancel)
      : client_(client),
        collection_(collection),
        options_(options),
        callbacks_(callbacks),
        cancel_(cancel),
        rng_(jitter_seed()) {}

  void run() {
    for (int failures = 0; !cancel_.cancelled();) {
      const TimePoint start = Monotonic::now();
      std::string problem;
      progressed_ = false;
      try {
        once();
      } catch (const Cancelled&) {
        return;
      } catch (const ApiError& error) {
        if (error.gone() && version_) {
          version_.reset();
        } else {
          problem = error.what();
        }
      } catch (const std::exception& error) {
        problem = error.what();
      }
      if (problem.empty() && progressed_) continue;
      failures = progressed_ || seconds_since(start) > kSound ? 1 : failures + 1;
      if (!problem.empty()) tell(problem);
      if (cancel_.wait_for(reconnect_delay(failures, rng_.uniform()))) return;
    }
  }

 private:
  void once() {
    if (!version_) {
      ObjectList all = client_.list(collection_, {.labels = options_.labels,
                                                  .fields = options_.fields,
                                                  .page = options_.page,
                                                  .trim = options_.trim});
      const std::string version = all.resource_version;
      callbacks_.listed(std::move(all));
      version_ = version;
      tell("");
    }
    // After a watch ends normally, the next one starts at once.
    for (TimePoint start = Monotonic::now(); !cancel_.cancelled();) {
      watch_once(
          client_, collection_, *version_,
          {.labels = options_.labels,
           .fields = options_.fields,
           .at_most = told_.empty() ? Seconds(0) : kTrial},
          [&](WatchEvent event) {
            progressed_ = true;
            tell("");
            std::string version = event.resource_version;
            if (options_.trim) options_.trim(event.object);
            if (event.type != WatchEvent::Type::bookmark) callbacks_.happened(std::move(event));
            version_ = std::move(version);
          },
          &cancel_);
      tell("");
      if (seconds_since(start) < 1.0) return;  // do not press a server that ends watches at once
      start = Monotonic::now();
    }
  }

  void tell(const std::string& problem) {
    if (problem == told_) return;
    told_ = problem;
    if (callbacks_.stuck) callbacks_.stuck(problem);
  }

  Client& client_;
  const Resource& collection_;
  const FollowOptions& options_;
  const FollowCallbacks& callbacks_;
  const Cancellation& cancel_;
  Rng rng_;
  std::optional<std::string> version_;
  std::string told_;
  bool progressed_ = false;  // the watch delivered an event
};

}  // namespace

WatchEvent parse_watch_line(std::string_view line) {
  Json event = parse_answer(line, "watch", ObjectsAre::members);
  const auto type = json_get<std::string>(event, "type", "watch");
  const auto object = event.find("object");
  if (object == event.end() || !object->is_object()) fail("watch: an event without an object");
  if (type == "ERROR") {
    Status status = status_from(*object, 500);
    if (status.message.empty()) status.message = "the server ended the watch";
    throw ApiError("watch", std::move(status));
  }
  WatchEvent result;
  if (type == "ADDED") {
    result.type = WatchEvent::Type::added;
  } else if (type == "MODIFIED") {
    result.type = WatchEvent::Type::modified;
  } else if (type == "DELETED") {
    result.type = WatchEvent::Type::deleted;
  } else if (type == "BOOKMARK") {
    result.type = WatchEvent::Type::bookmark;
  } else {
    fail("watch: an event of the unknown type {}", type.substr(0, 40));
  }
  result.resource_version = text_at(object_at(*object, "metadata"), "resourceVersion");
  if (result.resource_version.empty()) fail("watch: an object without a resourceVersion");
  result.object = std::move(*object);
  return result;
}

void LineReader::add(std::string_view piece, const std::function<void(std::string_view)>& on_line) {
  for (size_t end; (end = piece.find('\n')) != std::string_view::npos;
       piece.remove_prefix(end + 1)) {
    std::string_view line = piece.substr(0, end);
    std::string whole;
    if (!rest_.empty()) {
      whole = take_rest();
      whole += line;
      line = whole;
    }
    if (line.size() > max_bytes_) fail("a line is longer than {} bytes", max_bytes_);
    if (!line.empty()) on_line(line);
  }
  rest_ += piece;
  if (rest_.size() > max_bytes_) fail("a line is longer than {} bytes", max_bytes_);
}

std::string watch_once(Client& client, const Resource& collection, std::string resource_version,
                       const WatchOptions& options, const std::function<void(WatchEvent)>& on_event,
                       const Cancellation* cancel) {
  int64_t seconds = static_cast<int64_t>(options.at_most.count());
  if (seconds <= 0) {
    Rng rng(jitter_seed());
    seconds = 300 + static_cast<int64_t>(rng.below(300));
  }
  Query query{{"watch", "1"},
              {"allowWatchBookmarks", "true"},
              {"resourceVersion", resource_version},
              {"timeoutSeconds", fmt::format("{}", seconds)}};
  if (!options.labels.empty()) query.emplace_back("labelSelector", options.labels);
  if (!options.fields.empty()) query.emplace_back("fieldSelector", options.fields);
  LineReader lines;
  // TCP keep-alive detects a silently lost server; otherwise this timeout does.
  client.stream(
      collection, query, Seconds(static_cast<double>(seconds) + 30.0),
      [&](std::string_view piece) {
        lines.add(piece, [&](std::string_view line) {
          WatchEvent event = parse_watch_line(line);
          std::string version = event.resource_version;
          on_event(std::move(event));
          resource_version = std::move(version);
        });
      },
      cancel);
  return resource_version;
}

void follow(Client& client, const Resource& collection, const FollowOptions& options,
            const FollowCallbacks& callbacks, const Cancellation& cancel) {
  Follower(client, collection, options, callbacks, cancel).run();
}

}  // namespace adaptdl::kube
