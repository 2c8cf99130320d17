#pragma once

// Where the API server is, and who asks: from kubeconfig files, or from a pod's service account.
// https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/kube/exec_plugin.h"
#include "core/net/http.h"

namespace adaptdl::kube {

// What the command line says; "" for what it does not.
struct ConfigOptions {
  std::string kubeconfig;  // this file alone; else $KUBECONFIG's files, else ~/.kube/config
  std::string context;     // else the files' current-context
  std::string name_space;  // else the context's, else "default"
};

// A user of a kubeconfig. Files are read when they are needed, by Credentials, since they change.
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

// In a pod, if no kubeconfig file is named or found, its service account. Files of $KUBECONFIG that
// do not exist are skipped; of each cluster, user and context the first one found counts, as of
// current-context. Paths in a file start at its folder. A cluster whose certificate is not to be
// checked is warned of in the log. Throws Error "FILE:LINE: FIELD: ..." for what is wrong in the
// chosen context, cluster and user, and says what to do when there is no configuration.
Config load_config(const ConfigOptions& options);

// As load_config, for tests: `environment` gives a variable's value or nothing; a pod's files are
// below `root`.
using Environment = std::optional<std::string> (*)(const char* name);
Config load_config(const ConfigOptions& options, Environment environment, const std::string& root);

// What one kubeconfig text says of the chosen context, without reading any file. `file` names it in
// messages, and its folder begins the paths in it.
Config parse_config(std::string_view text, const std::string& file, const ConfigOptions& options);

// What ConfigOptions::context could name, in the files' order.
struct ContextName {
  std::string name, server, name_space;  // "" for what the files do not say
  bool current = false;
};

// None if there is no kubeconfig. Throws Error for a file that is none.
std::vector<ContextName> list_contexts(const ConfigOptions& options);
// The same, for tests.
std::vector<ContextName> list_contexts(const ConfigOptions& options, Environment environment);

}  // namespace adaptdl::kube
