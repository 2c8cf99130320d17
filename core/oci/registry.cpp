#include "core/oci/registry.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <optional>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/formats/json.h"
#include "core/oci/digest.h"
#include "core/oci/media_types.h"
#include "core/oci/url.h"

namespace adaptdl::oci {
namespace {

constexpr uint64_t kPiece = 16u << 20;  // Some registries reject pieces below 5 MB.
constexpr const char* kBytes = "application/octet-stream";

std::string pull_scope(const std::string& repository) {
  return "repository:" + repository + ":pull";
}
std::string push_scope(const std::string& repository) {
  return "repository:" + repository + ":pull,push";
}
std::string blob_path(const std::string& repository, const std::string& digest) {
  return "/v2/" + repository + "/blobs/" + digest;
}

// The status of a proxy or a registry that rejects a body of this size, or a monolithic upload.
bool wants_pieces(int status) {
  return status == 413 || status == 405 || status == 501;
}

}  // namespace

Blob blob_of(std::string bytes) {
  Blob blob{digest_of(bytes), bytes.size(), "", ""};
  blob.bytes = std::move(bytes);
  return blob;
}

Registry::Registry(const Reference& where, RegistryOptions options, const CredentialPlaces& places)
    : transport_(where.registry, find_credential(where.registry, where.repository, places),
                 std::move(options)) {}

void Registry::report(const std::string& digest, BlobProgress::State state, uint64_t bytes,
                      uint64_t size) {
  if (transport_.options().progress) transport_.options().progress({digest, state, bytes, size});
}

Manifest Registry::manifest(const std::string& repository, const std::string& version) {
  RegistryRequest request;
  request.url = "/v2/" + repository + "/manifests/" + version;
  request.scopes = {pull_scope(repository)};
  for (const char* type : {kOciIndex, kDockerIndex, kOciManifest, kDockerManifest}) {
    request.headers.emplace_back("Accept", type);
  }
  const HttpResponse answer = transport_.send(request);
  const std::string what = fmt::format("{}: {}:{}", name(), repository, version);
  if (answer.status == 404) fail("{}: image not found", what);
  if (!answer.ok()) fail("{}: cannot read the image: {}", what, registry_problem(answer));
  Manifest manifest{answer.header("content-type").value_or(""), digest_of(answer.body),
                    answer.body};
  manifest.media_type.resize(std::min(manifest.media_type.find(';'), manifest.media_type.size()));
  const std::string promised =
      is_digest(version) ? version : answer.header("docker-content-digest").value_or("");
  if (!promised.empty() && promised != manifest.digest) {
    fail("{}: received digest {}, expected {}; the data was changed in transit", what,
         manifest.digest, promised);
  }
  return manifest;
}

std::string Registry::blob(const std::string& repository, const std::string& digest,
                           size_t max_bytes) {
  RegistryRequest request;
  request.url = blob_path(repository, digest);
  request.scopes = {pull_scope(repository)};
  std::string text;
  request.before_try = [&] { text.clear(); };
  request.on_body = [&](std::string_view bytes) {
    if (bytes.size() > max_bytes - text.size()) {
      fail("{}: {}: is larger than {} bytes", name(), digest, max_bytes);
    }
    text += bytes;
  };
  const HttpResponse answer = transport_.send(request);
  if (!answer.ok()) fail("{}: cannot read {}: {}", name(), digest, registry_problem(answer));
  if (digest_of(text) != digest) {
    fail("{}: the data received for {} has another digest; it was changed in transit", name(),
         digest);
  }
  return text;
}

void Registry::download(const std::string& repository, const std::string& digest, uint64_t size,
                        const std::string& path) {
  const Fd file = open_file(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  RegistryRequest request;
  request.url = blob_path(repository, digest);
  request.scopes = {pull_scope(repository)};
  Digester digester;
  uint64_t received = 0;
  request.before_try = [&] {
    if (ftruncate(file.get(), 0) != 0 || lseek(file.get(), 0, SEEK_SET) != 0) {
      fail_errno(errno, path + ": cannot write");
    }
    digester = Digester();
    received = 0;
  };
  request.on_body = [&](std::string_view bytes) {
    if (bytes.size() > size - received) {
      fail("{}: {}: is larger than the expected {} bytes", name(), digest, size);
    }
    write_all(file.get(), bytes, path);
    digester.add(bytes);
    received += bytes.size();
    report(digest, BlobProgress::State::receiving, received, size);
  };
  try {
    const HttpResponse answer = transport_.send(request);
    if (!answer.ok()) fail("{}: cannot read {}: {}", name(), digest, registry_problem(answer));
    if (received != size || digester.finish() != digest) {
      fail("{}: the data received for {} has another digest; it was changed in transit", name(),
           digest);
    }
  } catch (...) {
    unlink(path.c_str());
    throw;
  }
}

bool Registry::has_blob(const std::string& repository, const std::string& digest) {
  RegistryRequest request;
  request.method = "HEAD";
  request.url = blob_path(repository, digest);
  request.scopes = {push_scope(repository)};
  const HttpResponse answer = transport_.send(request);
  // An answer to HEAD has no body that tells why. The upload's answer has one, and some storage
  // refuses only HEAD.
  const bool refused = answer.status >= 400 && answer.status < 500 && !is_passing(answer.status);
  if (!answer.ok() && !refused) {
    fail("{}: cannot look for {} in {}: {}", name(), digest, repository, registry_problem(answer));
  }
  return answer.ok();
}

bool Registry::mount(const std::string& repository, const std::string& digest,
                     const std::string& from) {
  RegistryRequest request;
  request.method = "POST";
  request.url = with_parameter(
      with_parameter(transport_.url("/v2/" + repository + "/blobs/uploads/"), "mount", digest),
      "from", from);
  request.scopes = {push_scope(repository), pull_scope(from)};
  // Without permission to read `from` there is no token for it; then send the blob.
  HttpResponse answer;
  try {
    answer = transport_.send(request);
  } catch (const Error& error) {
    if (error.exit_code() != ExitCode::auth) throw;
    return false;
  }
  if (answer.status == 201) {
    report(digest, BlobProgress::State::mounted, 0, 0);
    return true;
  }
  if (answer.status == 202 && answer.header("location")) {
    // The registry started an upload instead; abort it.
    RegistryRequest end;
    end.method = "DELETE";
    end.url = transport_.location(answer, request.url);
    end.scopes = {push_scope(repository)};
    end.retry = false;
    try {
      transport_.send(end);
    } catch (const Error&) {  // the registry expires it eventually
    }
  }
  return false;
}

std::string Registry::start_upload(const std::string& repository, HttpResponse& answer) {
  RegistryRequest start;
  start.method = "POST";
  start.url = transport_.url("/v2/" + repository + "/blobs/uploads/");
  start.scopes = {push_scope(repository)};
  start.retry = false;
  answer = transport_.send(start);
  return answer.status == 202 ? transport_.location(answer, start.url) : "";
}

HttpResponse Registry::try_upload(const std::string& repository, const Blob& blob, int file) {
  HttpResponse answer;
  std::string location = start_upload(repository, answer);
  if (location.empty()) return answer;
  RegistryRequest put;
  put.method = "PUT";
  put.url = with_parameter(location, "digest", blob.digest);
  put.headers = {{"Content-Type", kBytes}};
  put.body = blob.bytes;
  if (file >= 0) put.file = {file, 0, blob.size};
  uint64_t counted = 0;
  put.before_try = [&] { counted = 0; };
  put.on_sent = [&](uint64_t sent) {
    bytes_sent_ += sent > counted ? sent - counted : 0;
    counted = sent;
    report(blob.digest, BlobProgress::State::sending, sent, blob.size);
  };
  put.scopes = {push_scope(repository)};
  put.retry = false;  // a failed upload must start again from the beginning
  if (file < 0) bytes_sent_ += blob.size;
  answer = transport_.send(put);
  if (!wants_pieces(answer.status)) return answer;
  location = start_upload(repository, answer);
  if (location.empty()) return answer;
  const auto least = try_parse<uint64_t>(answer.header("oci-chunk-min-length").value_or(""));
  return upload_in_pieces(location, blob, file, repository, least.value_or(0));
}

HttpResponse Registry::upload_in_pieces(const std::string& first, const Blob& blob, int file,
                                        const std::string& repository, uint64_t least) {
  std::string location = first;
  const uint64_t piece = std::max(kPiece, std::min(least, uint64_t{1} << 30));
  for (uint64_t at = 0; at < blob.size;) {
    const uint64_t size = std::min(piece, blob.size - at);
    RegistryRequest patch;
    patch.method = "PATCH";
    patch.url = location;
    patch.headers = {{"Content-Type", kBytes},
                     {"Content-Range", fmt::format("{}-{}", at, at + size - 1)}};
    if (file >= 0) {
      patch.file = {file, at, size};
    } else {
      patch.body = blob.bytes.substr(at, size);
    }
    patch.scopes = {push_scope(repository)};
    patch.retry = false;
    const HttpResponse answer = transport_.send(patch);
    if (!answer.ok()) return answer;
    location = transport_.location(answer, location);
    at += size;
    bytes_sent_ += size;
    report(blob.digest, BlobProgress::State::sending, at, blob.size);
  }
  RegistryRequest put;
  put.method = "PUT";
  put.url = with_parameter(location, "digest", blob.digest);
  put.scopes = {push_scope(repository)};
  put.retry = false;
  return transport_.send(put);
}

void Registry::upload(const std::string& repository, const Blob& blob) {
  if (has_blob(repository, blob.digest)) {
    return report(blob.digest, BlobProgress::State::present, 0, blob.size);
  }
  const Fd file = blob.path.empty() ? Fd() : open_file(blob.path, O_RDONLY);
  const HttpResponse answer = transport_.retry([&] {
    HttpResponse tried = try_upload(repository, blob, file.get());
    // 201 means stored; some proxies change it to another status.
    if (tried.ok() && tried.status != 201 && !has_blob(repository, blob.digest)) tried.status = 500;
    return tried;
  });
  if (!answer.ok()) {
    fail("{}: cannot store {} ({}) in {}: {}", name(), blob.digest, format_bytes(blob.size),
         repository, registry_problem(answer));
  }
  report(blob.digest, BlobProgress::State::done, blob.size, blob.size);
}

std::string Registry::put_manifest(const std::string& repository, const std::string& tag,
                                   const std::string& media_type, const std::string& text) {
  const std::string digest = digest_of(text);
  RegistryRequest request;
  request.method = "PUT";
  request.url = "/v2/" + repository + "/manifests/" + (tag.empty() ? digest : tag);
  request.headers = {{"Content-Type", media_type}};
  request.body = text;
  request.scopes = {push_scope(repository)};
  const HttpResponse answer = transport_.send(request);
  if (!answer.ok()) {
    fail("{}: cannot store the image in {}: {}", name(), repository, registry_problem(answer));
  }
  const std::string stored = answer.header("docker-content-digest").value_or(digest);
  if (stored != digest) {
    fail(
        "{}: it stored the image in {} with digest {}, expected {}; the data was changed in "
        "transit",
        name(), repository, stored, digest);
  }
  return digest;
}

}  // namespace adaptdl::oci
