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

// Called on the informer's thread, after the copy has changed; they may read it, and wait for
// nothing. An object that was deleted and made anew under its name is deleted, then added.
struct InformerCallbacks {
  std::function<void(const Object& now)> added;
  std::function<void(const Object& before, const Object& now)> updated;
  std::function<void(const Object& before)> deleted;
  std::function<void()> synced;  // once, when all there was at first has been added
};

struct InformerOptions {
  std::string labels, fields;  // selectors
  // Leaves out of an object what nobody asks for: memory is what this costs. managedFields are
  // left out anyway; metadata's name, namespace, uid and resourceVersion must stay.
  std::function<void(Json&)> trim;
};

class Informer {
 public:
  // Begins. `client` must outlive it.
  Informer(Client& client, Resource collection, InformerOptions options = {},
           InformerCallbacks callbacks = {});
  ~Informer();  // ends the thread; no callback is called after it
  Informer(const Informer&) = delete;
  Informer& operator=(const Informer&) = delete;

  // These may be called by any thread.
  bool synced() const;
  // Waits until it is, for at most that long; false if it is not.
  bool wait_synced(Seconds at_most) const;
  Object find(const std::string& name_space, const std::string& name) const;  // null if none
  std::vector<Object> all() const;  // by namespace and name
  std::vector<Object> all(const std::string& name_space) const;
  size_t size() const;
  std::string problem() const;  // why it does not get on; "" while it does

 private:
  void run();
  void replace(ObjectList list);
  void happened(WatchEvent event);
  void put(Object object);
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

// Of an object: "" where there is no text.
std::string metadata_text(const Json& object, const char* key);
ObjectName name_of(const Json& object);

}  // namespace adaptdl::kube
