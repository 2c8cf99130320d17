#pragma once

// The distribution protocol: manifests and blobs of one registry.

#include <cstdint>
#include <string>
#include <string_view>

#include "core/oci/reference.h"
#include "core/oci/transport.h"

namespace adaptdl::oci {

// Bytes with their digest: in a file, if `path` is not "", else `bytes` themselves.
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

// One thread. Keeps connections and tokens. Functions throw Error "REGISTRY: ..." with what the
// registry says, with ExitCode::auth if it refuses access.
class Registry {
 public:
  // For the registry of `where`, with the credentials that `places` know for its repository.
  explicit Registry(const Reference& where, RegistryOptions options = {},
                    const CredentialPlaces& places = credential_places());

  const std::string& name() const { return transport_.registry(); }

  // The manifest or index of that tag or digest; what comes is checked against its digest. An Error
  // says if there is none.
  Manifest manifest(const std::string& repository, const std::string& version);

  // A small blob, checked against its digest; at most `max_bytes`.
  std::string blob(const std::string& repository, const std::string& digest, size_t max_bytes);

  // A blob of `size` bytes into the file `path`, checked against its digest; on failure there is no
  // such file.
  void download(const std::string& repository, const std::string& digest, uint64_t size,
                const std::string& path);

  bool has_blob(const std::string& repository, const std::string& digest);

  // Makes a blob of another repository of this registry one of this, which moves no bytes. False if
  // the registry would not.
  bool mount(const std::string& repository, const std::string& digest, const std::string& from);

  // Sends a blob, unless it is there. In one request, and in pieces where that is refused.
  void upload(const std::string& repository, const Blob& blob);

  // Stores the manifest under the tag, or, without one, its digest; the digest.
  std::string put_manifest(const std::string& repository, const std::string& tag,
                           const std::string& media_type, const std::string& text);

  uint64_t bytes_sent() const { return bytes_sent_; }  // of blobs, what was sent again included

 private:
  HttpResponse try_upload(const std::string& repository, const Blob& blob, int file);
  HttpResponse upload_in_pieces(const std::string& location, const Blob& blob, int file,
                                const std::string& repository, uint64_t least);
  std::string start_upload(const std::string& repository, HttpResponse& answer);
  void report(const std::string& digest, BlobProgress::State state, uint64_t bytes, uint64_t size);

  Transport transport_;
  uint64_t bytes_sent_ = 0;
};

}  // namespace adaptdl::oci
