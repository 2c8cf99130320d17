#include "core/kube/config.h"

#include "core/base/files.h"
#include "core/formats/base64.h"
#include "tests/unit/base/expect_error.h"

namespace adaptdl::kube {
namespace {

std::string kubeconfig(const std::string& cluster, const std::string& user,
                       const std::string& more = "") {
  return fmt::format(R"(
apiVersion: v1
kind: Config
preferences: {{}}
current-context: here
clusters:
- name: c
  cluster: {{{}}}
contexts:
- name: here
  context: {{cluster: c, user: u{}}}
users:
- name: u
  user: {{{}}}
)",
                     cluster, more, user);
}

Config parsed(const std::string& cluster, const std::string& user, const std::string& more = "") {
  return parse_config(kubeconfig(cluster, user, more), "/etc/k/config", {});
}

// The environment of the test at hand.
std::vector<std::pair<std::string, std::string>> variables;
std::optional<std::string> variable(const char* name) {
  for (const auto& [known, value] : variables) {
    if (known == name) return value;
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("a kubeconfig's current context says all") {
  const std::string data = to_base64("PEM");
  const Config config =
      parsed("server: 'https://a:6443/k8s/', certificate-authority-data: " + data +
                 ", tls-server-name: api.test, proxy-url: 'socks5://p:1080'",
             "token: abc, client-certificate: certs/me.crt, client-key-data: " + data +
                 ", as: boss, as-groups: [x, y], as-user-extra: {reason: [why]}",
             ", namespace: team");
  CHECK(config.server == "https://a:6443/k8s");
  CHECK(config.name_space == "team");
  CHECK(config.context == "here");
  CHECK(config.connection.authorities == "PEM");
  CHECK(config.connection.server_name == "api.test");
  CHECK(config.connection.proxy == "socks5h://p:1080");
  CHECK(config.connection.verify);
  CHECK(config.user.token == "abc");
  CHECK(config.user.certificate_file == "/etc/k/certs/me.crt");
  CHECK(config.user.key == "PEM");
  CHECK(config.user.key_file.empty());
  CHECK(config.user.impersonation == HttpHeaders{{"Impersonate-User", "boss"},
                                                 {"Impersonate-Group", "x"},
                                                 {"Impersonate-Group", "y"},
                                                 {"Impersonate-Extra-reason", "why"}});
}

TEST_CASE("null fields count as missing, and inline data wins over files") {
  const Config config = parsed(
      "server: https://a, certificate-authority: ca.crt, certificate-authority-data: UEVN, "
      "proxy-url: null, tls-server-name:",
      "token: ~, tokenFile: t, client-key:, exec: null, as-groups: null");
  CHECK(config.connection.authorities == "PEM");
  CHECK(config.authorities_file.empty());
  CHECK(config.user.token_file == "/etc/k/t");
  CHECK(config.name_space == "default");
  CHECK(parse_config("{\"current-context\": \"x\", \"contexts\": [{\"name\": \"x\", \"context\": "
                     "{\"cluster\": \"y\"}}], \"users\": null, \"clusters\": [{\"name\": \"y\", "
                     "\"cluster\": {\"server\": \"http://h\"}}]}",
                     "j", {})
            .server == "http://h");
}

TEST_CASE("what is wrong in a kubeconfig is named with its place") {
  const auto cluster = [](const std::string& text) { return parsed(text, ""); };
  const auto user = [](const std::string& text) { return parsed("server: https://a", text); };
  CHECK_ERROR(
      cluster(""),
      "/etc/k/config:8: clusters.0.cluster.server: is missing; it must begin with https://");
  CHECK_ERROR(cluster("server: a:1"), "/etc/k/config:8: clusters.0.cluster.server: must begin");
  CHECK_ERROR(cluster("server: https://me:secret@a"), "set it under users");
  CHECK_ERROR(cluster("server: https://a, proxy-url: 'ftp://x'"), "proxy-url: must begin with");
  CHECK_ERROR(cluster("server: https://a, insecure-skip-tls-verify: yes"), "true or false");
  CHECK_ERROR(cluster("server: https://a, insecure-skip-tls-verify: true, "
                      "certificate-authority-data: UEVN"),
              "remove one");
  CHECK_ERROR(cluster("server: https://a, certificate-authority-data: 'x y'"),
              "certificate-authority-data: not valid base64: it is truncated");
  CHECK_ERROR(user("auth-provider: {name: gcp}"), "the provider gcp was removed");
  CHECK_ERROR(user("client-certificate: a"), "but no client-key");
  CHECK_ERROR(user("client-key: a"), "but no client-certificate");
  CHECK_ERROR(user("token: a, username: b"), "remove one");
  CHECK_ERROR(user("as-groups: [a]"), "as is missing");
  CHECK_ERROR(user("token: [a]"), "token: is a list; it must be text");
  CHECK_ERROR(user("exec: {command: x}"), "apiVersion is missing");
  CHECK_ERROR(user("exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}"),
              "v1alpha1; it must be");
  CHECK_ERROR(user("exec: {apiVersion: client.authentication.k8s.io/v1, command: x}"),
              "interactiveMode is missing");
  CHECK_ERROR(user("exec: {apiVersion: client.authentication.k8s.io/v1beta1}"),
              "command is missing");
  CHECK_ERROR(parse_config("- a", "f", {}), "f:1: is not a kubeconfig");
  CHECK_ERROR(parse_config("a: [", "f", {}), "f:1: not valid YAML");
  CHECK_ERROR(parse_config(kubeconfig("server: https://a", ""), "f", {.context = "there"}),
              "f: context there not found; available: here");
  CHECK_ERROR(parse_config("contexts: [{name: a, context: {}}]", "f", {}),
              "use --context, or set current-context; the first context is a");
  CHECK_ERROR(parse_config("contexts: [{name: a, context: {cluster: b}}]", "f", {.context = "a"}),
              "cluster b not found; none is defined");
  CHECK_ERROR(parse_config("{contexts: [{name: a, context: {cluster: b, user: c}}], "
                           "clusters: [{name: b, cluster: {server: 'https://a'}}]}",
                           "f", {.context = "a"}),
              "user c not found");
}

TEST_CASE("of several files the first that names something counts") {
  const TemporaryDirectory folder;
  make_directories(folder.file("one"));
  write_file_atomic(folder.file("one/config"), R"(
clusters: [{name: c, cluster: {server: 'https://first', certificate-authority: ca.pem}}]
contexts: [{name: x, context: {cluster: c, user: u, namespace: n}}]
)");
  write_file_atomic(folder.file("one/ca.pem"), "CA");
  write_file_atomic(folder.file("two"), R"(
current-context: x
clusters: [{name: c, cluster: {server: 'https://second'}}, {name: d, cluster: {server: 'https://d'}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: y, context: {cluster: d, user: u}}]
)");
  variables = {{"KUBECONFIG", ":" + folder.file("none") + ":" + folder.file("one/config") + ":" +
                                  folder.file("two")},
               {"KUBERNETES_SERVICE_HOST", "10.0.0.1"},
               {"KUBERNETES_SERVICE_PORT", "443"}};
  const auto load = [](const ConfigOptions& options) {
    return load_config(options, variable, "/");
  };
  Config config = load({});
  CHECK(config.server == "https://first");
  CHECK(config.connection.authorities == "CA");
  CHECK(config.user.token == "t");
  CHECK(config.name_space == "n");
  config = load({.context = "y", .name_space = "mine"});
  CHECK(config.server == "https://d");
  CHECK(config.name_space == "mine");
  const std::vector<ContextName> contexts = list_contexts({}, variable);
  REQUIRE(contexts.size() == 2);
  CHECK(contexts[0].name == "x");
  CHECK(contexts[0].current);
  CHECK(contexts[0].server == "https://first");
  CHECK(contexts[0].name_space == "n");
  CHECK(contexts[1].name == "y");
  CHECK_FALSE(contexts[1].current);
  CHECK(contexts[1].server == "https://d");
  CHECK_ERROR(load({.kubeconfig = folder.file("one/config"), .context = "x"}), "user u not found");
  CHECK_ERROR(load({.kubeconfig = folder.file("none")}), folder.file("none"));

  make_directories(folder.file(".kube"));
  variables = {{"HOME", folder.path()}};
  CHECK_ERROR(load({}), "no Kubernetes cluster is configured: ~/.kube/config does not exist");
  CHECK(list_contexts({}, variable).empty());
  write_file_atomic(folder.file(".kube/config"), read_file(folder.file("two"), 4096));
  CHECK(load({.context = "y"}).server == "https://d");
  variables.emplace_back("KUBECONFIG", folder.file("none"));
  CHECK_ERROR(load({}), "names no file with a cluster");
}

TEST_CASE("in a pod its service account is used") {
  const TemporaryDirectory root;
  const std::string account = root.file("var/run/secrets/kubernetes.io/serviceaccount");
  make_directories(account);
  variables = {{"KUBERNETES_SERVICE_HOST", "fd00::1"}, {"KUBERNETES_SERVICE_PORT", "443"}};
  CHECK_ERROR(load_config({}, variable, root.path()), "ca.crt");
  write_file_atomic(account + "/ca.crt", "CA");
  write_file_atomic(account + "/namespace", "jobs");
  const Config config = load_config({}, variable, root.path());
  CHECK(config.server == "https://[fd00::1]:443");
  CHECK(config.name_space == "jobs");
  CHECK(config.connection.authorities == "CA");
  CHECK(config.user.token_file == account + "/token");
  CHECK(load_config({.name_space = "other"}, variable, root.path()).name_space == "other");
  CHECK_ERROR(load_config({.context = "x"}, variable, root.path()), "no Kubernetes cluster");
}

}  // namespace adaptdl::kube
