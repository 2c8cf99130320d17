#include "core/kube/config.h"

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/system.h"
#include "core/formats/base64.h"
#include "core/formats/yaml_json.h"
#include "core/kube/kubeconfig.h"
#include "core/net/http_message.h"

namespace adaptdl::kube {
namespace {

constexpr size_t kMaxConfig = 16u << 20;
constexpr std::string_view kServiceAccount = "var/run/secrets/kubernetes.io/serviceaccount";

std::optional<std::string> process_environment(const char* name) {
  return environment_variable(name);
}

std::string path_at(const YamlNode& mapping, std::string_view key, const std::string& folder) {
  const std::string path = node_text(mapping, key);
  return path.empty() ? "" : absolute_path(path, folder);
}

// The field `KEY-data`, decoded.
std::string data_at(const YamlNode& mapping, const std::string& key) {
  const std::string text = node_text(mapping, key);
  return text.empty() ? "" : from_base64(text, node_at(mapping, key).place());
}

std::string proxy_at(const YamlNode& cluster) {
  const std::string proxy = node_text(cluster, "proxy-url");
  if (proxy.empty() || proxy.starts_with("http://") || proxy.starts_with("https://")) return proxy;
  // The proxy resolves names, because they may be known only in its network.
  if (proxy.starts_with("socks5://")) return "socks5h" + proxy.substr(6);
  if (proxy.starts_with("socks5h://")) return proxy;
  node_at(cluster, "proxy-url").refuse("must begin with http://, https:// or socks5://");
}

void read_cluster(Config& config, const YamlNode& cluster, const std::string& folder) {
  HttpClientOptions& connection = config.connection;
  config.server = node_text(cluster, "server");
  const bool secure = config.server.starts_with("https://");
  if (!secure && !config.server.starts_with("http://")) {
    const YamlNode server = node_at(cluster, "server");
    server.refuse(fmt::format("{}must begin with https:// or http://",
                              server.present() ? "" : "is missing; it "));
  }
  if (config.server.find('@') != std::string::npos) {
    node_at(cluster, "server").refuse("must not contain a user; set it under users");
  }
  while (config.server.ends_with('/')) config.server.pop_back();
  connection.server_name = node_text(cluster, "tls-server-name");
  connection.proxy = proxy_at(cluster);
  connection.authorities = data_at(cluster, "certificate-authority-data");
  if (connection.authorities.empty()) {
    config.authorities_file = path_at(cluster, "certificate-authority", folder);
  }
  connection.verify = !flag_at(cluster, "insecure-skip-tls-verify");
  if (connection.verify) return;
  if (!connection.authorities.empty() || !config.authorities_file.empty()) {
    node_at(cluster, "insecure-skip-tls-verify")
        .refuse("certificate-authority is also set, but would be ignored; remove one");
  }
  if (secure) {
    log_warning(
        "{}: the certificate of {} is not verified (insecure-skip-tls-verify): an attacker on the "
        "network can read and change everything, including your credentials",
        config.source, config.server);
  }
}

// The cluster information for a plugin (ExecCredential's spec.cluster).
Json cluster_for_plugin(const Config& config, const YamlNode& cluster) {
  const HttpClientOptions& connection = config.connection;
  Json told{{"server", config.server}, {"config", nullptr}};
  if (!connection.server_name.empty()) told["tls-server-name"] = connection.server_name;
  if (!connection.verify) told["insecure-skip-tls-verify"] = true;
  if (!connection.authorities.empty()) {
    told["certificate-authority-data"] = to_base64(connection.authorities);
  }
  const std::string proxy = node_text(cluster, "proxy-url");
  if (!proxy.empty()) told["proxy-url"] = proxy;
  for (const YamlNode& item : items_at(cluster, "extensions")) {
    if (node_text(item, "name") == "client.authentication.k8s.io/exec") {
      told["config"] = yaml_to_json(node_at(item, "extension"));
    }
  }
  return told;
}

ExecPlugin read_plugin(const YamlNode& exec, const std::string& folder) {
  ExecPlugin plugin;
  plugin.api_version = node_text(exec, "apiVersion");
  const bool v1 = plugin.api_version == "client.authentication.k8s.io/v1";
  if (!v1 && plugin.api_version != "client.authentication.k8s.io/v1beta1") {
    exec.refuse(
        fmt::format("apiVersion is {}; it must be client.authentication.k8s.io/v1 or /v1beta1: "
                    "update the program that writes this file, and let it write the entry again",
                    plugin.api_version.empty() ? "missing" : plugin.api_version));
  }
  plugin.command = node_text(exec, "command");
  if (plugin.command.empty()) exec.refuse("command is missing");
  if (plugin.command.find('/') != std::string::npos) {
    plugin.command = absolute_path(plugin.command, folder);
  }
  for (const YamlNode& item : items_at(exec, "args")) plugin.arguments.push_back(item.text());
  for (const YamlNode& item : items_at(exec, "env")) {
    const std::string name = node_text(item, "name");
    if (name.empty() || name.find('=') != std::string::npos) {
      item.refuse("name is not a variable name");
    }
    plugin.environment.emplace_back(name, node_text(item, "value"));
  }
  plugin.install_hint = node_text(exec, "installHint");
  const YamlNode mode = node_at(exec, "interactiveMode");
  if (mode.present() && mode.is_scalar()) {
    plugin.interaction =
        static_cast<ExecPlugin::Interaction>(mode.choice({"Never", "IfAvailable", "Always"}));
  } else if (v1) {
    exec.refuse("interactiveMode is missing; it must be Never, IfAvailable or Always");
  }
  return plugin;
}

HttpHeaders read_impersonation(const YamlNode& user) {
  HttpHeaders headers;
  const std::string as = node_text(user, "as"), uid = node_text(user, "as-uid");
  if (!as.empty()) headers.emplace_back("Impersonate-User", as);
  if (!uid.empty()) headers.emplace_back("Impersonate-Uid", uid);
  for (const YamlNode& group : items_at(user, "as-groups")) {
    headers.emplace_back("Impersonate-Group", group.text());
  }
  YamlMapping extra(node_at(user, "as-user-extra"), true);
  for (const std::string& key : extra.keys()) {
    for (const YamlNode& value : extra.find(key).list()) {
      headers.emplace_back("Impersonate-Extra-" + key, value.text());
    }
  }
  if (as.empty() && !headers.empty()) {
    user.refuse("as is missing; as-uid, as-groups and as-user-extra need it");
  }
  return headers;
}

User read_user(const Config& config, const YamlNode& user, const std::string& name,
               const std::string& folder, const YamlNode& cluster) {
  User result;
  result.name = name;
  const YamlNode provider = node_at(user, "auth-provider");
  if (provider.present() && provider.is_mapping()) {
    provider.refuse(
        fmt::format("the provider {} was removed from Kubernetes; configure the program that "
                    "replaces it under exec",
                    node_text(provider, "name")));
  }
  result.token = node_text(user, "token");
  result.token_file = path_at(user, "tokenFile", folder);
  result.login = node_text(user, "username");
  result.password = node_text(user, "password");
  result.certificate = data_at(user, "client-certificate-data");
  result.key = data_at(user, "client-key-data");
  if (result.certificate.empty()) {
    result.certificate_file = path_at(user, "client-certificate", folder);
  }
  if (result.key.empty()) result.key_file = path_at(user, "client-key", folder);
  const bool certified = !result.certificate.empty() || !result.certificate_file.empty();
  if (certified != (!result.key.empty() || !result.key_file.empty())) {
    user.refuse(certified ? "client-certificate is given, but no client-key"
                          : "client-key is given, but no client-certificate");
  }
  const bool bearer = !result.token.empty() || !result.token_file.empty();
  if (bearer && !result.login.empty()) {
    user.refuse("both a token and a username are given; remove one");
  }
  const YamlNode exec = node_at(user, "exec");
  if (exec.present() && exec.is_mapping()) {
    result.exec = read_plugin(exec, folder);
    if (flag_at(exec, "provideClusterInfo")) {
      result.exec->cluster = cluster_for_plugin(config, cluster);
    }
  }
  result.impersonation = read_impersonation(user);
  return result;
}

Config chosen(const Kubeconfig& files, const ConfigOptions& options) {
  Config config;
  config.context = options.context.empty() ? files.current_context : options.context;
  if (config.context.empty()) {
    if (files.contexts.empty()) fail("{}: no context is defined", files.source());
    fail(
        "{}: no context is selected: use --context, or set current-context; the first context is "
        "{}",
        files.source(), files.contexts.front().name);
  }
  config.source = fmt::format("context {} of {}", config.context, files.source());
  const KubeconfigEntry& context = files.find(files.contexts, config.context, "context");
  const std::string cluster_name = node_text(context.value, "cluster");
  const KubeconfigEntry& cluster = files.find(files.clusters, cluster_name, "cluster");
  config.name_space = node_text(context.value, "namespace");
  read_cluster(config, cluster.value, cluster.folder);
  const std::string user_name = node_text(context.value, "user");
  if (!user_name.empty()) {
    const KubeconfigEntry& user = files.find(files.users, user_name, "user");
    config.user = read_user(config, user.value, user_name, user.folder, cluster.value);
  }
  return config;
}

// The configuration of this pod's service account.
Config of_pod(const std::string& host, const std::string& port, const std::string& root) {
  const std::string folder = join_path(root, std::string(kServiceAccount));
  Config config;
  config.source = "this pod's service account";
  config.server = fmt::format("https://{}:{}", url_host(host), port);
  config.authorities_file = join_path(folder, "ca.crt");
  config.user.name = config.source;
  config.user.token_file = join_path(folder, "token");
  const std::string name_space = join_path(folder, "namespace");
  if (path_exists(name_space)) config.name_space = read_file(name_space, 4096);
  while (config.name_space.ends_with('\n')) config.name_space.pop_back();
  return config;
}

void read_authorities(Config& config) {
  if (config.authorities_file.empty()) return;
  config.connection.authorities = read_file(config.authorities_file, kMaxConfig);
  if (!config.user.exec || config.user.exec->cluster.is_null()) return;
  config.user.exec->cluster["certificate-authority-data"] =
      to_base64(config.connection.authorities);
}

// Reads the files that the options or the environment name; empty if there are none.
Kubeconfig read_files(const ConfigOptions& options, Environment environment) {
  Kubeconfig files;
  const auto add = [&](const std::string& file) {
    if (path_exists(file)) files.merge(read_file(file, kMaxConfig), file);
  };
  if (!options.kubeconfig.empty()) {
    files.merge(read_file(options.kubeconfig, kMaxConfig), options.kubeconfig);
  } else if (const auto listed = environment("KUBECONFIG")) {
    for (size_t begin = 0; begin <= listed->size();) {
      const size_t end = std::min(listed->find(':', begin), listed->size());
      if (end > begin) add(listed->substr(begin, end - begin));
      begin = end + 1;
    }
  } else if (const auto home = environment("HOME")) {
    add(join_path(*home, ".kube/config"));
  }
  return files;
}

Config finished(Config config, const ConfigOptions& options) {
  if (!options.name_space.empty()) config.name_space = options.name_space;
  if (config.name_space.empty()) config.name_space = "default";
  return config;
}

}  // namespace

Config load_config(const ConfigOptions& options) {
  return load_config(options, process_environment, "/");
}

Config load_config(const ConfigOptions& options, Environment environment, const std::string& root) {
  const Kubeconfig files = read_files(options, environment);
  if (!files.empty() || !options.kubeconfig.empty()) {
    Config config = finished(chosen(files, options), options);
    read_authorities(config);
    return config;
  }
  const auto host = environment("KUBERNETES_SERVICE_HOST");
  const auto port = environment("KUBERNETES_SERVICE_PORT");
  if (host && port && options.context.empty()) {
    Config config = finished(of_pod(*host, *port, root), options);
    read_authorities(config);
    return config;
  }
  const auto listed = environment("KUBECONFIG");
  fail(
      "no Kubernetes cluster is configured: {}; set --kubeconfig or KUBECONFIG to a kubeconfig "
      "file",
      listed ? fmt::format("KUBECONFIG={} names no file with a cluster", *listed)
             : "~/.kube/config does not exist or defines no cluster");
}

std::vector<ContextName> list_contexts(const ConfigOptions& options) {
  return list_contexts(options, process_environment);
}

std::vector<ContextName> list_contexts(const ConfigOptions& options, Environment environment) {
  const Kubeconfig files = read_files(options, environment);
  std::vector<ContextName> contexts;
  for (const KubeconfigEntry& entry : files.contexts) {
    ContextName context{.name = entry.name,
                        .name_space = node_text(entry.value, "namespace"),
                        .current = entry.name == files.current_context};
    const std::string cluster = node_text(entry.value, "cluster");
    for (const KubeconfigEntry& each : files.clusters) {
      if (each.name == cluster) context.server = node_text(each.value, "server");
    }
    contexts.push_back(std::move(context));
  }
  return contexts;
}

Config parse_config(std::string_view text, const std::string& file, const ConfigOptions& options) {
  Kubeconfig files;
  files.merge(text, file);
  return finished(chosen(files, options), options);
}

}  // namespace adaptdl::kube
