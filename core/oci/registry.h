#pragma once

// The distribution protocol: manifests and blobs of one registry.

#include <cstdint>
#include <string>
#include <string_view>

#include "core/oci/reference.h"
#include "core/oci/transport.h"

namespace adaptdl::oci {

// Bytes with their digest: in the file `path`, or in `bytes` if `path` is "".
struct Blob {
  std::string digest;
  uint64_t size = 0;
  std::string path = {};
  std::string bytes = {};
};
Blob blob_of(std::string bytes);

struct Manifest {
  std::string media_type;
  std::string digest;
  std::string text;
};

// One thread. Keeps connections and tokens. Functions throw Error "REGISTRY: ..." with the
// registry's message, with ExitCode::auth if it refuses access.
class Registry {
 public:
  // For the registry of `where`, with the credentials that `places` know for its repository.
  explicit Registry(const Reference& where, RegistryOptions options = {},
                    const CredentialPlaces& places = credential_places());

  const std::string& name() const { return transport_.registry(); }

  // The manifest or index of that tag or digest, verified against its digest. Throws Error if it is
  // not found.
  Manifest manifest(const std::string& repository, const std::string& version);

  // A small blob of at most `max_bytes`, verified against its digest.
  std::string blob(const std::string& repository, const std::string& digest, size_t max_bytes);

  // Downloads a blob of `size` bytes into the file `path` and verifies its digest; removes the file
  // on failure.
  void download(const std::string& repository, const std::string& digest, uint64_t size,
                const std::string& path);

  // False also if the registry refuses to tell: upload() then says why.
  bool has_blob(const std::string& repository, const std::string& digest);

  // Mounts a blob of the repository `from` of this registry, which transfers no data. False if the
  // registry refuses.
  bool mount(const std::string& repository, const std::string& digest, const std::string& from);

  // Sends a blob, unless it exists. Uses one request, or pieces if the registry refuses that.
  void upload(const std::string& repository, const Blob& blob);

  // Stores the manifest under the tag, or without one under its digest. Returns the digest.
  std::string put_manifest(const std::string& repository, const std::string& tag,
                           const std::string& media_type, const std::string& text);

  uint64_t bytes_sent() const { return bytes_sent_; }  // of blobs, including repeated attempts

 private:
  HttpResponse try_upload(const std::string& repository, const Blob& blob, int file);
  HttpResponse upload_in_pieces(const std::string& first, const Blob& blob, int file,
                                const std::string& repository, uint64_t least);
  std::string start_upload(const std::string& repository, HttpResponse& answer);
  void report(const std::string& digest, BlobProgress::State state, uint64_t bytes, uint64_t size);

  Transport transport_;
  uint64_t bytes_sent_ = 0;
};

}  // namespace adaptdl::oci
