#pragma once

// The API server's address and the user's identity: from kubeconfig files, or from a pod's service
// account. https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/kube/exec_plugin.h"
#include "core/net/http.h"

namespace adaptdl::kube {

// Settings of the command line; "" if not given.
struct ConfigOptions {
  std::string kubeconfig;  // this file alone; else $KUBECONFIG's files, else ~/.kube/config
  std::string context;     // else the files' current-context
  std::string name_space;  // else the context's, else "default"
};

// A user of a kubeconfig. Credentials reads the files when they are needed, because they change.
struct User {
  std::string name;
  std::string token, token_file;  // the file wins
  std::string login, password;    // of basic authentication
  std::string certificate, key;   // PEM; win over the files
  std::string certificate_file, key_file;
  std::optional<ExecPlugin> exec;
  HttpHeaders impersonation;  // Impersonate-User and so on
};

struct Config {
  std::string source;   // for messages: the context and its file, or the pod's service account
  std::string context;  // "" in a pod
  std::string server;   // "https://HOST:PORT/PATH", without a slash at the end
  std::string name_space;
  HttpClientOptions connection;  // certificate and key are the user's, so empty here
  std::string authorities_file;  // read into connection.authorities by load_config; "": none
  User user;
};

// Loads the configuration; in a pod without a kubeconfig file, from its service account. Skips
// files of $KUBECONFIG that do not exist; the first definition of each cluster, user and context,
// and of current-context, counts. Paths in a file are relative to its folder. Logs a warning if the
// cluster's certificate is not verified. Throws Error "FILE:LINE: FIELD: ..." for a fault in the
// selected context, cluster or user, and an Error with advice if there is no configuration.
Config load_config(const ConfigOptions& options);

// As load_config, for tests: `environment` gives a variable's value or nothing; a pod's files are
// below `root`.
using Environment = std::optional<std::string> (*)(const char* name);
Config load_config(const ConfigOptions& options, Environment environment, const std::string& root);

// Reads the selected context from one kubeconfig text, without reading any file. `file` names it in
// messages; paths in it are relative to the folder of `file`.
Config parse_config(std::string_view text, const std::string& file, const ConfigOptions& options);

// A context that ConfigOptions::context can name. list_contexts() keeps the files' order.
struct ContextName {
  std::string name, server, name_space;  // "" if not in the files
  bool current = false;
};

// Empty if there is no kubeconfig. Throws Error for an invalid file.
std::vector<ContextName> list_contexts(const ConfigOptions& options);
// The same, for tests.
std::vector<ContextName> list_contexts(const ConfigOptions& options, Environment environment);

}  // namespace adaptdl::kube
