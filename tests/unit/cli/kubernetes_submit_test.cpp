// `adaptdl submit` of a folder: to a real registry, and the fake of an API server.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "cli/commands/submit_options.h"
#include "cli/frame/names.h"
#include "cli/frame/parse.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/client/kubernetes/submit.h"
#include "core/oci/image.h"
#include "tests/unit/client/kubernetes_choice.h"
#include "tests/unit/kube/fake_api.h"
#include "tests/unit/oci/docker_registry.h"

namespace adaptdl::cli {
namespace {

std::map<std::string, std::string> environment;

class Lab {
 public:
  Lab()
      : api({{kAdaptDLJobs, "AdaptDLJob"},
             {kube::kClaims, "PersistentVolumeClaim"},
             {kube::kNodes, "Node"},
             {kube::kStorageClasses, "StorageClass", false, {"provisioner"}}}) {
    cluster.emplace(test_choice(folder_, "server: " + api.config().server), false);
    replace_file(project.file("adaptdljob.yaml"),
                 "apiVersion: adaptdl.petuum.com/v1\n"
                 "kind: AdaptDLJob\n"
                 "metadata: {generateName: net-}\n"
                 "spec: {template: {spec: {containers: [{name: main, command: [./main.py]}]}}}\n");
    replace_file(project.file("main.py"), std::string(100'000, 'x'));
  }

  Submitted submit(std::vector<std::string> words) {
    std::vector<std::string> line = {"submit", project.path(), "--quiet"};
    line.insert(line.end(), words.begin(), words.end());
    const auto lookup = [](const char* name) -> const char* {
      const auto found = environment.find(name);
      return found == environment.end() ? nullptr : found->second.c_str();
    };
    const Arguments arguments = parse(line, lookup).arguments;
    return kubernetes_job_request(*cluster, resolve_submission(submit_options(arguments)))->send();
  }
  Json job(const std::string& name) { return cluster->client().get(cluster->jobs(name)); }
  std::vector<Json> claims() {
    return cluster->client().list(kube::kClaims.in(cluster->name_space())).items;
  }

  kube::FakeApi api;
  std::optional<KubernetesConnection> cluster;
  const TemporaryDirectory project;

 private:
  const TemporaryDirectory folder_;
};

}  // namespace

TEST_CASE("a folder becomes an image in a registry, and a job that runs it") {
  const oci::DockerRegistry registry;
  Lab lab;
  const std::string repository = oci::to_string(registry.reference("team/net"));
  environment = {{"ADAPTDL_SUBMIT_REPO", repository}, {"ADAPTDL_SUBMIT_REPO_CREDS", "puller"}};
  const Submitted done = lab.submit({"--base", "scratch"});
  const Json job = lab.job(done.name);
  const Json pod = job["spec"]["template"]["spec"];
  const std::string image = pod["containers"][0]["image"];
  REQUIRE(image.starts_with(repository + "@sha256:"));
  CHECK(pod["imagePullSecrets"] == Json::array({{{"name", "puller"}}}));
  // Its bytes, as the registry has verified and stored them.
  const Json manifest = Json::parse(registry.stored(image.substr(image.find('@') + 1)));
  REQUIRE(manifest["layers"].size() == 1);
  CHECK(registry.stored(manifest["layers"][0]["digest"]).size() == manifest["layers"][0]["size"]);
  const Json config = Json::parse(registry.stored(manifest["config"]["digest"]));
  CHECK(config["config"]["WorkingDir"] == "/adaptdl-app");
  // The claim is the job's.
  const std::vector<Json> claims = lab.claims();
  REQUIRE(claims.size() == 1);
  CHECK(claims[0]["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]);
  CHECK(claims[0]["metadata"]["labels"] ==
        Json({{"adaptdl", "true"}, {"adaptdl/job", job["metadata"]["name"]}}));
  // The same folder is the same image; another is another.
  CHECK(lab.job(lab.submit({"--base", "scratch"})
                    .name)["spec"]["template"]["spec"]["containers"][0]["image"] == image);
  replace_file(lab.project.file("main.py"), "print()");
  const Json later = lab.job(lab.submit({"--base", image}).name);
  CHECK(later["spec"]["template"]["spec"]["containers"][0]["image"] != image);
}

TEST_CASE("an image is for the processors of the nodes") {
  const oci::DockerRegistry registry;
  Lab lab;
  environment = {{"ADAPTDL_SUBMIT_REPO", oci::to_string(registry.reference("net"))}};
  const auto add_node = [&](const std::string& name, const std::string& architecture) {
    lab.api.put(
        kube::kNodes,
        {{"apiVersion", "v1"},
         {"kind", "Node"},
         {"metadata", {{"name", name}, {"labels", {{"kubernetes.io/arch", architecture}}}}},
         {"status", {{"allocatable", {{"cpu", "8"}, {"memory", "8Gi"}, {"pods", "100"}}}}}});
  };
  const auto submitted = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--base", "scratch"});
    const Json pod = lab.job(lab.submit(words).name)["spec"]["template"]["spec"];
    const std::string image = pod["containers"][0]["image"];
    const Json manifest = Json::parse(registry.stored(image.substr(image.find('@') + 1)));
    const Json config = Json::parse(registry.stored(manifest["config"]["digest"]));
    return std::pair(config["architecture"].get<std::string>(), pod.value("nodeSelector", Json()));
  };
  add_node("a", "riscv64");
  CHECK(submitted({}) == std::pair<std::string, Json>("riscv64", nullptr));
  // Of several one is chosen, and the job kept to it.
  add_node("b", "s390x");
  CHECK_THROWS_WITH_AS(submitted({}), doctest::Contains("riscv64, s390x"), UsageError);
  CHECK(submitted({"--platform", "linux/s390x"}) ==
        std::pair<std::string, Json>("s390x", {{"kubernetes.io/arch", "s390x"}}));
  // Who may not list nodes has images of this machine's.
  lab.api.set_fault([](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    if (!request.path.starts_with("/api/v1/nodes")) return {};
    return kube::status_response(403, "Forbidden", "nodes is forbidden");
  });
  CHECK(submitted({}) == std::pair<std::string, Json>(oci::this_platform().architecture, nullptr));
}

TEST_CASE("what fails leaves nothing behind") {
  const oci::DockerRegistry registry;
  Lab lab;
  environment = {{"ADAPTDL_SUBMIT_REPO", oci::to_string(registry.reference("net"))}};
  CHECK_THROWS_WITH_AS(lab.submit({}), doctest::Contains("name one with --base"), Error);
  lab.api.set_fault([](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    if (request.method != "POST" || request.path.find("adaptdljobs") == std::string::npos)
      return {};
    return kube::status_response(422, "Invalid", "spec.maxReplicas: no");
  });
  CHECK_THROWS_WITH_AS(lab.submit({"--base", "scratch"}), doctest::Contains("maxReplicas"), Error);
  CHECK(lab.claims().empty());
  const HttpServer refusing({}, [](const HttpServerRequest&, const HttpReply& reply) {
    reply.send(text_response(403, "not you"));
  });
  const std::string refuser = fmt::format("127.0.0.1:{}", refusing.port());
  environment = {{"ADAPTDL_SUBMIT_REPO", refuser + "/net"}};
  CHECK_THROWS_WITH_AS(lab.submit({"--base", "scratch"}), doctest::Contains(refuser.c_str()),
                       Error);
  CHECK(lab.claims().empty());
}

// Whether the request makes a job.
bool makes_job(const HttpServerRequest& request) {
  return request.method == "POST" && request.path.find("adaptdljobs") != std::string::npos;
}

TEST_CASE("a job whose making nobody has heard the end of is found, or cleared away") {
  Lab lab;
  environment = {};
  bool stores = true;
  lab.api.set_fault([&](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    if (!makes_job(request)) return {};
    Json job = Json::parse(request.body);
    job["metadata"]["name"] = "net-abcde";
    job["metadata"].erase("generateName");
    if (stores) lab.api.put(lab.cluster->jobs(), job);
    return kube::status_response(504, "Timeout", "the webhook has not answered");
  });
  CHECK(lab.submit({"--image", "repo/net"}).name == "net-abcde");
  REQUIRE(lab.claims().size() == 1);
  CHECK(lab.claims()[0]["metadata"]["ownerReferences"][0]["name"] == "net-abcde");
  stores = false;
  CHECK_THROWS_WITH_AS(lab.submit({"--image", "repo/net"}), doctest::Contains("webhook"), Error);
  CHECK(lab.claims().size() == 1);
}

TEST_CASE("a volume that cannot be given to its job, or removed, is told of") {
  Lab lab;
  environment = {};
  lab.api.set_fault([&](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    if (request.method != "PATCH" && request.method != "DELETE" && !makes_job(request)) return {};
    if (makes_job(request) && request.body.find("repo/bad") == std::string::npos) return {};
    return kube::status_response(403, "Forbidden", "not you: " + request.method);
  });
  const std::string name = lab.submit({"--image", "repo/net"}).name;
  CHECK(lab.job(name)["metadata"]["name"] == name);
  CHECK(lab.claims().size() == 1);
  CHECK_THROWS_WITH_AS(lab.submit({"--image", "repo/bad"}), doctest::Contains("not you: POST"),
                       Error);
  CHECK_THROWS_WITH_AS(lab.submit({"--image", "repo/bad"}),
                       doctest::Contains("adaptdl cannot remove it"), Error);
}

TEST_CASE(
    "a job file of this machine keeps its size of checkpoints, and cannot take its data along") {
  Lab lab;
  environment = {};
  const auto file = [&](const std::string& more) {
    replace_file(lab.project.file("adaptdljob.yaml"), "command: [./main.py]\n" + more);
  };
  file("checkpoint: {size: 10Gi}\n");
  lab.submit({"--image", "repo/net"});
  const auto size = [&] {
    return lab.claims().back()["spec"]["resources"]["requests"]["storage"].get<std::string>();
  };
  CHECK(size() == "10737418240");
  file("data: [images]\n");
  CHECK_THROWS_WITH_AS(lab.submit({"--image", "repo/net"}), doctest::Contains("data: images:"),
                       Error);
}

TEST_CASE("settings do not go with a job file that says what its container runs") {
  Lab lab;
  environment = {};
  CHECK_THROWS_WITH_AS(lab.submit({"--image", "repo/net", "--set", "epochs=3"}),
                       doctest::Contains("--set"), UsageError);
}

}  // namespace adaptdl::cli

int main(int argc, char** argv) {
  return adaptdl::oci::with_docker_registry([&] { return doctest::Context(argc, argv).run(); });
}
