#include "core/client/known_clusters.h"

#include <cstdio>
#include <cstdlib>
#include <doctest/doctest.h>
#include <optional>

#include "core/base/files.h"

namespace adaptdl::client {
namespace {

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

std::string kubeconfig(const std::string& current) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: " + current +
         "\nclusters:\n"
         "- {name: here, cluster: {server: 'https://127.0.0.1:1'}}\n"
         "- {name: there, cluster: {server: 'https://127.0.0.1:2'}}\n"
         "contexts:\n"
         "- {name: lab, context: {cluster: here, user: me}}\n"
         "- {name: cloud, context: {cluster: there, user: me}}\n"
         "users:\n"
         "- {name: me, user: {token: secret}}\n";
}

TEST_CASE("a cluster in which AdaptDL was found is hinted at once") {
  const TemporaryDirectory folder;
  const Variable state("XDG_STATE_HOME", folder.path());
  const Variable file("KUBECONFIG", folder.file("config"));
  replace_file(folder.file("config"), kubeconfig("lab"), 0600);
  CHECK(cluster_hint().empty());

  remember_cluster(kube::load_config({}));
  replace_file(folder.file("config"), kubeconfig("cloud"), 0600);
  CHECK(cluster_hint().empty());  // another one

  replace_file(folder.file("config"), kubeconfig("lab"), 0600);
  CHECK(cluster_hint().find("context lab has AdaptDL") != std::string::npos);
  CHECK(cluster_hint().empty());
  remember_cluster(kube::load_config({}));
  CHECK(cluster_hint().empty());
}

TEST_CASE("a damaged list of clusters, or no kubeconfig, is no trouble") {
  const TemporaryDirectory folder;
  const Variable state("XDG_STATE_HOME", folder.path());
  const Variable file("KUBECONFIG", folder.file("config"));
  replace_file(folder.file("config"), kubeconfig("lab"), 0600);
  const kube::Config config = kube::load_config({});
  make_directories(folder.file("adaptdl"), 0700);
  for (const char* text : {"", "[", "[]", "7", R"({"https://127.0.0.1:1": 7})"}) {
    replace_file(folder.file("adaptdl/clusters.json"), text, 0600);
    CHECK(cluster_hint().empty());
    remember_cluster(config);
  }
  std::remove(folder.file("config").c_str());
  CHECK(cluster_hint().empty());
}

}  // namespace
}  // namespace adaptdl::client
