#pragma once

// Runs a pass over the validation data, divided among the replicas.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "adaptdl/program.h"
#include "core/job/training_spec.h"
#include "runtime/data/dataset.h"
#include "runtime/data/loader.h"

namespace adaptdl {

namespace comm {
class Communicator;
}

// The sums divided by "count", which is left out. Requires: a count other than 0.
std::map<std::string, double> means(std::map<std::string, double> sums);

class Validator {
 public:
  Validator(Program& program, const data::Dataset& dataset, at::Device device,
            TrainingSpec::Precision precision);

  // The names of the program's metrics, from one small batch of this replica. Not collective.
  std::set<std::string> metrics(int64_t atomic_batch);

  // A pass in pieces, where the caller computes: begin(), then each batch of this replica until
  // there is none, then the sums of all replicas from `mine`. next() and sum() throw comm::Aborted
  // if the generation breaks; sum() is collective. Autocast is the caller's.
  void begin(comm::Communicator* communicator, int replicas, int rank, int64_t atomic_batch);
  std::optional<std::vector<at::Tensor>> next();
  std::map<std::string, double> sum(const std::map<std::string, double>& mine);

  // Returns metrics: the program's sums divided by its "count". Each sample counts once, for any
  // number of replicas. With `shards` the samples are cut into so many, each in batches of
  // `atomic_batch`, and all sums are added in their order: the same bits for any replicas.
  // Collective; throws comm::Aborted if the generation breaks.
  std::map<std::string, double> run(comm::Communicator* communicator, int replicas, int rank,
                                    int64_t atomic_batch, int shards = 0);

 private:
  std::map<std::string, double> sum_shards(const std::vector<std::map<std::string, double>>& mine);
  std::vector<std::string> names_of_rank_0(const std::map<std::string, double>& mine);
  Program& program_;
  at::Device device_;
  TrainingSpec::Precision precision_;
  data::Loader loader_;
  comm::Communicator* communicator_ = nullptr;  // of the present pass
  int shard_ = 0;                               // or rank, of the newest batch
  int64_t sample_ = 0;                          // its first
};

}  // namespace adaptdl
