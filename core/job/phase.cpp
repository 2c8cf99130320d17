#include "core/job/phase.h"

#include "core/base/error.h"

namespace adaptdl {

std::string_view phase_name(JobPhase phase) {
  switch (phase) {
    case JobPhase::pending:
      return "Pending";
    case JobPhase::starting:
      return "Starting";
    case JobPhase::running:
      return "Running";
    case JobPhase::stopping:
      return "Stopping";
    case JobPhase::succeeded:
      return "Succeeded";
    case JobPhase::failed:
      return "Failed";
  }
  return "";
}

JobPhase phase_of(const JobFacts& facts) {
  ADAPTDL_CHECK(0 <= facts.training && facts.training <= facts.present);
  ADAPTDL_CHECK(!(facts.succeeded && facts.failed));
  if (facts.succeeded) return JobPhase::succeeded;
  if (facts.failed) return JobPhase::failed;
  if (facts.allocated == 0) return facts.present > 0 ? JobPhase::stopping : JobPhase::pending;
  return facts.training > 0 ? JobPhase::running : JobPhase::starting;
}

}  // namespace adaptdl
