#pragma once

// Programs that hand out credentials: `exec` of a kubeconfig's user.
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/formats/json.h"

namespace adaptdl::kube {

struct ExecPlugin {
  enum class Interaction { never, if_available, always };

  std::string api_version;  // client.authentication.k8s.io/v1 or /v1beta1
  std::string command;      // in PATH, or an absolute path
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's
  std::string install_hint;
  Interaction interaction = Interaction::if_available;
  Json cluster;  // what the program is told of the cluster; null: it does not want to know
};

// At least a token, or certificate and key.
struct ExecCredential {
  std::string token;
  std::string certificate, key;                                  // PEM
  std::optional<std::chrono::system_clock::time_point> expires;  // none: until it is refused
};

// Runs it; it may talk to the user over standard input, where that is a terminal, and standard
// error. `user` is for messages. Throws Error if it cannot be run (with its installHint), fails, or
// gives an answer of another version or kind.
ExecCredential run_exec_plugin(const ExecPlugin& plugin, const std::string& user);

// Reads what it printed.
ExecCredential parse_exec_credential(std::string_view text, const ExecPlugin& plugin,
                                     const std::string& what);

}  // namespace adaptdl::kube
