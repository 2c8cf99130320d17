#include "tests/unit/oci/fake_registry.h"

#include <algorithm>
#include <doctest/doctest.h>

#include "core/base/files.h"
#include "core/base/number.h"
#include "core/formats/base64.h"
#include "core/formats/json.h"
#include "core/oci/digest.h"
#include "core/oci/media_types.h"

namespace adaptdl::oci {
namespace {

constexpr const char* kBasic = "Basic c29tZWJvZHk6c2VjcmV0";  // somebody:secret

std::string decoded(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      result += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      result += text[i] == '+' ? ' ' : text[i];
    }
  }
  return result;
}

// All values of a name in a query or form.
std::vector<std::string> values(const std::string& query, const std::string& name) {
  std::vector<std::string> result;
  for (size_t at = 0; at <= query.size();) {
    const size_t end = std::min(query.find('&', at), query.size());
    const std::string pair = query.substr(at, end - at);
    if (pair.starts_with(name + "=")) result.push_back(decoded(pair.substr(name.size() + 1)));
    at = end + 1;
  }
  return result;
}

std::string value(const std::string& query, const std::string& name) {
  const std::vector<std::string> all = values(query, name);
  return all.empty() ? "" : all[0];
}

HttpResponse problem(int status, const std::string& code) {
  return {status,
          {{"Content-Type", "application/json"}},
          dump_json({{"errors", {{{"code", code}, {"message", "said the fake"}}}}})};
}

}  // namespace

FakeRegistry::FakeRegistry(FakeRegistryOptions options) : options_(std::move(options)) {
  HttpServerOptions server;
  server.max_body = 64u << 20;
  server_ = std::make_unique<HttpServer>(
      server, [this](const HttpServerRequest& request, const HttpReply& reply) {
        reply.send(answer(request));
      });
}

FakeRegistry::~FakeRegistry() {
  server_->stop(Seconds(0));
}

std::string FakeRegistry::name() const {
  return fmt::format("127.0.0.1:{}", server_->port());
}

Reference FakeRegistry::reference(const std::string& repository, const std::string& tag) const {
  return {name(), repository, tag, ""};
}

void FakeRegistry::answer_next(const std::string& start, std::vector<HttpResponse> answers) {
  const std::lock_guard lock(mutex_);
  scheduled_[start].insert(scheduled_[start].end(), answers.begin(), answers.end());
}

std::string FakeRegistry::add_blob(const std::string& repository, const std::string& bytes) {
  const std::lock_guard lock(mutex_);
  const std::string digest = digest_of(bytes);
  blobs_[repository][digest] = bytes;
  return digest;
}

std::string FakeRegistry::add_manifest(const std::string& repository, const std::string& tag,
                                       const std::string& media_type, const std::string& text) {
  const std::lock_guard lock(mutex_);
  const Manifest manifest{media_type, digest_of(text), text};
  manifests_[repository + ":" + tag] = manifest;
  manifests_[repository + ":" + manifest.digest] = manifest;
  return manifest.digest;
}

std::vector<std::string> FakeRegistry::requests() {
  const std::lock_guard lock(mutex_);
  return requests_;
}
size_t FakeRegistry::count(const std::string& start) {
  const std::vector<std::string> all = requests();
  return static_cast<size_t>(std::count_if(
      all.begin(), all.end(), [&](const auto& request) { return request.starts_with(start); }));
}
std::vector<std::string> FakeRegistry::problems() {
  const std::lock_guard lock(mutex_);
  return problems_;
}
uint64_t FakeRegistry::blob_bytes() {
  const std::lock_guard lock(mutex_);
  return blob_bytes_;
}
std::map<std::string, std::string> FakeRegistry::blobs(const std::string& repository) {
  const std::lock_guard lock(mutex_);
  return blobs_[repository];
}
Manifest FakeRegistry::manifest(const std::string& repository, const std::string& version) {
  const std::lock_guard lock(mutex_);
  return manifests_[repository + ":" + version];
}

HttpResponse FakeRegistry::refuse(const std::string& why) {
  problems_.push_back(why);
  return problem(400, why);
}

HttpResponse FakeRegistry::unauthorised() const {
  HttpResponse answer = problem(401, "UNAUTHORIZED");
  if (options_.access == FakeRegistryOptions::Access::token) {
    answer.headers.emplace_back(
        "WWW-Authenticate",
        fmt::format("Bearer realm=\"http://{}/token\",service=\"the fake, itself\"", name()));
  } else {
    answer.headers.emplace_back("WWW-Authenticate", "Basic realm=\"fake\"");
  }
  return answer;
}

bool FakeRegistry::allowed(const HttpServerRequest& request, const std::string& repository,
                           const std::string& action) {
  const std::string given = request.header("authorization").value_or("");
  switch (options_.access) {
    case FakeRegistryOptions::Access::open:
      if (!given.empty()) problems_.push_back("credentials that nobody asked for");
      return true;
    case FakeRegistryOptions::Access::basic:
      return given == kBasic;
    case FakeRegistryOptions::Access::token:
      break;
  }
  if (given.starts_with("Basic")) problems_.push_back("Basic, where a token was asked for");
  const auto token = tokens_.find(given.substr(std::min<size_t>(given.size(), 7)));
  if (token == tokens_.end()) return false;
  auto& [scopes, uses] = token->second;
  if (repository.empty()) return true;
  if (!scopes.contains(repository + ":" + action)) return false;
  return uses-- > 0;
}

HttpResponse FakeRegistry::token(const HttpServerRequest& request) {
  const bool post = request.method == "POST";
  if (post && options_.identity_token.empty()) return problem(404, "NO_POST");
  const std::string& form = post ? request.body : request.query;
  if (value(form, "service") != "the fake, itself") return refuse("a token for another service");
  if (post) {
    if (value(form, "grant_type") != "refresh_token") return refuse("grant_type");
    if (value(form, "refresh_token") != options_.identity_token) return problem(401, "IDENTITY");
  } else if (const auto given = request.header("authorization"); given && *given != kBasic) {
    return problem(401, "WRONG_PASSWORD");
  } else if (!given) {
    return problem(401, "NO_PASSWORD");
  }
  const std::string text = fmt::format("token-{}", ++numbers_);
  std::set<std::string> scopes;
  std::vector<std::string> asked;
  for (const std::string& all : values(form, "scope")) {
    for (size_t at = 0; at < all.size();) {
      const size_t end = std::min(all.find(' ', at), all.size());
      asked.push_back(all.substr(at, end - at));
      at = end + 1;
    }
  }
  for (const std::string& scope : asked) {
    const size_t last = scope.rfind(':');
    const std::string repository = scope.substr(11, last - 11);  // behind "repository:"
    scopes.insert(repository + ":pull");
    if (scope.ends_with(":pull,push")) {
      if (&scope != &asked[0]) problems_.push_back("the scope that pushes is not the first");
      scopes.insert(repository + ":push");
    }
  }
  tokens_[text] = {scopes, options_.token_uses};
  return {200, {}, dump_json({{post ? "access_token" : "token", text}, {"expires_in", 300}})};
}

HttpResponse FakeRegistry::answer(const HttpServerRequest& request) {
  const std::lock_guard lock(mutex_);
  const std::string line = request.method + " " + request.path;
  if (request.path != "/v2/" && request.path != "/token") requests_.push_back(line);
  for (auto& [start, answers] : scheduled_) {
    if (!line.starts_with(start) || answers.empty()) continue;
    HttpResponse next = answers.front();
    answers.pop_front();
    return next;
  }
  if (request.path == "/token") return token(request);
  if (!request.path.starts_with("/v2/")) return refuse("the path " + request.path);
  const std::string path = request.path.substr(4);
  if (path.empty()) return allowed(request, "", "") ? HttpResponse{200, {}, "{}"} : unauthorised();
  for (const char* kind : {"/blobs/uploads/", "/blobs/", "/manifests/"}) {
    const size_t at = path.find(kind);
    if (at == std::string::npos) continue;
    const std::string repository = path.substr(0, at);
    const std::string rest = path.substr(at + std::string_view(kind).size());
    const bool reading = request.method == "GET" || request.method == "HEAD";
    if (!allowed(request, repository, reading ? "pull" : "push")) return unauthorised();
    if (std::string_view(kind) == "/blobs/uploads/") return upload(request, repository, rest);
    return std::string_view(kind) == "/blobs/" ? blob(request, repository, rest)
                                               : stored_manifest(request, repository, rest);
  }
  return refuse("the path " + request.path);
}

HttpResponse FakeRegistry::blob(const HttpServerRequest& request, const std::string& repository,
                                const std::string& digest) {
  if (!is_digest(digest)) return refuse("the digest " + digest);
  const auto found = blobs_[repository].find(digest);
  if (found == blobs_[repository].end()) return problem(404, "BLOB_UNKNOWN");
  if (request.method == "GET" && !options_.blobs_elsewhere.empty()) {
    return {307, {{"Location", options_.blobs_elsewhere + "/" + digest}}, "elsewhere"};
  }
  return {200, {{"Docker-Content-Digest", digest}}, found->second};
}

HttpResponse FakeRegistry::begun(const std::string& repository, const std::string& session) {
  // Relative, and with a state that must come back.
  return {202,
          {{"Location", fmt::format("/v2/{}/blobs/uploads/{}?_state=s%2F{}", repository, session,
                                    uploads_[session].bytes.size())}},
          ""};
}

HttpResponse FakeRegistry::upload(const HttpServerRequest& request, const std::string& repository,
                                  const std::string& session) {
  if (request.method == "POST") {
    if (!request.body.empty() || !session.empty()) return refuse("a POST with a body or session");
    const std::string digest = value(request.query, "mount");
    const std::string from = value(request.query, "from");
    if (!digest.empty() && options_.mounts && blobs_[from].contains(digest)) {
      if (!allowed(request, from, "pull")) return unauthorised();
      blobs_[repository][digest] = blobs_[from][digest];
      return {201, {{"Location", "/v2/" + repository + "/blobs/" + digest}}, ""};
    }
    const std::string fresh = fmt::format("u{}", ++numbers_);
    uploads_[fresh] = {repository, ""};
    return begun(repository, fresh);
  }
  const auto found = uploads_.find(session);
  if (found == uploads_.end() || found->second.repository != repository) {
    return problem(404, "BLOB_UPLOAD_UNKNOWN");
  }
  Upload& whole = found->second;
  if (value(request.query, "_state") != fmt::format("s/{}", whole.bytes.size())) {
    return refuse("an upload without its state: " + request.query);
  }
  if (request.method == "DELETE") {
    uploads_.erase(found);
    return {204, {}, ""};
  }
  if (request.body.size() > options_.largest_body) return problem(413, "TOO_LARGE");
  if (!request.body.empty() && request.header("content-type") != "application/octet-stream") {
    return refuse("the type of an upload");
  }
  blob_bytes_ += request.body.size();
  if (request.method == "PATCH") {
    const std::string range =
        fmt::format("{}-{}", whole.bytes.size(), whole.bytes.size() + request.body.size() - 1);
    if (request.header("content-range") != range) return refuse("the range of a piece");
    whole.bytes += request.body;
    return begun(repository, session);
  }
  if (request.method != "PUT") return refuse("the method " + request.method);
  whole.bytes += request.body;
  return finish(request, session);
}

HttpResponse FakeRegistry::finish(const HttpServerRequest& request, const std::string& session) {
  const Upload whole = uploads_[session];
  uploads_.erase(session);
  const std::string digest = value(request.query, "digest");
  if (digest_of(whole.bytes) != digest) return refuse("DIGEST_INVALID");
  if (options_.put_status == 202) {
    options_.put_status = 201;  // took it and lost it, once
    return {202, {{"Location", "/v2/"}}, ""};
  }
  blobs_[whole.repository][digest] = whole.bytes;
  return {options_.put_status, {{"Docker-Content-Digest", digest}}, ""};
}

HttpResponse FakeRegistry::stored_manifest(const HttpServerRequest& request,
                                           const std::string& repository,
                                           const std::string& version) {
  if (request.method != "PUT") {
    const auto found = manifests_.find(repository + ":" + version);
    if (found == manifests_.end()) return problem(404, "MANIFEST_UNKNOWN");
    const bool accepted =
        std::any_of(request.headers.begin(), request.headers.end(), [&](const auto& header) {
          return header.first == "accept" && header.second == found->second.media_type;
        });
    if (!accepted) return refuse("a manifest of a type that is not accepted");
    return {200,
            {{"Content-Type", found->second.media_type},
             {"Docker-Content-Digest", found->second.digest}},
            found->second.text};
  }
  const std::string type = request.header("content-type").value_or("");
  const Json json = parse_json(request.body, "manifest");
  if (type != json.value("mediaType", "")) return refuse("the type of a manifest");
  std::vector<Json> parts = json.at("layers").get<std::vector<Json>>();
  parts.push_back(json.at("config"));
  for (const Json& part : parts) {
    if (is_foreign_layer(part.at("mediaType").get<std::string>())) continue;
    const auto stored = blobs_[repository].find(part.at("digest").get<std::string>());
    if (stored == blobs_[repository].end()) return refuse("MANIFEST_BLOB_UNKNOWN");
    if (part.at("size").get<size_t>() != stored->second.size()) return refuse("SIZE_INVALID");
  }
  const Manifest manifest{type, digest_of(request.body), request.body};
  manifests_[repository + ":" + version] = manifest;
  manifests_[repository + ":" + manifest.digest] = manifest;
  return {201, {{"Docker-Content-Digest", manifest.digest}}, ""};
}

FakeLogin::FakeLogin(const std::string& registry, const std::string& username,
                     const std::string& password) {
  const std::string file = folder.file("config.json");
  const Json auth = {{"auth", to_base64(username + ":" + password)}};
  replace_file(file, dump_json({{"auths", {{registry, auth}}}}));
  places.files = {file};
}

}  // namespace adaptdl::oci
