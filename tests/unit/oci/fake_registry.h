#pragma once

// A registry for tests, on a free port of 127.0.0.1, stricter than real ones: it checks digests,
// scopes, types, the state in the addresses of uploads, and that nothing comes that it did not ask
// for. What is unsound is answered 400 and noted in problems().

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/net/http_server.h"
#include "core/oci/registry.h"

namespace adaptdl::oci {

struct FakeRegistryOptions {
  enum class Access { open, basic, token };
  Access access = Access::open;      // for somebody:secret
  std::string identity_token = {};   // taken by POST; "": POST is answered 404
  bool mounts = true;                // else an upload is begun instead, 202
  size_t largest_body = SIZE_MAX;    // of an upload; larger ones are answered 413
  int put_status = 201;              // to a finished upload
  std::string blobs_elsewhere = {};  // GETs of blobs are sent on to there
  int token_uses = 1000000;          // after which a token is refused
};

class FakeRegistry {
 public:
  explicit FakeRegistry(FakeRegistryOptions options = {});
  ~FakeRegistry();

  // What stands before the repository in a name: 127.0.0.1:PORT.
  std::string name() const;
  Reference reference(const std::string& repository, const std::string& tag = "latest") const;

  // The next requests whose "METHOD path" begins with this are answered so, and do nothing.
  void answer_next(const std::string& start, std::vector<HttpResponse> answers);

  std::string add_blob(const std::string& repository, const std::string& bytes);
  std::string add_manifest(const std::string& repository, const std::string& tag,
                           const std::string& media_type, const std::string& text);

  std::vector<std::string> requests();  // "METHOD path", in order, without /v2/ and /token
  size_t count(const std::string& start);
  std::vector<std::string> problems();
  uint64_t blob_bytes();  // received in uploads
  std::map<std::string, std::string> blobs(const std::string& repository);
  Manifest manifest(const std::string& repository, const std::string& version);

 private:
  struct Upload {
    std::string repository, bytes;
  };
  HttpResponse answer(const HttpServerRequest& request);
  HttpResponse token(const HttpServerRequest& request);
  HttpResponse blob(const HttpServerRequest& request, const std::string& repository,
                    const std::string& digest);
  HttpResponse upload(const HttpServerRequest& request, const std::string& repository,
                      const std::string& session);
  HttpResponse stored_manifest(const HttpServerRequest& request, const std::string& repository,
                               const std::string& version);
  HttpResponse finish(const HttpServerRequest& request, const std::string& session);
  HttpResponse begun(const std::string& repository, const std::string& session);
  HttpResponse refuse(const std::string& why);
  HttpResponse unauthorised() const;
  bool allowed(const HttpServerRequest& request, const std::string& repository,
               const std::string& action);

  FakeRegistryOptions options_;
  std::mutex mutex_;
  std::map<std::string, std::map<std::string, std::string>> blobs_;
  std::map<std::string, Manifest> manifests_;  // "REPOSITORY:VERSION"
  std::map<std::string, Upload> uploads_;
  std::map<std::string, std::pair<std::set<std::string>, int>> tokens_;  // scopes, uses
  std::map<std::string, std::deque<HttpResponse>> scheduled_;
  std::vector<std::string> requests_, problems_;
  uint64_t blob_bytes_ = 0;
  int numbers_ = 0;
  std::unique_ptr<HttpServer> server_;
};

// Credentials for the fake, as a place to look for them.
struct FakeLogin {
  explicit FakeLogin(const std::string& registry, const std::string& username = "somebody",
                     const std::string& password = "secret");
  TemporaryDirectory folder;
  CredentialPlaces places;
};

}  // namespace adaptdl::oci
