#pragma once

// A pass over the validation data, shared out among the replicas.

#include <map>
#include <string>

#include "adaptdl/program.h"
#include "runtime/data/dataset.h"
#include "runtime/data/loader.h"

namespace adaptdl {

namespace comm {
class Communicator;
}

class Validator {
 public:
  Validator(Program& program, data::Dataset dataset, at::Device device);

  // Metrics: the program's sums divided by its "count", each sample counted once whatever the
  // number of replicas. Collective; throws comm::Aborted when the generation broke.
  std::map<std::string, double> run(comm::Communicator* communicator, int replicas, int rank,
                                    int64_t atomic_batch);

 private:
  Program& program_;
  at::Device device_;
  data::Loader loader_;
};

}  // namespace adaptdl
