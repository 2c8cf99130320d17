#include "runtime/standalone/group.h"

#include <future>
#include <pthread.h>

#include "core/base/error.h"
#include "runtime/standalone/meeting.h"

namespace adaptdl::standalone {
namespace {

constexpr std::chrono::seconds kConnectPatience{60};

TimePoint within(Seconds time) {
  return Monotonic::now() + std::chrono::duration_cast<Monotonic::duration>(time);
}

}  // namespace

Group::Group(const Place& place) {
  if (place.replicas == 1) {
    communicator_ = comm::alone();
  } else {
    Meeting meeting = meet(place, "collective");
    listener_ = std::make_unique<comm::Listener>(meeting.secret, meeting.listener);
    meeting.channel->send({{"type", "hello"}, {"endpoint", listener_->endpoint()}});
    // Rank 0 knows when the time is over, and says who is missing.
    const auto message = meeting.channel->receive(within(Seconds(place.patience_s + 30)));
    if (!message) fail("rank 0 is gone before all replicas were there");
    if (message->at("type") != "generation") fail("{}", message->value("cause", "rank 0 ends"));
    comm::GroupOptions options;
    options.generation = message->at("generation").get<uint64_t>();
    options.rank = place.rank;
    for (const auto& member : message->at("members")) {
      options.endpoints.push_back(member.at("endpoint"));
    }
    options.deadline = within(kConnectPatience);
    communicator_ = comm::connect(*listener_, options);
  }
  thread_ = std::thread([this] { run(); });
}

Group::~Group() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::string Group::fold(const std::string& mine, const Fold& fold) {
  if (std::this_thread::get_id() == thread_.get_id()) {
    return fold_bytes(*communicator_, mine, fold);
  }
  std::packaged_task<std::string()> task([&] { return fold_bytes(*communicator_, mine, fold); });
  auto result = task.get_future();
  post([&task] { task(); });
  return result.get();
}

void Group::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

void Group::run() {
  pthread_setname_np(pthread_self(), "collective");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace adaptdl::standalone
