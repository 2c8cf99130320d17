#include "runtime/session/trainer.h"

#include "core/base/error.h"
#include "runtime/comm/communicator.h"
#include "runtime/session/check_tensors.h"
#include "runtime/session/elastic_loop.h"

namespace adaptdl {

int train(Program& program, const TrainingSpec& spec, const TrainOptions& options,
          Session& session) {
  check_tensors(program);
  ElasticLoop loop(program, spec, options, session);
  return loop.run();
}

}  // namespace adaptdl
