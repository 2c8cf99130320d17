#pragma once

// The credentials that docker and podman keep for registries.

#include <string>
#include <string_view>
#include <vector>

#include "core/formats/json.h"

namespace adaptdl::oci {

struct Credential {
  std::string username, password;  // both "": none
  std::string identity_token;      // instead of both: exchanged for tokens of the registry

  bool empty() const { return username.empty() && identity_token.empty(); }
};

// Files that are looked at, the first that knows the registry counts; those that do not exist are
// passed over. In docker's form, which podman shares.
struct CredentialPlaces {
  std::vector<std::string> files;
};

// $DOCKER_CONFIG/config.json, else ~/.docker/config.json; $REGISTRY_AUTH_FILE, else podman's
// $XDG_RUNTIME_DIR/containers/auth.json and ~/.config/containers/auth.json.
CredentialPlaces credential_places();

// What the places know of a repository in a registry (Reference::registry); an empty one if
// nothing. In each file a helper for the registry comes first, then the helper for all, then what
// is written down, the longest name first: podman knows of "HOST/TEAM", too. A helper is the
// program docker-credential-NAME in PATH; one that is missing or fails is warned of (log_warning),
// and the search goes on. Throws Error for a file that cannot be read or understood.
Credential find_credential(const std::string& registry, const std::string& repository,
                           const CredentialPlaces& places);

// A file's `auths` alone, for the same. `what` names the file in the Error.
Credential stored_credential(const Json& file, const std::string& registry,
                             const std::string& repository, std::string_view what);

}  // namespace adaptdl::oci
