// The policy of an installation, on a fake API server.

#include <algorithm>
#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/base/version.h"
#include "core/client/kubernetes/policy.h"
#include "core/cluster/kubernetes/install/manifests.h"
#include "tests/unit/client/kubernetes_choice.h"
#include "tests/unit/kube/fake_api.h"

namespace adaptdl::client {
namespace {

struct Lab {
  kube::FakeApi api{{{{"rbac.authorization.k8s.io", "v1", "clusterrolebindings", "", "", ""},
                      "ClusterRoleBinding",
                      false},
                     {kube::kDeployments, "Deployment"}}};
  const TemporaryDirectory folder;
  const ClusterChoice choice = test_choice(folder, "server: " + api.config().server);
  kube::Client client{api.config()};

  // Of it only what a policy has to do with is there.
  void install(const std::string& version, const Json& given) {
    for (const Json& object :
         kubernetes::manifests(kubernetes::read_values(given), "tools", given, version)) {
      const std::string what = kubernetes::describe_object(object);
      if (what == "ClusterRoleBinding adaptdl" || what == "ConfigMap adaptdl-config" ||
          what == "Deployment adaptdl-operator") {
        kube::Resource place = kubernetes::resource_of(object);
        place.name = "";
        api.put(place, object);
      }
    }
  }
  Json arguments() {
    const Json pod = client.get(kube::kDeployments.in("tools", kubernetes::kDeployment))
                         .at(Json::json_pointer("/spec/template/spec"));
    return pod["containers"][0]["args"];
  }
};

bool has(const Json& arguments, const char* flag, const char* value) {
  for (size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i - 1] == flag && arguments[i] == value) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("the policy of an installation is shown and changed, and nothing else of it") {
  Lab lab;
  CHECK_THROWS_WITH_AS(KubernetesPolicy(lab.choice, false), doctest::Contains("no operator is"),
                       Error);
  lab.install(version(), {{"image", {{"repository", "r.io/a"}, {"tag", "1"}}},
                          {"sched", {{"interval", "7s"}, {"policyOptions", {{"growth", 3}}}}}});
  KubernetesPolicy policy(lab.choice, false);
  CHECK(policy.choice().name == "proportional");
  CHECK(policy.choice().options == std::map<std::string, double>{{"growth", 3}});
  policy.set({.name = "pollux", .options = {{"fairness", -2}}});
  const Json arguments = lab.arguments();
  CHECK(has(arguments, "--policy", "pollux"));
  CHECK(has(arguments, "--policy-option", "fairness=-2"));
  CHECK_FALSE(has(arguments, "--policy-option", "growth=3"));
  CHECK(has(arguments, "--interval", "7s"));
  // It is among the values that an upgrade keeps.
  CHECK(KubernetesPolicy(lab.choice, false).choice().options ==
        std::map<std::string, double>{{"fairness", -2}});
}

TEST_CASE("an installation of another version is changed by upgrade alone") {
  Lab lab;
  lab.install("0.0.1", {{"image", {{"repository", "r.io/a"}, {"tag", "1"}}}});
  KubernetesPolicy policy(lab.choice, false);
  CHECK_THROWS_WITH_AS(policy.set({.name = "pollux"}),
                       doctest::Contains("`adaptdl upgrade --set sched.policy=pollux`"), Error);
  CHECK(has(lab.arguments(), "--policy", "proportional"));
}

}  // namespace adaptdl::client
