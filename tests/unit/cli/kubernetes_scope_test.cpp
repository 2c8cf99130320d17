// Jobs of all namespaces, and of some labels.

#include <cstdlib>
#include <doctest/doctest.h>
#include <set>

#include "cli/frame/cluster_flags.h"
#include "cli/frame/names.h"
#include "cli/show/jobs.h"
#include "core/base/files.h"
#include "core/client/kubernetes/connection.h"
#include "core/client/open_cluster.h"
#include "tests/unit/client/kubernetes_choice.h"
#include "tests/unit/kube/fake_api.h"

namespace adaptdl::cli {

TEST_CASE("which jobs of a cluster are listed") {
  kube::FakeApi api({{kAdaptDLJobs, "AdaptDLJob"}});
  const TemporaryDirectory folder;
  setenv("XDG_STATE_HOME", folder.path().c_str(), 1);  // clusters that were seen are noted there
  const auto put = [&](const std::string& space, const std::string& name, const Json& labels) {
    api.put(kAdaptDLJobs.in(space), {{"apiVersion", "adaptdl.petuum.com/v1"},
                                     {"kind", "AdaptDLJob"},
                                     {"metadata", {{"name", name}, {"labels", labels}}},
                                     {"spec", Json::object()}});
  };
  put("one", "a", {{"team", "vision"}});
  put("one", "b", Json::object());
  put("two", "a", {{"team", "vision"}, {"stage", "test"}});

  const ClusterChoice choice = test_choice(folder, "server: " + api.config().server, "one");
  const auto listed = [&](const JobScope& scope) {
    std::set<std::string> names;
    client::open_cluster(choice, false, scope)
        .query->each(JobQuery::Detail::brief, [&](const JobView& job) {
          const JobRow row = job_row(job, 0, false);
          names.insert(row.name_space + "/" + row.name);
        });
    return names;
  };
  using Names = std::set<std::string>;
  CHECK(listed({}) == Names{"one/a", "one/b"});
  CHECK(listed({true, ""}) == Names{"one/a", "one/b", "two/a"});
  CHECK(listed({false, "team"}) == Names{"one/a"});
  CHECK(listed({true, "team=vision,stage=test"}) == Names{"two/a"});
  CHECK(listed({true, "team=none"}).empty());
  CHECK(client::open_cluster(choice, false, {true, "x"}).query->nothing(false) ==
        "There are no jobs with these labels in any namespace.");
  unsetenv("XDG_STATE_HOME");
  JobRow row;
  row.name_space = "two";
  row.name = "a";
  CHECK(
      rows_table({row}, job_columns({row}, {.name_spaces = true})).starts_with("NAMESPACE  NAME"));
  CHECK(rows_table({row}, job_columns({row}, {})).starts_with("NAME "));
}

TEST_CASE("a job that is not preemptible cannot be suspended") {
  kube::FakeApi api({{kAdaptDLJobs, "AdaptDLJob"}});
  const TemporaryDirectory folder;
  setenv("XDG_STATE_HOME", folder.path().c_str(), 1);
  const auto put = [&](const std::string& name, bool preemptible) {
    api.put(kAdaptDLJobs.in("one"), {{"apiVersion", "adaptdl.petuum.com/v1"},
                                     {"kind", "AdaptDLJob"},
                                     {"metadata", {{"name", name}}},
                                     {"spec", {{"preemptible", preemptible}}}});
  };
  put("fixed", false);
  put("flexible", true);
  const auto jobs =
      client::open_cluster(test_choice(folder, "server: " + api.config().server, "one"), false)
          .control;
  CHECK_THROWS_WITH_AS(jobs->suspend("fixed", true),
                       "job fixed is not preemptible; it can be cancelled", Error);
  CHECK_NOTHROW(jobs->suspend("fixed", false));
  CHECK_NOTHROW(jobs->suspend("flexible", true));
  unsetenv("XDG_STATE_HOME");
}

}  // namespace adaptdl::cli
