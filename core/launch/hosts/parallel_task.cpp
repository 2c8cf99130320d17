#include "core/launch/hosts/parallel_task.h"

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/base/system.h"

namespace adaptdl::launch {
namespace {

std::string text(const char* name) {
  return environment_variable(name).value_or("");
}

std::optional<ParallelTask> task(const char* starter, const char* rank, const char* count) {
  const auto here = try_parse<int>(text(rank)), all = try_parse<int>(text(count));
  if (!here || !all || *here < 0 || *here >= *all) return std::nullopt;
  return ParallelTask{.starter = starter, .rank = *here, .count = *all, .start = {}};
}

// A batch script has a rank, too, but no step.
std::optional<ParallelTask> slurm_task() {
  if (text("SLURM_STEP_ID").empty()) return std::nullopt;
  auto found = task("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
  if (found) {
    found->start = fmt::format("slurm {}.{}.{}", text("SLURM_JOB_ID"), text("SLURM_STEP_ID"),
                               text("SLURM_RESTART_COUNT"));
  }
  return found;
}

std::optional<ParallelTask> mpi_task() {
  auto found = task("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  if (!found) return task("mpirun", "PMI_RANK", "PMI_SIZE");
  found->start = text("PMIX_NAMESPACE");
  return found;
}

}  // namespace

std::optional<ParallelTask> parallel_task() {
  const auto slurm = slurm_task(), mpi = mpi_task();
  // mpirun starts its processes through srun, whose variables they then inherit; and srun may set
  // those of PMI.
  const bool same = slurm && mpi && slurm->rank == mpi->rank && slurm->count == mpi->count;
  const auto& found = mpi && !same ? mpi : slurm;
  return found && found->count > 1 ? found : std::nullopt;
}

}  // namespace adaptdl::launch
