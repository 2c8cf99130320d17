#include "core/cluster/kubernetes/leader_election.h"

#include "core/base/log.h"
#include "core/cluster/kubernetes/install/manifests.h"

namespace adaptdl::kubernetes {

namespace {

constexpr Seconds kReleaseTime{0.5};  // for each of two requests: an ending process must not hang

// No request is retried: the next look does that. None waits for the rate limit of others: a leader
// that cannot renew its lease in time must stop.
kube::ClientOptions quick(const kube::Client& client, Seconds timeout, const Cancellation* cancel) {
  kube::ClientOptions options = client.options();
  options.timeout = timeout;
  options.retry_budget = Seconds(0);
  options.qps = 0;
  options.cancel = cancel;
  return options;
}

}  // namespace

LeaderElection::LeaderElection(kube::Client& client, const std::string& lease_namespace,
                               const std::string& lease_name, LeaderLeaseOptions options)
    // A leader whose request hangs has time for another one before it must give up.
    : client_(client.config(), quick(client, Seconds(options.renew_s / 2), &stop_)),
      lease_(kube::kLeases.in(lease_namespace, lease_name)),
      options_(options),
      known_(std::move(options)),
      thread_([this] { run(); }) {}

LeaderElection::~LeaderElection() {
  stop_.cancel();
  thread_.join();
  release();
}

bool LeaderElection::leads() const {
  const std::lock_guard lock(mutex_);
  return known_.leads(monotonic_now_s());
}

void LeaderElection::run() {
  do {
    std::string problem;
    try {
      look();
    } catch (const Cancelled&) {
      return;
    } catch (const std::exception& error) {
      problem = error.what();
    }
    if (!problem.empty() && problem != said_) log_warning("leader election: {}", problem);
    said_ = problem;
  } while (!stop_.wait_for(Seconds(options_.retry_s)));
}

void LeaderElection::look() {
  const std::optional<Json> found = client_.find(lease_);
  std::optional<Json> spec;
  if (found) spec = found->value("spec", Json::object());
  std::optional<Json> mine;
  const double asked_s =
      monotonic_now_s();  // the time of the request counts, not that of the answer
  {
    const std::lock_guard lock(mutex_);
    mine = known_.next(spec, asked_s, wall_now_s());
  }
  if (!mine) return;
  try {
    if (found) {
      Json lease = *found;
      lease["spec"] = *mine;
      client_.update(lease_, lease);
    } else {
      client_.create(lease_.in(lease_.name_space),
                     {{"apiVersion", "coordination.k8s.io/v1"},
                      {"kind", "Lease"},
                      {"metadata",
                       {{"name", lease_.name},
                        {"namespace", lease_.name_space},
                        {"labels", {{kLabelInstalled, lease_.name_space}}}}},
                      {"spec", *mine}});
    }
  } catch (const kube::ApiError& error) {
    if (error.conflict() || error.already_exists()) return;  // another operator was faster
    throw;
  }
  const std::lock_guard lock(mutex_);
  known_.renewed(asked_s);
}

void LeaderElection::release() {
  try {
    kube::Client last(client_.config(), quick(client_, kReleaseTime, nullptr));
    std::optional<Json> lease = last.find(lease_);
    if (!lease ||
        lease->value(Json::json_pointer("/spec/holderIdentity"), "") != options_.identity) {
      return;
    }
    (*lease)["spec"] = known_.released(wall_now_s());
    last.update(lease_, *lease);
  } catch (const std::exception& error) {
    log_warning("leader election: cannot release the lease: {}", error.what());
  }
}

}  // namespace adaptdl::kubernetes
