#pragma once

// What happens to the objects of a collection, as it happens.

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "core/kube/client.h"

namespace adaptdl::kube {

struct WatchEvent {
  enum class Type { added, modified, deleted, bookmark };  // bookmark: only its version is news
  Type type = Type::added;
  Json object;
  std::string resource_version;  // of the object
};

// One line of a watch's answer. An event ERROR is thrown as ApiError (gone() among them); anything
// else that is no event as Error.
WatchEvent parse_watch_line(std::string_view line);

// Cuts what comes into lines. Throws Error for one longer than `max_bytes`.
class LineReader {
 public:
  explicit LineReader(size_t max_bytes = 32u << 20) : max_bytes_(max_bytes) {}
  // Calls `on_line` for each line that is whole, without its end; empty ones are left out.
  void add(std::string_view piece, const std::function<void(std::string_view)>& on_line);
  // What followed the last line end, given up.
  std::string take_rest() { return std::exchange(rest_, {}); }

 private:
  size_t max_bytes_;
  std::string rest_;
};

struct WatchOptions {
  std::string labels, fields;  // selectors
  Seconds at_most{0.0};        // the server ends it then; 0: after 5 to 10 minutes, by chance
};

// Watches once, from after `resource_version`, until the server ends it, and returns the version to
// go on from. Throws as Client does: gone() once that version is no longer kept, then list anew.
// A piece of an event at the end is given up, as the next watch brings it again.
std::string watch_once(Client& client, const Resource& collection, std::string resource_version,
                       const WatchOptions& options, const std::function<void(WatchEvent)>& on_event,
                       const Cancellation* cancel = nullptr);

// What follow() tells. Called on its thread. They throw nothing: it would be taken for a failure of
// the server, and told as such. To end it, they cancel, and keep what went wrong.
struct FollowCallbacks {
  std::function<void(ObjectList)> listed;    // this is all there is; at first, and again
  std::function<void(WatchEvent)> happened;  // no bookmarks
  // Why it does not get on: once for each new reason, and with "" when it gets on again.
  std::function<void(const std::string&)> stuck;
};
struct FollowOptions {
  std::string labels, fields;
  std::function<void(Json&)> trim;  // for each object, listed or changed, before it is told
  int page = 500;
};

// Lists and watches until cancelled: connects again by reconnect_delay(), lists again when the
// server no longer knows where we were. What happens between is never left out, but changes of one
// object may be told as one. Once cancelled, the rest of a piece of an answer may still be told.
// Throws nothing of its own.
void follow(Client& client, const Resource& collection, const FollowOptions& options,
            const FollowCallbacks& callbacks, const Cancellation& cancel);

}  // namespace adaptdl::kube
