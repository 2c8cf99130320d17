#include "core/cluster/kubernetes/jobs/controller.h"

#include <algorithm>
#include <thread>

#include "core/base/log.h"
#include "core/formats/json_fields.h"

namespace adaptdl::kubernetes {

namespace {

constexpr Seconds kLook{0.5};        // between two checks whether to continue
constexpr Seconds kLeadersPause{2};  // between two times when leaders are written

}  // namespace

Controller::Controller(kube::Client& acting, kube::Client& client, ClusterCache& cache,
                       Policy& policy, ControllerOptions options)
    : client_(client),
      cache_(cache),
      options_(std::move(options)),
      allocator_(*this, policy, options_.allocator),
      reconciler_(acting, cache, options_.pods, options_.identity,
                  [this](const std::string& id, Seconds in) { again(id, in); }),
      queue_(options_.writers) {}

void Controller::job_changed(const std::string& id) {
  if (options_.reconciles) queue_.add(id);
}

void Controller::capacity_changed() {
  const std::lock_guard lock(mutex_);
  capacity_changed_ = true;
  wake_.notify_one();
}

void Controller::hints(const std::string& id, Json train) {
  const std::lock_guard lock(mutex_);
  hints_[id] = std::move(train);
  wake_.notify_one();
}

// Wakes nobody.
void Controller::leads(const std::string& id, GroupLeader leader) {
  const std::lock_guard lock(mutex_);
  leaders_[id] = leader;
}

ControllerFigures Controller::figures() const {
  kube::RequestCounts requests = client_.requests();
  const ReconcilerCounts counts = reconciler_.counts();
  const std::lock_guard lock(mutex_);
  ControllerFigures figures = figures_;
  static_cast<ReconcilerCounts&>(figures) = counts;
  figures.requests = std::move(requests);
  return figures;
}

void Controller::run(const std::function<bool()>& goes_on) {
  allocator_.something_happened(now_s());
  {
    const std::lock_guard lock(mutex_);
    refused_ = false;
    reasons_.clear();
  }
  queue_.open();
  // Another leader may have handled what was noted before this one led.
  for (const KnownJob& known : cache_.jobs()) job_changed(known.job.id());
  std::vector<std::jthread> writers;
  struct Closes {
    JobQueue& queue;
    ~Closes() { queue.close(); }
  } const before_the_writers_are_joined{queue_};
  for (int i = 0; i < options_.writers; ++i) writers.emplace_back([this] { reconcile_queued(); });
  while (goes_on()) {
    if (!wait() || !goes_on()) return;
    work_off();
    if (options_.allocates) round_if_due();
  }
}

// Waits for something to do; false if a change was refused.
bool Controller::wait() {
  std::unique_lock lock(mutex_);
  double seconds = kLook.count();
  if (options_.allocates) seconds = std::min(seconds, std::max(0.0, allocator_.due() - now_s()));
  const TimePoint now = Monotonic::now();
  for (const auto& [id, when] : timers_) {
    seconds = std::min(seconds, std::max(0.0, seconds_between(now, when)));
  }
  wake_.wait_for(lock, Seconds(seconds),
                 [&] { return !hints_.empty() || capacity_changed_ || refused_; });
  return !refused_;
}

void Controller::work_off() {
  std::vector<std::string> due;
  {
    const std::lock_guard lock(mutex_);
    const TimePoint now = Monotonic::now();
    std::erase_if(timers_, [&](const auto& timer) {
      if (timer.second > now) return false;
      due.push_back(timer.first);
      return true;
    });
    if (std::exchange(capacity_changed_, false)) allocator_.something_happened(now_s());
  }
  for (const std::string& id : due) queue_.add(id);
  write_noted();
}

// A writer's thread.
void Controller::reconcile_queued() {
  while (const auto id = queue_.take()) {
    attempt([&] {
      write_reason(*id);
      if (options_.reconciles) reconciler_.reconcile_job(*id);
    });
    queue_.done(*id);
  }
}

void Controller::write_noted() {
  std::vector<Work> work;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [id, train] : hints_) {
      work.push_back([this, id = id, train = std::move(train)] { write_hints(id, train); });
    }
    hints_.clear();
    const TimePoint now = Monotonic::now();
    if (!leaders_.empty() && now >= time_after(leaders_at_, kLeadersPause)) {
      for (const auto& [id, leader] : leaders_) {
        work.push_back([this, id = id, leader = leader] { write_leader(id, leader); });
      }
      leaders_.clear();
      leaders_at_ = now;
    }
  }
  write_all(work);
}

void Controller::write_hints(const std::string& id, const Json& train) {
  const auto known = cache_.job(id);
  if (!known || known->job.status.ended() || known->job.status.train == train) return;
  const auto patch = [&](const Json& changes) {
    return client_.patch(kJobs.in(known->job.job_namespace, known->job.name, "status"),
                         kube::PatchKind::merge, {{"status", {{"train", changes}}}});
  };
  // A merge patch keeps what it does not name: values that are not told any more. The cache may not
  // know yet what was written last, but the answer does.
  const Json answer = patch(train);
  Json gone = Json::object();
  for (const auto& [name, value] :
       object_at(object_at(object_at(answer, "status"), "train"), "trainMetrics").items()) {
    if (!object_at(train, "trainMetrics").contains(name)) gone[name] = nullptr;
  }
  if (!gone.empty()) patch({{"trainMetrics", gone}});
}

void Controller::write_leader(const std::string& id, const GroupLeader& leader) {
  const auto known = cache_.job(id);
  if (!known || known->job.status.ended() || known->job.status.leads == leader) return;
  client_.patch(kJobs.in(known->job.job_namespace, known->job.name, "status"),
                kube::PatchKind::merge, {{"status", {{"leads", to_json(leader)}}}});
}

// Logs an error: one piece of work must not end the others.
void Controller::attempt(const Work& work) {
  try {
    work();
  } catch (const Cancelled&) {  // the process is ending, or leads no more
    const std::lock_guard lock(mutex_);
    refused_ = true;
    wake_.notify_one();
  } catch (const std::exception& error) {
    log_warning("{}", error.what());
    const std::lock_guard lock(mutex_);
    ++figures_.errors;
  }
}

void Controller::write_all(const std::vector<Work>& work) {
  std::atomic<size_t> next = 0;
  const auto run_some = [&] {
    for (size_t i = next++; i < work.size(); i = next++) attempt(work[i]);
  };
  const auto count = std::min(work.size(), static_cast<size_t>(options_.writers));
  std::vector<std::jthread> writers;
  try {
    for (size_t i = 1; i < count; ++i) writers.emplace_back(run_some);
  } catch (const std::exception& error) {  // fewer threads do it, too
    log_warning("cannot start a thread that writes: {}", error.what());
  }
  run_some();
}

void Controller::again(const std::string& id, Seconds in) {
  // At most a day, since a time far away would overflow the clock.
  const Seconds bounded(std::clamp(in.count(), 0.0, 86400.0));
  const TimePoint when =
      Monotonic::now() + std::chrono::duration_cast<Monotonic::duration>(bounded);
  const std::lock_guard lock(mutex_);
  const auto [timer, fresh] = timers_.emplace(id, when);
  if (!fresh) timer->second = std::min(timer->second, when);
}

double Controller::now_s() {
  return monotonic_now_s();
}

// Takes one view for both halves of a round, which asks for the jobs first.
std::vector<ClusterJob> Controller::jobs() {
  const std::vector<NodeFacts> nodes = cache_.nodes();
  std::vector<JobObject> jobs;
  for (KnownJob& known : cache_.jobs()) {
    if (known.problem.empty()) jobs.push_back(std::move(known.job));
  }
  view_ = scheduler_view(nodes, cache_.uses(), jobs, options_.pods, wall_now_s(), now_s(),
                         reconciler_.refusals(), reconciler_.bounds());
  return view_.jobs;
}

std::vector<ClusterNode> Controller::nodes() {
  return view_.nodes;
}

void Controller::allocate(const std::string& job, const std::vector<std::string>& nodes,
                          const std::string& why) {
  allocations_.push_back([this, job, nodes, why] { write_allocation(job, nodes, why); });
}

// Not in the round: thousands of jobs may wait, and what they wait for is urgent to nobody.
void Controller::explain(const std::string& job, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    reasons_[job] = why;
  }
  queue_.add(job);
}

void Controller::write_reason(const std::string& id) {
  std::string why;
  {
    const std::lock_guard lock(mutex_);
    const auto noted = reasons_.find(id);
    if (noted == reasons_.end()) return;
    why = noted->second;
  }
  const auto known = cache_.job(id);
  if (known && !known->job.status.ended()) {
    JobStatus status = known->job.status;
    set_allocation(status, std::nullopt, why, wall_now_s());
    if (!reconciler_.write_status(*known, status)) return again(id, kLook);  // it has just changed
  }
  const std::lock_guard lock(mutex_);
  const auto noted = reasons_.find(id);
  if (noted != reasons_.end() && noted->second == why) reasons_.erase(noted);
}

void Controller::round_if_due() {
  if (now_s() < allocator_.due()) return;
  const double begun = now_s();
  allocations_.clear();
  AllocatorRound round;
  try {
    round = allocator_.round();
  } catch (const std::exception& error) {
    log_error("the round failed: {}", error.what());
    allocations_.clear();
    const std::lock_guard lock(mutex_);
    ++figures_.errors;
    return;
  }
  for (const std::string& problem : round.problems) log_warning("{}", problem);
  write_all(std::exchange(allocations_, {}));
  const std::lock_guard lock(mutex_);
  ++figures_.rounds;
  figures_.changes += static_cast<uint64_t>(round.changes);
  figures_.round_s = now_s() - begun;
  figures_.policy_s = round.policy_s;
}

void Controller::write_allocation(const std::string& id, const std::vector<std::string>& nodes,
                                  const std::string& why) {
  // Decided on what its writer is about to change.
  if (queue_.is_taken(id)) return capacity_changed();
  const auto known = cache_.job(id);
  if (!known || known->job.status.ended()) return;
  JobStatus status = known->job.status;
  set_allocation(status, nodes, why, wall_now_s());
  try {
    // The job may have changed meanwhile; the next round must come soon.
    if (!reconciler_.write_status(*known, status)) return capacity_changed();
  } catch (...) {
    capacity_changed();
    throw;
  }
  {
    const std::lock_guard lock(mutex_);
    reasons_.erase(id);  // of an earlier round
  }
  reconciler_.tell(known->job,
                   {false, "Scheduled",
                    fmt::format("replicas {} -> {}: {}", known->job.status.allocation.size(),
                                nodes.size(), why)});
  job_changed(id);
}

}  // namespace adaptdl::kubernetes
