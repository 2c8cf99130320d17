// What goes with an installation, on a fake API server.

#include "core/cluster/kubernetes/install/installation.h"

#include <algorithm>
#include <doctest/doctest.h>

#include "core/cluster/kubernetes/cluster_cache.h"
#include "core/cluster/kubernetes/jobs/pod_object.h"
#include "tests/unit/base/expect_error.h"
#include "tests/unit/cluster/kubernetes/fake_kinds.h"

namespace adaptdl::kubernetes::installation_test {
namespace {

const kube::Resource kCronJobs{"batch", "v1", "cronjobs", "", "", ""};
const kube::Resource kDefinitions{
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "", "", ""};

struct Lab {
  kube::FakeApi api{{{kube::kNamespaces, "Namespace", false},
                     {kube::kDeployments, "Deployment"},
                     {kube::kServices, "Service"},
                     {kube::kClaims, "PersistentVolumeClaim"},
                     {kCronJobs, "CronJob"},
                     {kTestJobs, "AdaptDLJob"},
                     {kDefinitions, "CustomResourceDefinition", false}}};
  kube::Client client{api.config()};
  std::vector<std::string> said;

  Lab() {
    put(kube::kNamespaces, "Namespace", "adaptdl");
    put(kube::kDeployments, "Deployment", kDeployment);
    put(kube::kServices, "Service", "adaptdl-supervisor");
    put(kube::kSecrets, "Secret", kKeySecret);
    // The cluster's own, of any namespace.
    put(kube::kConfigMaps, "ConfigMap", "kube-root-ca.crt", Json::object());
    api.put(kube::kSecrets.in("adaptdl"), {{"apiVersion", "v1"},
                                           {"kind", "Secret"},
                                           {"metadata", {{"name", "default-token"}}},
                                           {"type", "kubernetes.io/service-account-token"}});
  }

  void put(const kube::Resource& kind, const char* name_of_kind, const std::string& name,
           Json labels = {{kLabelInstalled, "adaptdl"}}) {
    const bool whole =
        kind.plural == kube::kNamespaces.plural || kind.plural == kDefinitions.plural;
    api.put(kind.in(whole ? "" : "adaptdl"),
            {{"apiVersion", kind.group.empty() ? "v1" : kind.group + "/v1"},
             {"kind", name_of_kind},
             {"metadata", {{"name", name}, {"labels", std::move(labels)}}}});
  }

  void put_definition() { put(kDefinitions, "CustomResourceDefinition", kDefinition); }
  bool has_definition() { return client.find(kDefinitions.named(kDefinition)).has_value(); }

  // `meanwhile`, when the operators are gone.
  void uninstall(bool keep_jobs = false, Seconds patience = Seconds(20),
                 const std::function<void()>& meanwhile = {}) {
    remove_installation(client, "adaptdl", keep_jobs, patience, [&](const std::string& line) {
      said.push_back(line);
      if (meanwhile && line.starts_with("Deployment ")) meanwhile();
    });
  }

  bool has_namespace() { return client.find(kube::kNamespaces.named("adaptdl")).has_value(); }
};

}  // namespace

TEST_CASE("planned: kinds of Prometheus's operator are there before anything is done") {
  const auto wanted = [](const char* kind) {
    const Json name = {{"name", "adaptdl"}, {"namespace", "adaptdl"}};
    return std::vector<Json>{
        {{"apiVersion", "v1"}, {"kind", "Service"}, {"metadata", name}},
        {{"apiVersion", "monitoring.coreos.com/v1"}, {"kind", kind}, {"metadata", name}}};
  };
  Lab lab;
  CHECK_ERROR(plan_installation(lab.client, wanted("ServiceMonitor"), "adaptdl"),
              "the cluster does not know the kind ServiceMonitor, which comes with Prometheus's "
              "operator; install that first, or leave metrics.serviceMonitor.enabled false");
  CHECK_ERROR(plan_installation(lab.client, wanted("PrometheusRule"), "adaptdl"),
              "metrics.prometheusRule.enabled");
  CHECK_ERROR(plan_installation(lab.client, wanted("ValidatingAdmissionPolicy"), "adaptdl"),
              "set admissionPolicy.enabled to false");
  // As it is answered where the kind is known.
  lab.api.set_fault([](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    if (!request.path.ends_with("/servicemonitors/adaptdl")) return std::nullopt;
    return HttpResponse{404,
                        {{"Content-Type", "application/json"}},
                        R"({"kind": "Status", "status": "Failure", "reason": "NotFound",
                            "code": 404, "details": {"name": "adaptdl"}})"};
  });
  const auto changes = plan_installation(lab.client, wanted("ServiceMonitor"), "adaptdl");
  REQUIRE(changes.size() >= 2);
  CHECK(changes[1].what == ObjectChange::What::create);
  CHECK(describe_object(changes[1].object) == "ServiceMonitor adaptdl");
}

TEST_CASE("uninstalled: the namespace goes if all in it is the installation's or the cluster's") {
  Lab lab;
  lab.uninstall();
  CHECK_FALSE(lab.has_namespace());
  CHECK_FALSE(lab.client.find(kube::kDeployments.in("adaptdl", kDeployment)));
  CHECK(lab.said.back() == "Namespace adaptdl: removed");
}

TEST_CASE("uninstalled: a namespace with things of others stays, and so do they") {
  const auto stays = [](const kube::Resource& kind, const char* name_of_kind) {
    Lab lab;
    lab.put(kind, name_of_kind, "others", {{"app", "other"}});
    lab.uninstall();
    CHECK(lab.has_namespace());
    CHECK(lab.client.find(kind.in("adaptdl", "others")));
    CHECK(lab.said.back() ==
          std::string("Namespace adaptdl: kept, since it has other resources, such as ") +
              name_of_kind + " others");
  };
  stays(kube::kSecrets, "Secret");
  stays(kube::kConfigMaps, "ConfigMap");
  stays(kube::kServices, "Service");
  stays(kCronJobs, "CronJob");
  stays(kube::kPods, "Pod");
  stays(kube::kClaims, "PersistentVolumeClaim");
}

TEST_CASE("the registry's volume is made once, and left by upgrades and by the end") {
  const auto objects = [](const std::string& more) {
    std::vector<Json> all =
        manifests(read_values(parse_yaml("image: {repository: a}\ndocker-registry: " + more, "v")),
                  "adaptdl", Json::object(), "1");
    std::erase_if(all, [](const Json& object) {
      const std::string kind = object["kind"];
      return kind != "PersistentVolumeClaim" && kind != "Deployment";
    });
    return all;
  };
  const auto claims = [](const std::vector<ObjectChange>& changes) {
    return std::count_if(changes.begin(), changes.end(), [](const ObjectChange& change) {
      return change.object["kind"] == "PersistentVolumeClaim";
    });
  };
  const std::string persistent = "{enabled: true, persistence: {enabled: true}}";
  Lab lab;
  const auto plan = [&](const std::string& more) {
    return plan_installation(lab.client, objects(more), "adaptdl");
  };
  const auto first = plan(persistent);
  REQUIRE(claims(first) == 1);
  for (const ObjectChange& change : first) carry_out(lab.client, change);
  CHECK(claims(plan(persistent)) == 0);
  CHECK(claims(plan("{enabled: true}")) == 0);
  CHECK(claims(plan("{}")) == 0);
  lab.uninstall();
  CHECK(lab.has_namespace());
  CHECK(lab.client.find(kube::kClaims.in("adaptdl", "adaptdl-registry")));
  CHECK(lab.said.back().ends_with("such as PersistentVolumeClaim adaptdl-registry"));
  CHECK(claims(plan(persistent)) == 0);  // installed again, it finds its images
}

TEST_CASE("uninstalled: placeholders go, also where the namespace was there before") {
  const Json placeholder = {{"adaptdl/placeholder", "true"}};
  Lab lab;
  lab.put(kube::kPods, "Pod", "adaptdl-placeholder-1", placeholder);
  lab.uninstall();
  CHECK_FALSE(lab.has_namespace());
  CHECK_FALSE(lab.client.find(kube::kPods.in("adaptdl", "adaptdl-placeholder-1")));

  Lab older;
  older.api.erase(kube::kNamespaces.named("adaptdl"));
  older.put(kube::kNamespaces, "Namespace", "adaptdl", Json::object());
  older.put(kube::kPods, "Pod", "adaptdl-placeholder-1", placeholder);
  older.uninstall();
  CHECK(older.has_namespace());
  CHECK_FALSE(older.client.find(kube::kPods.in("adaptdl", "adaptdl-placeholder-1")));
}

TEST_CASE("uninstalled: jobs that were submitted meanwhile stay, and so does their definition") {
  Lab lab;
  lab.put_definition();
  const auto submit = [&lab] { lab.put(kTestJobs, "AdaptDLJob", "late", Json::object()); };
  CHECK_ERROR(lab.uninstall(false, Seconds(20), submit),
              "1 AdaptDLJob was submitted meanwhile, so the definition of jobs is kept");
  CHECK(lab.has_definition());
  CHECK(lab.client.find(kTestJobs.in("adaptdl", "late")));
  CHECK_ERROR(lab.uninstall(), "or give --keep-jobs");
  lab.uninstall(true);
  CHECK(lab.has_definition());
  lab.api.erase(kTestJobs.in("adaptdl", "late"));
  lab.uninstall();
  CHECK_FALSE(lab.has_definition());
  CHECK_FALSE(lab.has_namespace());
}

TEST_CASE("uninstalled: the definition waits until claims of deleted jobs are gone") {
  const kube::Resource claim = kube::kClaims.in("team", "adaptdl-pvc-1");
  Lab lab;
  lab.put_definition();
  const auto put_claim = [&](const Json& labels, const char* owner) {
    const Json owners = Json::array({{{"apiVersion", "adaptdl.petuum.com/v1"},
                                      {"kind", owner},
                                      {"name", "net"},
                                      {"uid", "0f8fad5b"}}});
    lab.api.put(
        kube::kClaims.in("team"),
        {{"apiVersion", "v1"},
         {"kind", "PersistentVolumeClaim"},
         {"metadata", {{"name", claim.name}, {"labels", labels}, {"ownerReferences", owners}}}});
  };
  for (const Json& labels : {Json{{kLabelAdaptdl, "true"}}, Json::object()}) {
    put_claim(labels, "AdaptDLJob");
    CHECK_ERROR(lab.uninstall(false, Seconds(0.01)), "volume claims of deleted jobs still exist");
    CHECK(lab.has_definition());
    lab.api.erase(claim);
  }
  put_claim(Json::object(), "Deployment");
  lab.uninstall();
  CHECK_FALSE(lab.has_definition());
  CHECK(lab.client.find(claim));
}

TEST_CASE("uninstalled: jobs that stay keep what their tokens are made from") {
  Lab lab;
  lab.put(kube::kSecrets, "Secret", kCertificateSecret);
  lab.uninstall(true);
  CHECK(lab.has_namespace());
  CHECK(lab.client.find(kube::kSecrets.in("adaptdl", kKeySecret)));
  CHECK_FALSE(lab.client.find(kube::kSecrets.in("adaptdl", kCertificateSecret)));
  CHECK_FALSE(lab.client.find(kube::kDeployments.in("adaptdl", kDeployment)));
  CHECK(remains_in(lab.client) == "adaptdl");
  lab.uninstall();
  CHECK_FALSE(lab.has_namespace());
  CHECK_FALSE(remains_in(lab.client));
}

}  // namespace adaptdl::kubernetes::installation_test
