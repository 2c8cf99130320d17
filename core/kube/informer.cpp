#include "core/kube/informer.h"

#include <set>

#include "core/base/log.h"
#include "core/formats/json_fields.h"

namespace adaptdl::kube {

std::string metadata_text(const Json& object, const char* key) {
  return text_at(object_at(object, "metadata"), key);
}

ObjectName name_of(const Json& object) {
  return {metadata_text(object, "namespace"), metadata_text(object, "name")};
}

Informer::Informer(Client& client, Resource collection, InformerOptions options,
                   InformerCallbacks callbacks)
    : client_(client),
      collection_(std::move(collection)),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      thread_([this] { run(); }) {}

Informer::~Informer() {
  cancel_.cancel();
  thread_.join();
}

void Informer::run() {
  const FollowOptions options{
      .labels = options_.labels, .fields = options_.fields, .trim = [this](Json& object) {
        const auto metadata = object.find("metadata");
        if (metadata != object.end() && metadata->is_object()) {
          metadata->erase("managedFields");
        }
        if (options_.trim) options_.trim(object);
      }};
  const FollowCallbacks callbacks{
      .listed = [this](ObjectList list) { replace(std::move(list)); },
      .happened = [this](WatchEvent event) { happened(std::move(event)); },
      .stuck =
          [this](const std::string& problem) {
            if (!problem.empty()) log_warning("{}: {}", collection_.describe(), problem);
            const std::lock_guard lock(mutex_);
            problem_ = problem;
          }};
  follow(client_, collection_, options, callbacks, cancel_);
}

void Informer::replace(ObjectList list) {
  std::set<ObjectName> listed;
  for (Json& item : list.items) {
    listed.insert(name_of(item));
    put(std::make_shared<const Json>(std::move(item)));
  }
  std::vector<ObjectName> gone;
  for (const auto& [name, object] : objects_) {  // only this thread modifies it
    if (!listed.contains(name)) gone.push_back(name);
  }
  for (const ObjectName& name : gone) take(name);
  {
    const std::lock_guard lock(mutex_);
    if (synced_) return;
    synced_ = true;
  }
  changed_.notify_all();
  if (callbacks_.synced) callbacks_.synced();
}

void Informer::happened(WatchEvent event) {
  if (event.type == WatchEvent::Type::deleted) return take(name_of(event.object));
  put(std::make_shared<const Json>(std::move(event.object)));
}

void Informer::put(const Object& object) {
  const ObjectName name = name_of(*object);
  const auto known = objects_.find(name);
  Object before = known == objects_.end() ? nullptr : known->second;
  if (before && metadata_text(*before, "uid") != metadata_text(*object, "uid")) {
    take(name);
    before = nullptr;
  }
  if (before &&
      metadata_text(*before, "resourceVersion") == metadata_text(*object, "resourceVersion")) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    objects_[name] = object;
  }
  if (before) {
    if (callbacks_.updated) callbacks_.updated(before, object);
  } else if (callbacks_.added) {
    callbacks_.added(object);
  }
}

void Informer::take(const ObjectName& name) {
  Object before;
  {
    const std::lock_guard lock(mutex_);
    const auto known = objects_.find(name);
    if (known == objects_.end()) return;
    before = std::move(known->second);
    objects_.erase(known);
  }
  if (callbacks_.deleted) callbacks_.deleted(before);
}

bool Informer::synced() const {
  const std::lock_guard lock(mutex_);
  return synced_;
}

bool Informer::wait_synced(Seconds at_most) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, at_most, [&] { return synced_; });
}

Object Informer::find(const std::string& name_space, const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto known = objects_.find({name_space, name});
  return known == objects_.end() ? nullptr : known->second;
}

std::vector<Object> Informer::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<Object> result;
  result.reserve(objects_.size());
  for (const auto& entry : objects_) result.push_back(entry.second);
  return result;
}

std::vector<Object> Informer::all(const std::string& name_space) const {
  const std::lock_guard lock(mutex_);
  std::vector<Object> result;
  for (auto at = objects_.lower_bound({name_space, ""});
       at != objects_.end() && at->first.first == name_space; ++at) {
    result.push_back(at->second);
  }
  return result;
}

size_t Informer::size() const {
  const std::lock_guard lock(mutex_);
  return objects_.size();
}

std::string Informer::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

}  // namespace adaptdl::kube
