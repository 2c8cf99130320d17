#pragma once

// Credential plugins: `exec` of a kubeconfig's user.
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
  Json cluster;  // cluster information for the plugin; null: it does not request it
};

// At least a token, or certificate and key.
struct ExecCredential {
  std::string token;
  std::string certificate, key;                                  // PEM
  std::optional<std::chrono::system_clock::time_point> expires;  // none: until it is refused
};

// Runs the plugin. It may interact with the user over standard input, if that is a terminal, and
// standard error. `user` is for messages. Throws Error if it cannot be run (with its installHint),
// fails, or returns another version or kind.
ExecCredential run_exec_plugin(const ExecPlugin& plugin, const std::string& user);

// Parses the plugin's output.
ExecCredential parse_exec_credential(std::string_view text, const ExecPlugin& plugin,
                                     const std::string& what);

}  // namespace adaptdl::kube
