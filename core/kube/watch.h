#pragma once

// Watches the objects of a collection.

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "core/kube/client.h"

namespace adaptdl::kube {

struct WatchEvent {
  enum class Type { added, modified, deleted, bookmark };  // bookmark: only a new version
  Type type = Type::added;
  Json object;
  std::string resource_version;  // of the object
};

// Parses one line of a watch's answer. Throws ApiError for an ERROR event (also with gone()), Error
// for an invalid event.
WatchEvent parse_watch_line(std::string_view line);

// Splits a stream into lines. Throws Error for a line longer than `max_bytes`.
class LineReader {
 public:
  explicit LineReader(size_t max_bytes = 32u << 20) : max_bytes_(max_bytes) {}
  // Calls `on_line` for each complete line, without its end; skips empty lines.
  void add(std::string_view piece, const std::function<void(std::string_view)>& on_line);
  // Removes and returns what follows the last line end.
  std::string take_rest() { return std::exchange(rest_, {}); }

 private:
  size_t max_bytes_;
  std::string rest_;
};

struct WatchOptions {
  std::string labels, fields;  // selectors
  Seconds at_most{0.0};        // the server ends it then; 0: after random 5 to 10 minutes
};

// Watches once, from after `resource_version` until the server ends it, and returns the version for
// the next watch. Throws as Client does: gone() means that the server no longer has that version,
// then list again. Drops an incomplete event at the end, because the next watch repeats it.
std::string watch_once(Client& client, const Resource& collection, std::string resource_version,
                       const WatchOptions& options, const std::function<void(WatchEvent)>& on_event,
                       const Cancellation* cancel = nullptr);

// Callbacks of follow(), on its thread. They must not throw: follow() would report it as a failure
// of the server. To end follow(), they store their error and cancel.
struct FollowCallbacks {
  std::function<void(ObjectList)> listed;    // all objects; at first and after each new list
  std::function<void(WatchEvent)> happened;  // no bookmarks
  // Called with the reason of a failure, once for each new reason, and with "" after recovery: when
  // a list or a watch has succeeded, some seconds after the server works again.
  std::function<void(const std::string&)> stuck;
};
struct FollowOptions {
  std::string labels, fields;
  std::function<void(Json&)> trim;  // for each object, listed or changed, before the callback
  int page = 500;
};

// Lists and watches until cancelled: reconnects after reconnect_delay(), and lists again if the
// server no longer has the last version. It never misses a change, but may report several changes
// of one object as one. After cancelling, it may still report the rest of a received piece. Never
// throws.
void follow(Client& client, const Resource& collection, const FollowOptions& options,
            const FollowCallbacks& callbacks, const Cancellation& cancel);

}  // namespace adaptdl::kube
