#include "core/client/local/find_job.h"

#include <algorithm>
#include <string_view>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/client/exit_codes.h"
#include "core/launch/client.h"

namespace adaptdl::client {
namespace {

constexpr int kNamesSearched = 2000;  // for a suggestion

}  // namespace

std::vector<std::string> job_and_run_names(local::JobStore* store, const std::string& prefix,
                                           int most) {
  std::vector<std::string> names;
  if (store != nullptr) names = store->names(prefix, most);
  for (std::string& run : launch::live_run_names()) {
    if (run.starts_with(prefix)) names.push_back(std::move(run));
  }
  return names;
}

local::JobRecord find_job(local::JobStore* store, const std::string& name) {
  if (store != nullptr) {
    if (auto job = store->find(name)) return std::move(*job);
  }
  const std::vector<std::string> runs = launch::live_run_names();
  if (std::find(runs.begin(), runs.end(), name) != runs.end()) {
    throw Error(
        fmt::format("{} is a run of `adaptdl run`, not a job; `adaptdl ls` and `adaptdl logs "
                    "{}` show it.",
                    name, name),
        kJobMissing);
  }
  std::vector<std::string> names;
  if (store != nullptr) names = store->names("", kNamesSearched);
  throw Error(fmt::format("job {} not found.{}", name,
                          names.empty() ? " Submit one with `adaptdl submit`."
                                        : did_you_mean(name, std::vector<std::string_view>(
                                                                 names.begin(), names.end()))),
              kJobMissing);
}

JobOrRun find_job_or_run(local::JobStore* store, const std::string& name) {
  std::optional<local::JobRecord> job;
  if (store != nullptr) job = store->find(name);
  if (job && !job->ended()) return {std::move(job)};
  if (launch::is_live(name)) return {};
  if (job) return {std::move(job)};
  if (launch::read_record(name).is_object()) return {};
  const std::vector<std::string> names = job_and_run_names(store, "", kNamesSearched);
  throw Error(
      fmt::format("job or run {} not found.{}", name,
                  did_you_mean(name, std::vector<std::string_view>(names.begin(), names.end()))),
      kJobMissing);
}

}  // namespace adaptdl::client
