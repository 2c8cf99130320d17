#pragma once

// Names of images, and what registries they live in. Pure functions, thread-safe.

#include <string>
#include <string_view>

namespace adaptdl::oci {

// An image's whole name: nothing is left to be assumed.
struct Reference {
  std::string registry;    // HOST or HOST:PORT; "docker.io" for Docker Hub
  std::string repository;  // "library/alpine"
  std::string tag;         // "" when a digest alone names it
  std::string digest;      // "sha256:..." or ""

  // What the registry is asked for: the digest, else the tag.
  const std::string& version() const { return digest.empty() ? tag : digest; }

  bool operator==(const Reference&) const = default;
};

// Reads a name as docker does: without a registry it is Docker Hub's, there a single word is in
// "library/", and without tag and digest the tag is "latest". The first part is a registry if it
// holds a dot or a colon, or is "localhost". Throws Error "WHAT: ..." that says what is wrong.
Reference parse_reference(std::string_view text, std::string_view what);

// The same for where to push to: a repository, and perhaps a tag. `tag` is "" if none is given; a
// digest is refused.
Reference parse_repository(std::string_view text, std::string_view what);

// With everything: docker.io/library/alpine:latest.
std::string to_string(const Reference& reference);

// The host (with port) that serves the registry: docker.io is served by registry-1.docker.io.
std::string registry_host(const std::string& registry);

// Whether `host` (with or without port) is this machine or in a private network (RFC 1918, by
// number), where plain HTTP may be spoken without being told to.
bool plain_http_allowed(std::string_view host);

// "sha256:" and 64 lower-case hexadecimal digits.
bool is_digest(std::string_view text);

}  // namespace adaptdl::oci
