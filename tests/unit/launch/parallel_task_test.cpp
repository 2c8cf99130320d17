#include "core/launch/hosts/parallel_task.h"

#include <doctest/doctest.h>
#include <map>
#include <stdlib.h>
#include <string>

using namespace adaptdl::launch;

namespace {

constexpr const char* kVariables[] = {"SLURM_JOB_ID",
                                      "SLURM_STEP_ID",
                                      "SLURM_RESTART_COUNT",
                                      "SLURM_PROCID",
                                      "SLURM_STEP_NUM_TASKS",
                                      "OMPI_COMM_WORLD_RANK",
                                      "OMPI_COMM_WORLD_SIZE",
                                      "PMIX_NAMESPACE",
                                      "PMI_RANK",
                                      "PMI_SIZE"};

std::optional<ParallelTask> task_in(const std::map<std::string, std::string>& environment) {
  for (const char* name : kVariables) ::unsetenv(name);
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  const auto found = parallel_task();
  for (const char* name : kVariables) ::unsetenv(name);
  return found;
}

std::map<std::string, std::string> step(const char* rank, const char* count) {
  return {{"SLURM_JOB_ID", "7"},
          {"SLURM_STEP_ID", "2"},
          {"SLURM_PROCID", rank},
          {"SLURM_STEP_NUM_TASKS", count}};
}

}  // namespace

TEST_CASE("parallel task: a task of a job step of Slurm") {
  const auto task = task_in(step("3", "4"));
  REQUIRE(task);
  CHECK(task->rank == 3);
  CHECK(task->count == 4);
  CHECK(task->start == "slurm 7.2.");
  auto again = step("0", "2");
  again["SLURM_RESTART_COUNT"] = "1";
  CHECK(task_in(again)->start == "slurm 7.2.1");  // requeued
}

TEST_CASE("parallel task: none if it is alone, or the variables make no sense") {
  CHECK_FALSE(task_in({}));
  CHECK_FALSE(task_in(step("0", "1")));
  CHECK_FALSE(task_in(step("4", "4")));
  CHECK_FALSE(task_in(step("-1", "4")));
  CHECK_FALSE(task_in(step("a", "4")));
  auto batch_script = step("0", "4");
  batch_script.erase("SLURM_STEP_ID");
  CHECK_FALSE(task_in(batch_script));
}

TEST_CASE("parallel task: of mpirun, which may have been started by srun") {
  const auto mpich = task_in({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
  REQUIRE(mpich);
  CHECK(mpich->rank == 1);
  CHECK(mpich->start.empty());
  auto both = step("1", "2");  // one task of srun on each host, which starts two processes
  both.insert(
      {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_NAMESPACE", "123"}});
  const auto open_mpi = task_in(both);
  REQUIRE(open_mpi);
  CHECK(open_mpi->rank == 2);
  CHECK(open_mpi->count == 4);
  CHECK(open_mpi->start == "123");
  auto pmi = step("1", "2");  // srun --mpi=pmi2
  pmi.insert({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
  CHECK(task_in(pmi)->start == "slurm 7.2.");
}
