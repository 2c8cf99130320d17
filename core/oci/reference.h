#pragma once

// Names of images and their registries. Pure functions, thread-safe.

#include <string>
#include <string_view>

namespace adaptdl::oci {

// An image's full name, with all defaults filled in.
struct Reference {
  std::string registry;    // HOST or HOST:PORT; "docker.io" for Docker Hub
  std::string repository;  // "library/alpine"
  std::string tag;         // "" if only a digest names it
  std::string digest;      // "sha256:..." or ""

  // The version to request: the digest, else the tag.
  const std::string& version() const { return digest.empty() ? tag : digest; }

  bool operator==(const Reference&) const = default;
};

// Parses a name as docker does: the default registry is Docker Hub, where a single word is in
// "library/", and without tag and digest the tag is "latest". The first part is a registry if it
// contains a dot or a colon, or is "localhost". Throws Error "WHAT: ...".
Reference parse_reference(std::string_view text, std::string_view what);

// The same for a push target: a repository with an optional tag. `tag` is "" if none is given; a
// digest is an Error.
Reference parse_repository(std::string_view text, std::string_view what);

// The full name: docker.io/library/alpine:latest.
std::string to_string(const Reference& reference);

// The host (with port) that serves the registry: docker.io is served by registry-1.docker.io.
std::string registry_host(const std::string& registry);

// Whether `host` (with or without port) is a name or an address of the loopback interface. Only
// there plain HTTP needs no explicit flag and may carry credentials: nobody else can read it.
bool on_this_machine(std::string_view host);

// "sha256:" and 64 lower-case hexadecimal digits.
bool is_digest(std::string_view text);

}  // namespace adaptdl::oci
