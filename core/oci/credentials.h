#pragma once

// The credentials that docker and podman keep for registries.

#include <string>
#include <string_view>
#include <vector>

#include "core/formats/json.h"

namespace adaptdl::oci {

struct Credential {
  std::string username, password;  // both "": none
  std::string identity_token;      // instead of both: exchanged for registry tokens

  bool empty() const { return username.empty() && identity_token.empty(); }
};

// Files to search in order; the first one that knows the registry counts. Missing files are
// skipped. In docker's format, which podman shares.
struct CredentialPlaces {
  std::vector<std::string> files;
};

// $DOCKER_CONFIG/config.json, else ~/.docker/config.json; $REGISTRY_AUTH_FILE, else podman's
// $XDG_RUNTIME_DIR/containers/auth.json and ~/.config/containers/auth.json.
CredentialPlaces credential_places();

// Finds the credential of a repository in a registry (Reference::registry); empty if not found. In
// each file, the registry's helper comes first, then the default helper, then stored credentials,
// the longest name first, since podman also has names like "HOST/TEAM". A helper is the program
// docker-credential-NAME in PATH; if it is missing or fails, a warning is logged and the search
// continues. Throws Error for an unreadable or invalid file.
Credential find_credential(const std::string& registry, const std::string& repository,
                           const CredentialPlaces& places);

// The same from a file's `auths` alone. `what` names the file in the Error.
Credential stored_credential(const Json& file, const std::string& registry,
                             const std::string& repository, std::string_view what);

// What a helper has printed, as JSON. Throws Error.
Credential helper_credential(const std::string& answer);

}  // namespace adaptdl::oci
