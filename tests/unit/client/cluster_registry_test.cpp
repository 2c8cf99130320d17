// Images of folders on their way to the registry inside a cluster: an API server that wants its
// credentials with every request, and a registry behind it that checks what comes.

#include "core/client/kubernetes/cluster_registry.h"

#include <cstdlib>
#include <doctest/doctest.h>
#include <sstream>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/client/image/project_image.h"
#include "core/oci/image_output.h"
#include "core/oci/media_types.h"
#include "tests/unit/client/kubernetes_choice.h"
#include "tests/unit/kube/fake_api.h"
#include "tests/unit/net/certificate.h"
#include "tests/unit/oci/fake_registry.h"

namespace adaptdl::client {
namespace {

constexpr const char* kToken = "t0ken";
const std::string kProxyTail = "/services/adaptdl-registry:registry/proxy";
const std::string kProxy = "/api/v1/namespaces/tools" + kProxyTail;
const kube::Resource kBindings{
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "", "", ""};

// TLS and a token in front of the fake API server; its service proxy.
class Cluster {
 public:
  explicit Cluster(bool relative_locations)
      : relative_(relative_locations),
        api_({{kube::kServices, "Service"},
              {kBindings, "ClusterRoleBinding", false, {"roleRef", "subjects"}}}),
        front_({.tls = HttpTls{known_.certificate, known_.key}, .max_body = 64u << 20},
               [this](const HttpServerRequest& request, const HttpReply& reply) {
                 reply.send(answer(request));
               }) {
    replace_file(folder_.file("ca"), known_.certificate);
  }

  ClusterChoice choice(const std::string& name_space = "default") const {
    return test_choice(
        folder_,
        fmt::format("server: 'https://localhost:{}', certificate-authority: ca", front_.port()),
        name_space, fmt::format("token: {}", kToken));
  }
  void add_service(const Json& port, const std::string& name = "adaptdl-registry",
                   Json labels = Json::object(), const std::string& name_space = "tools") {
    labels["app"] = "docker-registry";
    api_.put(kube::kServices.in(name_space),
             {{"apiVersion", "v1"},
              {"kind", "Service"},
              {"metadata", {{"name", name}, {"labels", std::move(labels)}}},
              {"spec", {{"ports", Json::array({port})}}}});
  }

  // Of the registry that `adaptdl install` makes, in tools.
  void add_pod(const std::string& name, Json metadata, Json status) {
    metadata["name"] = name;
    metadata["labels"] = {{"app", "docker-registry"}};
    status["phase"] = "Running";
    const Json container = {{"name", "push"},
                            {"ports", {{{"name", "push"}, {"containerPort", 5001}}}}};
    api_.put(kube::kPods.in("tools"), {{"metadata", std::move(metadata)},
                                       {"spec", {{"containers", {container}}}},
                                       {"status", std::move(status)}});
  }
  // The installation whose operator is there.
  void add_binding(const std::string& name_space) {
    const Json subject = {{"kind", "ServiceAccount"}, {"namespace", name_space}};
    api_.put(kBindings, {{"metadata", {{"name", "adaptdl"}}}, {"subjects", {subject}}});
  }

  oci::FakeRegistry registry;
  std::string refuse;  // whose requests that begin so are answered 403
  int strangers = 0, proxied = 0;

 private:
  HttpResponse answer(const HttpServerRequest& request) {
    if (request.header("authorization") != std::string("Bearer ") + kToken) {
      ++strangers;
      return kube::status_response(401, "Unauthorized", "Unauthorized");
    }
    if (!refuse.empty() && request.path.starts_with(refuse)) {
      return kube::status_response(403, "Forbidden", "services is forbidden: not for you");
    }
    const size_t tail = request.path.find(kProxyTail + "/");
    const bool to_registry = tail != std::string::npos;
    const std::string proxy = to_registry ? request.path.substr(0, tail) + kProxyTail : "";
    HttpRequest on;
    on.method = request.method;
    on.url = to_registry ? "http://" + registry.name() + request.path.substr(proxy.size())
                         : api_.config().server + request.path;
    if (!request.query.empty()) on.url += "?" + request.query;
    on.body = request.body;
    for (const auto& header : request.headers) {
      const std::string& name = header.first;
      if (name == "content-type" || name == "accept" || name == "content-range") {
        on.headers.push_back(header);
      }
    }
    HttpClient client;
    HttpResponse answer = client.send(on);
    if (to_registry) ++proxied;
    HttpHeaders headers;
    for (const auto& [name, value] : answer.headers) {
      if (name == "content-length" || name == "connection" || name == "date") continue;
      headers.emplace_back(name, name == "location" ? location(proxy, value) : value);
    }
    answer.headers = headers;
    return answer;
  }

  // The API server puts its prefix before a path, and leaves another host's address alone.
  std::string location(const std::string& proxy, const std::string& given) const {
    const size_t path = given.find("/v2/");
    return relative_ ? proxy + given.substr(path) : "http://registry.internal" + given.substr(path);
  }

  const bool relative_;
  const Certificate known_ = make_certificate();
  TemporaryDirectory folder_;
  kube::FakeApi api_;
  HttpServer front_;
};

const Json kNodePort = {{"name", "registry"}, {"port", 5000}, {"nodePort", 32000}};

const Json kForeignPort = {{"name", "registry"}, {"port", 5000}, {"nodePort", 31000}};

std::string problem(Cluster& lab, ExitCode code = ExitCode::error,
                    const std::string& name_space = "default") {
  KubernetesConnection cluster(lab.choice(name_space), false);
  try {
    find_cluster_registry(cluster, "go elsewhere");
  } catch (const Error& error) {
    CHECK(error.exit_code() == code);
    return error.what();
  }
  return "";
}

std::string found_registry(Cluster& lab, const std::string& name_space = "default") {
  KubernetesConnection cluster(lab.choice(name_space), false);
  return oci::to_string(find_cluster_registry(cluster, "go elsewhere").where);
}

bool says(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("an image goes through the API server to the cluster's registry, once") {
  const TemporaryDirectory project;
  replace_file(project.file("main.py"), std::string(100'000, 'x'));
  for (const bool relative : {true, false}) {
    CAPTURE(relative);
    Cluster lab(relative);
    lab.add_service({{"name", "other"}, {"port", 1}, {"nodePort", 30001}}, "docker-registry");
    lab.add_service(kNodePort);
    KubernetesConnection cluster(lab.choice(), false);
    const ClusterRegistry found = find_cluster_registry(cluster, "go elsewhere");
    CHECK(oci::to_string(found.where) == "localhost:32000/adaptdl-submit");
    const ProjectImage image{.folder = project.path(), .platform = {"linux", "amd64"}};
    const ImageTarget target{.where = found.where, .proxy = found.proxy, .quiet = true};
    const DeliveredImage made = deliver_project(image, target);
    CHECK(made.image == "localhost:32000/adaptdl-submit@" + made.reference.digest);
    CHECK(made.bytes_sent > 0);
    CHECK(made.reference.tag.starts_with("adaptdl-"));
    const oci::Manifest stored = lab.registry.manifest("adaptdl-submit", made.reference.tag);
    CHECK(stored.digest == made.reference.digest);
    CHECK(deliver_project(image, target).bytes_sent == 0);
    // As a base it is found on the same way.
    ProjectImage upon = image;
    upon.base = made.image;
    CHECK(deliver_project(upon, target).image != made.image);
    CHECK(lab.strangers == 0);
    CHECK(lab.proxied > 5);
    CHECK(lab.registry.problems() == std::vector<std::string>{});
  }
}

TEST_CASE("what a tool has built goes the same way, and to registries without TLS") {
  const TemporaryDirectory project, other_project, programs;
  const oci::Image built = oci::empty_image({"linux", "amd64"});
  oci::write_image_tar(built, programs.file("saved"), {"localhost", "any", "latest", ""});
  // docker save -o FILE NAME; it knows no push.
  replace_file(programs.file("docker"),
               fmt::format("#!/bin/sh\ncase $1 in\n"
                           "build) [ \"$2\" = --help ] || echo \"$7\" >> '{}';;\n"
                           "image) echo sha256:{};;\n"
                           "save) cp '{}' \"$3\";;\npush) exit 1;;\nesac\n",
                           programs.file("built"), std::string(64, 'a'), programs.file("saved")),
               0755);
  Cluster lab(true);
  lab.add_service(kNodePort);
  KubernetesConnection cluster(lab.choice(), false);
  const ClusterRegistry found = find_cluster_registry(cluster, "go elsewhere");
  const std::string path = environment_variable("PATH").value_or("");
  setenv("PATH", (programs.path() + ":" + path).c_str(), 1);
  const auto deliver = [](const TemporaryDirectory& folder, const ImageTarget& target) {
    replace_file(folder.file("Dockerfile"), "FROM scratch\nRUN anything\n");
    return deliver_project({.folder = folder.path(),
                            .dockerfile = folder.file("Dockerfile"),
                            .platform = {"linux", "amd64"}},
                           target);
  };
  const ImageTarget proxied{.where = found.where, .proxy = found.proxy, .quiet = true};
  const DeliveredImage made = deliver(project, proxied);
  deliver(project, proxied);
  deliver(other_project, proxied);
  const DeliveredImage plain =
      deliver(project, {.where = lab.registry.reference("net", "1"), .quiet = true});
  setenv("PATH", path.c_str(), 1);
  CHECK(lab.registry.manifest("net", "1").digest == plain.reference.digest);
  // The tool's store keeps one image of each project, and never gives one for the other.
  std::istringstream names(read_file(programs.file("built"), 10'000));
  std::vector<std::string> kept;
  for (std::string name; std::getline(names, name);) kept.push_back(name);
  REQUIRE(kept.size() == 4);
  CHECK(kept[0] == kept[1]);
  CHECK(kept[0] != kept[2]);
  CHECK(kept[0] == kept[3]);
  CHECK(made.image == "localhost:32000/adaptdl-submit@" + made.reference.digest);
  CHECK(lab.registry.manifest("adaptdl-submit", made.reference.tag).digest ==
        made.reference.digest);
  CHECK(lab.registry.problems() == std::vector<std::string>{});
}

TEST_CASE("a tool that can reach the registry pushes, and the same image gets the same tag") {
  const TemporaryDirectory project, programs;
  replace_file(project.file("Dockerfile"), "FROM scratch\nRUN anything\n");
  const std::string id(64, 'a'), digest = "sha256:" + std::string(64, 'd');
  replace_file(programs.file("docker"),
               fmt::format("#!/bin/sh\ncase \"$1 $4\" in\n*.Id*) echo sha256:{};;\n"
                           "*RepoDigests*) echo '[\"registry.example/me/app@{}\"]';;\nesac\n",
                           id, digest),
               0755);
  const std::string path = environment_variable("PATH").value_or("");
  setenv("PATH", (programs.path() + ":" + path).c_str(), 1);
  const ImageTarget target{.where = oci::Reference{"registry.example", "me/app", "", ""},
                           .quiet = true};
  for (int i = 0; i < 2; ++i) {
    const DeliveredImage made = deliver_project({.folder = project.path(),
                                                 .dockerfile = project.file("Dockerfile"),
                                                 .platform = {"linux", "amd64"}},
                                                target);
    CHECK(made.reference.tag == "adaptdl-" + id.substr(0, 20));
    CHECK(made.image == "registry.example/me/app@" + digest);
  }
  setenv("PATH", path.c_str(), 1);
}

TEST_CASE("a base that the registry does not give is refused access, not missing") {
  oci::FakeRegistry registry;
  registry.answer_next("GET /v2/app/manifests", {{403, {}, ""}});
  ImageProgress silent(true);
  try {
    base_image(registry.name() + "/app:training", {"linux", "amd64"}, {.quiet = true}, silent);
    FAIL_CHECK("no Error");
  } catch (const Error& error) {
    CHECK(error.exit_code() == ExitCode::auth);
  }
}

TEST_CASE("what is wrong with a cluster's registry is told with a way out") {
  Cluster lab(true);
  std::string told = problem(lab);
  CHECK(says(told, "has no registry of its own"));
  CHECK(says(told, "go elsewhere"));
  // One that nodes cannot reach is none.
  lab.add_service({{"name", "registry"}, {"port", 5000}});
  CHECK(says(problem(lab), "has no registry of its own"));
  lab.add_service(kNodePort);
  CHECK(problem(lab) == "");
  lab.refuse = kProxy;
  told = problem(lab, ExitCode::auth);
  CHECK(says(told, "not for you"));
  CHECK(says(told, "go elsewhere"));
  // Who may not list all namespaces' services is looked for in the own one.
  lab.refuse = "/api/v1/services";
  told = problem(lab, ExitCode::auth);
  CHECK(says(told, "has no registry of its own"));
  CHECK(says(told,
             "the permission to list Services, needed in the operator's namespace, is "
             "missing in all namespaces. Otherwise go elsewhere"));
  lab.refuse = "";
  lab.registry.answer_next("GET /v2/", {{503, {}, "busy"}});
  CHECK(says(problem(lab), "503"));
  lab.registry.answer_next("GET /v2/", {{401, {}, ""}});
  CHECK(says(problem(lab, ExitCode::auth), "wants credentials"));
}

TEST_CASE("of several registries, images go to that in the operator's namespace") {
  Cluster lab(true);
  lab.add_service(kForeignPort, "adaptdl-registry", {}, "aaa");
  lab.add_service(kNodePort);
  const std::string told = problem(lab);
  CHECK(says(told, "several Services adaptdl-registry, in the namespaces aaa, tools"));
  CHECK(says(told, "go elsewhere"));
  SUBCASE("as its binding says") {
    lab.add_binding("tools");
    CHECK(found_registry(lab) == "localhost:32000/adaptdl-submit");
    // Which does not say so to everybody.
    lab.refuse = "/apis/rbac.authorization.k8s.io";
    CHECK(says(problem(lab), "several Services"));
  }
  SUBCASE("else the usual one") {
    lab.add_service({{"name", "registry"}, {"port", 5000}, {"nodePort", 30500}}, "adaptdl-registry",
                    {}, "adaptdl");
    CHECK(found_registry(lab) == "localhost:30500/adaptdl-submit");
  }
}

TEST_CASE("who may not list all Services gets the operator's registry") {
  Cluster lab(true);
  lab.refuse = "/api/v1/services";
  lab.add_service(kForeignPort, "adaptdl-registry", {}, "team-a");
  CHECK(found_registry(lab, "team-a") == "localhost:31000/adaptdl-submit");
  SUBCASE("in its usual namespace") {
    lab.add_service(kNodePort, "adaptdl-registry", {}, "adaptdl");
  }
  SUBCASE("in another") {
    lab.add_service(kNodePort);
    lab.add_binding("tools");
  }
  CHECK(found_registry(lab, "team-a") == "localhost:32000/adaptdl-submit");
}

TEST_CASE("who may not see the pod of a registry that takes images only there is told so") {
  Cluster lab(true);
  lab.add_service(kNodePort, "adaptdl-registry", {{"adaptdl/installed-by", "tools"}});
  lab.refuse = "/api/v1/namespaces/tools/pods";
  const std::string told = problem(lab, ExitCode::auth);
  CHECK(says(told, "list pods and to get and create pods/portforward in namespace tools"));
  CHECK(lab.proxied == 0);
}

TEST_CASE("a registry is written to in a pod that is ready, and not about to go") {
  Cluster lab(true);
  lab.add_service(kNodePort, "adaptdl-registry", {{"adaptdl/installed-by", "tools"}});
  const Json ready = {{"conditions", {{{"type", "Ready"}, {"status", "True"}}}}};
  lab.add_pod("a", {{"deletionTimestamp", "2026-01-31T08:05:09Z"}}, ready);
  lab.add_pod("b", Json::object(), Json::object());
  // The fake forwards no ports.
  std::string told = problem(lab);
  CHECK(says(told, "port 5001 of pods/b in tools does not answer"));
  CHECK_FALSE(says(told, "permission"));
  lab.add_pod("c", Json::object(), ready);
  CHECK(says(problem(lab), "port 5001 of pods/c in tools does not answer"));
  lab.refuse = "/api/v1/namespaces/tools/pods/c/portforward";
  told = problem(lab, ExitCode::auth);
  CHECK(says(told, "needs the permission to get and create pods/portforward in namespace tools"));
}

}  // namespace adaptdl::client
