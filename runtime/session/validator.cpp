#include "runtime/session/validator.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "runtime/comm/communicator.h"
#include "runtime/session/batches.h"
#include "runtime/session/precision.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

data::Sampler in_order(const data::Dataset& dataset) {
  data::SamplerOptions options;
  options.shuffle = false;
  return data::Sampler(dataset.size(), options);
}

// Restores training mode, also after an exception.
class EvaluationMode {
 public:
  explicit EvaluationMode(Program& program) : program_(program) { program_.train(false); }
  ~EvaluationMode() { program_.train(true); }

 private:
  Program& program_;
  at::NoGradGuard no_grad_;
};

}  // namespace

std::map<std::string, double> means(std::map<std::string, double> sums) {
  const double count = sums.extract("count").mapped();
  for (auto& [name, value] : sums) value /= count;
  return sums;
}

Validator::Validator(Program& program, const data::Dataset& dataset, at::Device device,
                     TrainingSpec::Precision precision)
    : program_(program),
      device_(device),
      precision_(precision),
      loader_(dataset, in_order(dataset), {}) {}

std::set<std::string> Validator::metrics(int64_t atomic_batch) {
  const EvaluationMode evaluation(program_);
  const Autocast autocast(device_, precision_);
  loader_.configure({}, 1, 0, atomic_batch);
  const auto batch = loader_.next();
  ADAPTDL_CHECK(batch.has_value());
  std::set<std::string> names;
  for (const auto& [name, value] : program_.validation_step(to_tensors(*batch, device_))) {
    if (name != "count") names.insert(name);
  }
  return names;
}

void Validator::begin(comm::Communicator* communicator, int replicas, int rank,
                      int64_t atomic_batch) {
  communicator_ = communicator;
  loader_.configure({}, replicas, rank, atomic_batch);
}

std::optional<std::vector<at::Tensor>> Validator::next() {
  while (const auto batch = loader_.next()) {
    if (communicator_ && communicator_->aborted()) throw comm::Aborted("aborted during validation");
    shard_ = batch->step.rank;
    sample_ = batch->step.from.index + shard_;
    if (batch->step.samples > 0) return to_tensors(*batch, device_);
  }
  return {};
}

// All replicas use the same names of sums, but a replica without samples has none. So the names
// come from the replica with the most samples: rank 0.
std::vector<std::string> Validator::names_of_rank_0(const std::map<std::string, double>& mine) {
  std::string names;
  for (const auto& [name, value] : mine) names += name + '\n';
  if (communicator_) {
    uint64_t length = names.size();
    communicator_->broadcast(&length, sizeof length, 0);
    names.resize(length);
    communicator_->broadcast(names.data(), length, 0);
  }
  std::vector<std::string> keys;
  for (size_t at = 0; at < names.size();) {
    const size_t end = names.find('\n', at);
    keys.push_back(names.substr(at, end - at));
    at = end + 1;
  }
  return keys;
}

std::map<std::string, double> Validator::sum(const std::map<std::string, double>& mine) {
  if (!communicator_) return mine;
  const std::vector<std::string> keys = names_of_rank_0(mine);
  std::vector<double> values;
  for (const std::string& key : keys) {
    const auto found = mine.find(key);
    values.push_back(found == mine.end() ? 0 : found->second);
  }
  communicator_->all_reduce(values.data(), values.size(), comm::Type::f64, comm::Op::sum);
  std::map<std::string, double> sums;
  for (size_t i = 0; i < keys.size(); ++i) sums[keys[i]] = values[i];
  return sums;
}

// `mine`: by shard, empty for those of others.
std::map<std::string, double> Validator::sum_shards(
    const std::vector<std::map<std::string, double>>& mine) {
  const std::vector<std::string> keys = names_of_rank_0(mine.front());
  std::vector<double> values;  // of all shards, name by name
  for (const std::string& key : keys) {
    for (const auto& shard : mine) {
      const auto found = shard.find(key);
      values.push_back(found == shard.end() ? 0 : found->second);
    }
  }
  // Each is one replica's, so the sums over replicas are exact.
  if (communicator_) {
    communicator_->all_reduce(values.data(), values.size(), comm::Type::f64, comm::Op::sum);
  }
  std::map<std::string, double> sums;
  const auto shards = static_cast<std::ptrdiff_t>(mine.size());
  for (auto next = values.begin(); const std::string& key : keys) {
    sums[key] = std::accumulate(next, next + shards, 0.0);
    next += shards;
  }
  return sums;
}

std::map<std::string, double> Validator::run(comm::Communicator* communicator, int replicas,
                                             int rank, int64_t atomic_batch, int shards) {
  const EvaluationMode evaluation(program_);
  const Autocast autocast(device_, precision_);
  std::vector<std::map<std::string, double>> parts(static_cast<size_t>(std::max(shards, 1)));
  bool some = true;
  if (shards == 0) {
    begin(communicator, replicas, rank, atomic_batch);
  } else {
    communicator_ = communicator;
    const data::ShardRange range = data::shards_of(shards, replicas, rank);
    some = range.count > 0;
    if (some) loader_.configure_shards({}, shards, range, atomic_batch * shards);
  }
  while (const auto batch = some ? next() : std::nullopt) {
    // What validation_step draws must not depend on what this replica has drawn before.
    if (shards > 0) at::manual_seed(data::sample_seed(0, {}, sample_));
    auto& part = parts[shards == 0 ? 0 : static_cast<size_t>(shard_)];
    for (const auto& [name, value] : program_.validation_step(*batch)) {
      part[name] += value.item<double>();
    }
  }
  std::map<std::string, double> sums = shards == 0 ? sum(parts.front()) : sum_shards(parts);
  const auto found = sums.find("count");
  if (found == sums.end() || found->second <= 0) fail("validation_step counted no samples");
  return means(std::move(sums));
}

}  // namespace adaptdl
