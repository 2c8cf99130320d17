#include "runtime/session/validator.h"

#include <algorithm>
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
    if (batch->step.samples > 0) return to_tensors(*batch, device_);
  }
  return {};
}

std::map<std::string, double> Validator::sum(const std::map<std::string, double>& mine) {
  if (!communicator_) return mine;
  // All replicas use the same names of sums, but a replica without samples has none. So the names
  // come from the replica with the most samples: rank 0.
  std::string names;
  for (const auto& [name, value] : mine) names += name + '\n';
  uint64_t length = names.size();
  communicator_->broadcast(&length, sizeof length, 0);
  names.resize(length);
  communicator_->broadcast(names.data(), length, 0);
  std::vector<double> values;
  std::vector<std::string> keys;
  for (size_t at = 0; at < names.size();) {
    const size_t end = names.find('\n', at);
    keys.push_back(names.substr(at, end - at));
    const auto found = mine.find(keys.back());
    values.push_back(found == mine.end() ? 0 : found->second);
    at = end + 1;
  }
  communicator_->all_reduce(values.data(), values.size(), comm::Type::f64, comm::Op::sum);
  std::map<std::string, double> sums;
  for (size_t i = 0; i < keys.size(); ++i) sums[keys[i]] = values[i];
  return sums;
}

std::map<std::string, double> Validator::run(comm::Communicator* communicator, int replicas,
                                             int rank, int64_t atomic_batch) {
  const EvaluationMode evaluation(program_);
  const Autocast autocast(device_, precision_);
  std::map<std::string, double> sums;
  begin(communicator, replicas, rank, atomic_batch);
  while (const auto batch = next()) {
    for (const auto& [name, value] : program_.validation_step(*batch)) {
      sums[name] += value.item<double>();
    }
  }
  sums = sum(sums);
  const auto found = sums.find("count");
  if (found == sums.end() || found->second <= 0) fail("validation_step counted no samples");
  return means(std::move(sums));
}

}  // namespace adaptdl
