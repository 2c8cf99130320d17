#include "core/launch/hosts/slurm.h"

#include <atomic>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/base/process.h"
#include "core/base/system.h"

namespace adaptdl::launch {
namespace {

constexpr int kSignals[] = {SIGUSR1, SIGUSR2};
constexpr Seconds kScontrolPatience{30};
constexpr size_t kShownOutput = 200;  // bytes

std::atomic<bool> notice_came{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_notice(int /*number*/) {
  notice_came = true;
  ::kill(getpid(), SIGTERM);
}

// What it prints. Throws Error.
std::string scontrol(std::vector<std::string> words) {
  words.insert(words.begin(), "scontrol");
  SpawnOptions options;
  options.argv = std::move(words);
  CapturedRun run = run_and_capture(std::move(options), kScontrolPatience, true);
  while (run.output.ends_with('\n')) run.output.pop_back();
  if (run.status.success()) return run.output;
  fail("scontrol: {}",
       run.output.empty() ? run.status.describe() : run.output.substr(0, kShownOutput));
}

// Of what `scontrol show job --oneliner` prints: NAME=VALUE NAME=VALUE...
std::string field(const std::string& job, const std::string& name) {
  const std::string key = " " + name + "=";
  const size_t at = job.find(key);
  if (at == std::string::npos) return "";
  const size_t begin = at + key.size();
  return job.substr(begin, job.find(' ', begin) - begin);
}

}  // namespace

SlurmNotice::SlurmNotice() : job_(environment_variable("SLURM_JOB_ID").value_or("")) {
  notice_came = false;
  if (job_.empty()) return;
  struct sigaction action {};
  action.sa_handler = on_notice;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &action, &before_[i]);
}

SlurmNotice::~SlurmNotice() {
  if (job_.empty()) return;
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

// A job that ends by itself while Slurm waits for it to make room has simply ended for Slurm. Of
// one that its user cancels the state is COMPLETING.
void SlurmNotice::requeue_job(bool trained, const Talk& talk) const {
  if (job_.empty()) return;
  try {
    const std::string job = scontrol({"show", "job", "--oneliner", job_});
    const std::string preempted = field(job, "PreemptTime");
    const bool wanted = notice_came || (!preempted.empty() && preempted != "None");
    const bool possible = field(job, "JobState") == "RUNNING" && field(job, "BatchFlag") == "1" &&
                          field(job, "Requeue") == "1";
    if (!wanted || !possible) return;
    if (!trained) {
      return talk(fmt::format(
          "not requeuing job {}: it has not finished a step; does it have enough time?", job_));
    }
    talk(fmt::format("requeuing job {}, which Slurm starts again in two minutes or later", job_));
    ::signal(SIGTERM, SIG_IGN);  // it comes at once
    scontrol({"requeue", job_});
  } catch (const Error& error) {
    if (notice_came) talk(fmt::format("cannot requeue job {}: {}", job_, error.what()));
  }
}

std::string unused_nodes() {
  const auto nodes =
      try_parse<int>(environment_variable("SLURM_JOB_NUM_NODES").value_or("1")).value_or(1);
  if (nodes < 2 || environment_variable("SLURM_STEP_ID")) return "";
  return fmt::format(
      "this job has {} nodes, of which this command uses one; with srun before it, "
      "it uses all",
      nodes);
}

}  // namespace adaptdl::launch
