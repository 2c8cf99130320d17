// The files of a job's folder, all of which the job's own program can write: job.json, run.json,
// runner.json and replicas.json, each with the whole input.

#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/cluster/local/runner/granted_job.h"
#include "core/cluster/local/runner/launch_options.h"
#include "core/cluster/local/runner/run_record.h"
#include "core/cluster/local/runner/runner_process.h"
#include "core/launch/command/leftovers.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;
using namespace adaptdl::local;

namespace {

void check_job(const JobFolder& folder) {
  try {
    const GrantedJob job = read_granted_job(folder);
    const Grant& grant = job.grant;
    ADAPTDL_CHECK(grant.min_replicas >= 1 && grant.min_replicas <= grant.max_replicas);
    ADAPTDL_CHECK(grant.max_replicas <= launch::kMaxReplicas && grant.slots_per_replica >= 1);
    const std::vector<int> slots = {0, 1, 2, 3};
    command_options(job, folder, slots, "");
    training_options(job, folder, slots);
  } catch (const Error&) {
    // refused
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(fuzz_text(data, size));
  static const TemporaryDirectory directory("adaptdl-fuzz");
  const JobFolder folder{directory.path()};
  for (const std::string& path :
       {folder.job_file(), folder.run_record(), folder.runner_file(), folder.replicas_file()}) {
    replace_file(path, text);
  }
  check_job(folder);
  runner_end(folder, 7);
  shown_restartable(folder);
  last_runner(folder);
  RunnerProcess::find(folder);
  launch::read_replica_record(folder.replicas_file());
  record_failure(folder, "reason", 1);
  const RunnerEnd end = runner_end(folder, getpid());
  ADAPTDL_CHECK(end.state.empty() || end.state == "failed");
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {{R"({"format":2,"grant":{"name":"a","namespace":"default","directory":"/d",
"min_replicas":1,"max_replicas":4,"slot_kind":"gpu","slots_per_replica":2,"tensorboard":null},
"spec":{"name":"a","kind":"command","program":"python3","arguments":["t.py"],"directory":"/d"}})",
           R"({"format":2,"grant":{"name":"a","directory":"/d"},"spec":{"name":"a",
"kind":"training","program":"m.adl","settings":["optimizer.lr=0.1"]}})",
           R"({"format":1,"name":"a","directory":"/d","kind":"command","program":"x"})",
           R"({"format":1,"state":"finished","reason":"r","cause":"","step":5,"exit_code":0,
"program_exit_code":null,"pid":7,"restartable":true})",
           R"({"pid":7,"start_time":99,"boot_id":"b","version":"1","protocol":1,"format":1,
"generation":3,"replicas":[{"pid":8,"start_time":1}]})"},
          {"null", "-1", "2147483648", "9223372036854775808", "{}", "[]", "\"\"",
           "\"spec\":", "\"grant\":", "\"kind\":\"python\",", "\"environment\":{\"A\":\"b\"},",
           "\"min_replicas\":", "\"slots_per_replica\":", "\"slot_kind\":\"shared\","}};
}
