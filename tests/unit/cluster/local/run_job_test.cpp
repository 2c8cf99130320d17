#include "core/cluster/local/runner/run_job.h"

#include <cstdlib>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/cluster/local/runner/granted_job.h"

using namespace adaptdl;
using namespace adaptdl::local;

namespace {

// The folder of a job that was granted slots of that kind.
struct FolderOfJob {
  const TemporaryDirectory directory;
  const JobFolder folder{directory.path()};

  FolderOfJob(const std::string& job, const std::string& slot_kind = "core") {
    Grant grant;
    grant.name = "a";
    grant.directory = directory.path();
    grant.slot_kind = slot_kind;
    replace_file(folder.job_file(), job_file_text(job, grant));
  }
};

}  // namespace

TEST_CASE("a job uses the GPUs that it was granted, not those that its environment names") {
  const FolderOfJob job(R"({"format":1,"kind":"command","program":"true",
                           "environment":{"CUDA_VISIBLE_DEVICES":"1","OTHER":"2"}})",
                        "gpu");
  const pid_t runner = fork();
  if (runner == 0) {
    try {
      run_job_folder(job.folder, {0});
    } catch (const Error&) {  // without a GPU
    }
    _exit(0);
  }
  REQUIRE(waitpid(runner, nullptr, 0) == runner);
  const std::string said = read_file(job.folder.runner_log(), 1 << 20);
  CHECK(said.find("CUDA_VISIBLE_DEVICES in the job's environment has no effect") !=
        std::string::npos);
}

TEST_CASE("a job has nothing of the shell that started the service but its PATH") {
  const FolderOfJob job(R"({"format":1,"kind":"command","program":"/bin/sh",
                           "arguments":["-c","env > variables"],"retries":0,
                           "environment":{"VIRTUAL_ENV":"/the/job's"}})");
  const int slot = affinity_core_numbers().front();
  const pid_t runner = fork();
  if (runner == 0) {
    for (const char* name :
         {"PYTHONPATH", "LD_LIBRARY_PATH", "CONDA_PREFIX", "VIRTUAL_ENV", "OTHER"}) {
      setenv(name, "/the/service's", 1);
    }
    _exit(run_job_folder(job.folder, {slot}));
  }
  int status = 0;
  REQUIRE(waitpid(runner, &status, 0) == runner);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == kRunnerFinished);
  const std::string text = "\n" + read_file(job.directory.file("variables"), 1 << 20);
  const auto has = [&](const std::string& line) {
    return text.find("\n" + line) != std::string::npos;
  };
  for (const char* name : {"PYTHONPATH=", "LD_LIBRARY_PATH=", "CONDA_PREFIX="}) {
    CAPTURE(name);
    CHECK_FALSE(has(name));
  }
  CHECK(has("VIRTUAL_ENV=/the/job's\n"));
  CHECK(has("OTHER=/the/service's\n"));
  CHECK(has("PATH="));
}
