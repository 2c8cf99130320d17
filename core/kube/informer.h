#pragma once

// A copy of a collection that keeps itself up to date in a thread of its own.

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/cancellation.h"
#include "core/kube/watch.h"

namespace adaptdl::kube {

// Objects are shared and never changed: keep one as long as you like.
using Object = std::shared_ptr<const Json>;
using ObjectName = std::pair<std::string, std::string>;  // namespace ("" for none), name

// Called on the informer's thread, after the copy has changed. They may read the copy, but must not
// block. An object that was deleted and recreated under its name is reported as deleted, then
// added.
struct InformerCallbacks {
  std::function<void(const Object& now)> added;
  std::function<void(const Object& before, const Object& now)> updated;
  std::function<void(const Object& before)> deleted;
  std::function<void()> synced;  // once, after the initial objects have been added
};

struct InformerOptions {
  std::string labels, fields;  // selectors
  // Removes unneeded fields of an object to save memory. managedFields are always removed;
  // metadata's name, namespace, uid and resourceVersion must stay.
  std::function<void(Json&)> trim;
};

class Informer {
 public:
  // Starts the thread. `client` must outlive the informer.
  Informer(Client& client, Resource collection, InformerOptions options = {},
           InformerCallbacks callbacks = {});
  ~Informer();  // ends the thread; no callback is called after it
  Informer(const Informer&) = delete;
  Informer& operator=(const Informer&) = delete;

  // Any thread may call the following functions.
  bool synced() const;
  // Waits at most that long until synced; false if it is not.
  bool wait_synced(Seconds at_most) const;
  Object find(const std::string& name_space, const std::string& name) const;  // null if none
  std::vector<Object> all() const;  // by namespace and name
  std::vector<Object> all(const std::string& name_space) const;
  size_t size() const;
  std::string problem() const;  // why it cannot update; "" if it can

 private:
  void run();
  void replace(ObjectList list);
  void happened(WatchEvent event);
  void put(const Object& object);
  void take(const ObjectName& name);

  Client& client_;
  const Resource collection_;
  const InformerOptions options_;
  const InformerCallbacks callbacks_;
  Cancellation cancel_;
  mutable std::mutex mutex_;  // of what follows
  mutable std::condition_variable changed_;
  std::map<ObjectName, Object> objects_;
  bool synced_ = false;
  std::string problem_;
  std::thread thread_;
};

// A text of an object's metadata; "" if it has none.
std::string metadata_text(const Json& object, const char* key);
ObjectName name_of(const Json& object);

}  // namespace adaptdl::kube
