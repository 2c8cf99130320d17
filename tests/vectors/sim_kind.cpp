// sim: {"step_times": [[application, GPUs per node, local batch, step, sync, kind]], "nd_queries":
// [the same without kind], "settings": the cluster and its rounds, "workloads": for each the
// results of each policy, job by job}; step_times, nd_queries or workloads may be missing.
// sim-delaunay: for each application its points, and their triangulation.

#include <cstdlib>
#include <vector>

#include "core/base/files.h"
#include "core/formats/json.h"
#include "core/sim/baselines/optimus.h"
#include "core/sim/baselines/tiresias.h"
#include "core/sim/profiles/profile_files.h"
#include "core/sim/simulation.h"
#include "tests/vectors/kinds.h"
#include "tests/vectors/report.h"

namespace adaptdl::vectors {
namespace {

constexpr double kRounding = 1e-9;

std::string data_path(const std::string& name) {
  const char* folder = std::getenv("ADAPTDL_TEST_DATA");
  if (!folder) fail("this kind needs measurements: set ADAPTDL_TEST_DATA, or give the folder");
  return join_path(join_path(folder, "data/osdi21"), name);
}

const Profile& profile_of(const Profiles& profiles, const std::string& application) {
  const auto found = profiles.find(application);
  if (found == profiles.end()) fail("{}: no profile was read", application);
  return found->second;
}

bool check_step_times(const Json& cases, const char* section, const Profiles& profiles) {
  Report report;
  for (const Json& c : cases) {
    report.add_case();
    const Profile& profile = profile_of(profiles, c.at(0).get_ref<const std::string&>());
    Placement gpus;
    for (const char digit : c.at(1).get<std::string>()) gpus.push_back(digit - '0');
    const std::string where = fmt::format("{} {} {}", c.at(0).get<std::string>(),
                                          c.at(1).get<std::string>(), c.at(2).get<int64_t>());
    const bool table = c.size() > 5 && c.at(5) == "table";
    report.require(where, profile.times().measured(gpus) == table,
                   "is taken from the wrong kind of data");
    const StepTime time = profile.times().at(gpus, c.at(2));
    report.relative(where + " step", time.step_s, c.at(3), kRounding);
    report.relative(where + " sync", time.sync_s, c.at(4), kRounding);
  }
  report.print(section);
  return report.passed();
}

SimCluster make_cluster(const Json& settings, const std::string& workload,
                        const Profiles& profiles) {
  const std::string where = "settings";
  std::vector<ClusterNode> nodes;
  for (int n = 0; n < json_get<int>(settings, "nodes", where); ++n) {
    nodes.push_back({fmt::format("node-{}", n),
                     "",
                     {{"gpu", json_get<int64_t>(settings, "gpus_per_node", where)}}});
  }
  std::vector<std::string> applications;
  for (const auto& [name, profile] : profiles) applications.push_back(name);
  SimClusterOptions options;
  options.rescale_s = json_get<double>(settings, "rescale_s", where);
  options.interference = json_get<double>(settings, "interference", where);
  options.adapt_batch = false;
  return {nodes, read_workload(data_path("workloads/" + workload + ".csv"), applications), profiles,
          options};
}

// Every job to the second, and every summary.
void check_results(const std::string& where, const Json& want, const Simulation& simulation,
                   Report& report) {
  const auto results = simulation.results();
  const Json& jct = want.at("jct");
  const Json& restarts = want.at("restarts");
  report.require(where, results.size() == jct.size(), "has another number of jobs");
  for (const JobResult& job : results) {
    report.relative(where + " " + job.name, job.jct_s, jct.at(job.name), 0);
    report.require(where + " " + job.name, restarts.at(job.name) == job.restarts,
                   fmt::format("restarted {} times", job.restarts));
  }
  const auto summary = summarise(results, simulation.policy_times());
  report.relative(where + " mean", summary.avg_jct_s, want.at("avg_jct"), kRounding);
  report.relative(where + " median", summary.p50_jct_s, want.at("p50_jct"), kRounding);
  report.relative(where + " p99", summary.p99_jct_s, want.at("p99_jct"), kRounding);
  report.relative(where + " makespan", summary.makespan_s, want.at("makespan"), kRounding);
  report.require(where, want.at("rounds") == summary.rounds,
                 fmt::format("took {} rounds", summary.rounds));
}

bool check_policy(const char* policy, const Json& file, const Profiles& profiles) {
  Report report;
  for (const auto& [workload, want] : file.at("workloads").items()) {
    if (!want.contains(policy)) continue;
    report.add_case();
    SimCluster cluster = make_cluster(file.at("settings"), workload, profiles);
    Tiresias tiresias;
    Optimus optimus([&cluster](const std::string& name) {
      const auto& job = cluster.job(name);
      return TrueJob{&job.state.profile(), "", job.state.epochs_finished(), job.spec.batch_size};
    });
    Policy& chosen = policy == std::string("tiresias") ? static_cast<Policy&>(tiresias) : optimus;
    const AllocatorOptions options{
        .interval_s = json_get<double>(file.at("settings"), "round_s", "settings")};
    Simulation simulation(cluster, chosen, options);
    while (simulation.step()) continue;
    check_results(workload + " " + policy, want.at(policy), simulation, report);
  }
  report.print(policy);
  return report.passed();
}

void check_cell(const Json& want, size_t i, const Triangulation::Cell& cell,
                const std::string& where, Report& report) {
  report.require(where, want.at("simplices").at(i) == Json(cell.corners), "has other corners");
  report.require(where, want.at("neighbours").at(i) == Json(cell.neighbours),
                 "has other neighbours");
  const Json& plane = want.at("planes").at(want.at("plane_of").at(i).get<size_t>());
  for (size_t k = 0; k < 5; ++k) {
    report.relative(where + " plane", k < 4 ? cell.normal[k] : cell.offset, plane.at(k), kRounding,
                    1e-3);
  }
}

void check_triangulation(const std::string& application, const Json& want, const Profile& profile,
                         Report& report) {
  report.add_case();
  if (!profile.times().interpolation()) fail("{}: nothing to interpolate", application);
  const Triangulation& got = profile.times().interpolation()->triangulation();
  report.relative(application + " lift scale", got.lift_scale(), want.at("lift").at(0), kRounding);
  report.relative(application + " lift shift", got.lift_shift(), want.at("lift").at(1), kRounding);
  const auto& cells = got.cells();
  report.require(application, cells.size() == want.at("simplices").size(),
                 fmt::format("has {} cells", cells.size()));
  std::vector<size_t> flat;
  for (size_t i = 0; i < cells.size() && i < want.at("simplices").size(); ++i) {
    if (cells[i].flat) flat.push_back(i);
    check_cell(want, i, cells[i], fmt::format("{} cell {}", application, i), report);
  }
  report.require(application, want.at("flat") == Json(flat), "other cells are flat");
}

}  // namespace

bool check_sim(const Json& file) {
  const Profiles profiles = read_profiles(data_path("profiles"));
  bool passed = true;
  for (const char* section : {"step_times", "nd_queries"}) {
    if (!file.contains(section)) continue;
    passed = check_step_times(file.at(section), section, profiles) && passed;
  }
  if (file.contains("workloads")) {
    for (const char* policy : {"tiresias", "optimus"}) {
      passed = check_policy(policy, file, profiles) && passed;
    }
  } else if (!file.contains("step_times") && !file.contains("nd_queries")) {
    fail("the file has neither \"step_times\", \"nd_queries\" nor \"workloads\"");
  }
  return passed;
}

bool check_sim_delaunay(const Json& file) {
  const Profiles profiles = read_profiles(data_path("profiles"));
  Report report;
  for (const auto& [application, want] : file.items()) {
    check_triangulation(application, want, profile_of(profiles, application), report);
  }
  report.print("triangulations");
  return report.passed();
}

}  // namespace adaptdl::vectors
