#include "core/cluster/kubernetes/jobs/job_queue.h"

#include <string_view>

namespace adaptdl::kubernetes {

namespace {

std::string_view namespace_of(std::string_view id) {
  return id.substr(0, id.find('/'));
}

}  // namespace

void JobQueue::open() {
  const std::lock_guard lock(mutex_);
  open_ = true;
  namespaces_.clear();
  waiting_.clear();
  with_writers_.clear();
  added_meanwhile_.clear();
}

void JobQueue::close() {
  const std::lock_guard lock(mutex_);
  open_ = false;
  changed_.notify_all();
}

void JobQueue::add(const std::string& id) {
  const std::lock_guard lock(mutex_);
  if (!open_) return;
  if (with_writers_.contains(id)) {
    added_meanwhile_.insert(id);
  } else {
    wait_again(id);
  }
}

void JobQueue::wait_again(const std::string& id) {
  if (!waiting_.insert(id).second) return;
  namespaces_[std::string(namespace_of(id))].waiting.push_back(id);
  changed_.notify_one();
}

// The next namespace in turn that may get a writer; end(): none.
JobQueue::Namespaces::iterator JobQueue::next() {
  const int free = writers_ - static_cast<int>(with_writers_.size());
  auto candidate = namespaces_.upper_bound(last_);
  for (size_t i = 0; i < namespaces_.size(); ++i) {
    if (candidate == namespaces_.end()) candidate = namespaces_.begin();
    const Namespace& space = candidate->second;
    if (!space.waiting.empty() && space.taken < free) return candidate;
    ++candidate;
  }
  return namespaces_.end();
}

std::optional<std::string> JobQueue::take() {
  std::unique_lock lock(mutex_);
  auto found = namespaces_.end();
  changed_.wait(lock, [&] { return !open_ || (found = next()) != namespaces_.end(); });
  if (!open_) return std::nullopt;
  Namespace& space = found->second;
  const std::string id = std::move(space.waiting.front());
  space.waiting.pop_front();
  ++space.taken;
  last_ = found->first;
  waiting_.erase(id);
  with_writers_.insert(id);
  return id;
}

void JobQueue::done(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = namespaces_.find(namespace_of(id));
  --found->second.taken;
  with_writers_.erase(id);
  if (added_meanwhile_.erase(id) > 0) wait_again(id);
  if (found->second.taken == 0 && found->second.waiting.empty()) namespaces_.erase(found);
  changed_.notify_all();  // more may be handed out to others now, too
}

bool JobQueue::is_taken(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  return with_writers_.contains(id);
}

}  // namespace adaptdl::kubernetes
