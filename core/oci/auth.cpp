#include "core/oci/auth.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/formats/base64.h"
#include "core/formats/json.h"
#include "core/oci/reference.h"
#include "core/oci/url.h"

namespace adaptdl::oci {
namespace {

constexpr double kUsualLife = 60.0;    // seconds, of a token without expires_in
constexpr double kUsedPart = 0.8;      // of a token's lifetime; then fetch a new one
constexpr size_t kMaxChallenges = 16;  // of one header

bool is_token_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

// Reads the header from its front.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool at_end() const { return text_.empty(); }
  char next() const { return text_.empty() ? '\0' : text_.front(); }
  void skip_any(std::string_view characters) {
    const size_t end = text_.find_first_not_of(characters);
    text_.remove_prefix(std::min(end, text_.size()));
  }
  void drop() { text_.remove_prefix(1); }
  std::string token() {
    size_t end = 0;
    while (end < text_.size() && is_token_character(text_[end])) ++end;
    std::string result(text_.substr(0, end));
    text_.remove_prefix(end);
    return result;
  }
  std::string value() {
    if (next() != '"') {
      // Unquoted values may be base64 or URLs, against the standard.
      const size_t end = std::min(text_.find_first_of(", \t"), text_.size());
      std::string result(text_.substr(0, end));
      text_.remove_prefix(end);
      return result;
    }
    drop();
    std::string result;
    while (!text_.empty() && text_.front() != '"') {
      if (text_.front() == '\\' && text_.size() > 1) drop();
      result += text_.front();
      drop();
    }
    if (!text_.empty()) drop();
    return result;
  }

 private:
  std::string_view text_;
};

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::string basic(const std::string& username, const std::string& password) {
  return "Basic " + to_base64(username + ":" + password);
}

// `origin`: of url_origin(), not empty.
bool is_here(const std::string& origin) {
  return on_this_machine(origin.substr(origin.find("://") + 3));
}

}  // namespace

std::string Challenge::parameter(const std::string& name) const {
  const auto found = parameters.find(name);
  return found == parameters.end() ? "" : found->second;
}

std::vector<Challenge> parse_challenges(std::string_view header) {
  std::vector<Challenge> result;
  Reader reader(header);
  for (;;) {
    reader.skip_any(" \t,");
    if (reader.at_end()) return result;
    const std::string word = lower(reader.token());
    if (word.empty()) {  // not valid here: skip it
      reader.value();
      continue;
    }
    reader.skip_any(" \t");
    if (reader.next() == '=' && !result.empty()) {
      reader.drop();
      reader.skip_any(" \t");
      result.back().parameters.emplace(word, reader.value());
    } else if (result.size() < kMaxChallenges && reader.next() != '=') {
      result.push_back({word, {}});
    } else {
      reader.value();
    }
  }
}

RegistryAuth::RegistryAuth(std::string registry, Credential credential, TokenRequest send)
    : registry_(std::move(registry)), credential_(std::move(credential)), send_(std::move(send)) {}

void RegistryAuth::challenge(const HttpResponse& answer, const std::string& origin) {
  origin_ = origin;
  if (origin.starts_with("http://") && !is_here(origin) && !credential_.empty()) {
    credential_ = {};
    withheld_ = true;
  }
  for (const auto& [name, value] : answer.headers) {
    if (name != "www-authenticate") continue;
    for (const Challenge& offered : parse_challenges(value)) {
      const bool better = offered.scheme == "bearer" && challenge_.scheme != "bearer";
      const bool newer = offered.scheme == challenge_.scheme;
      const bool first = offered.scheme == "basic" && challenge_.scheme.empty();
      if (better || newer || first) challenge_ = offered;
    }
  }
}

std::string RegistryAuth::no_credential() const {
  if (withheld_) {
    return "there are credentials for it, but plain HTTP would show them to others; use HTTPS, or "
           "remove the login if the registry needs none";
  }
  return fmt::format(
      "no credentials found for it, log in: `docker login {0}` or `podman login {0}`", registry_);
}

std::string RegistryAuth::header(const std::vector<std::string>& scopes) {
  if (challenge_.scheme == "basic") {
    return credential_.username.empty() ? "" : basic(credential_.username, credential_.password);
  }
  if (challenge_.scheme != "bearer") return "";
  Token& token = tokens_[scopes];
  if (token.text.empty() || Monotonic::now() >= token.until) token = fetch(scopes);
  return "Bearer " + token.text;
}

void RegistryAuth::forget(const std::vector<std::string>& scopes) {
  tokens_.erase(scopes);
}

HttpResponse RegistryAuth::exchange(const std::vector<std::string>& scopes) {
  HttpRequest request;
  request.method = "POST";
  request.url = challenge_.parameter("realm");
  request.headers = {{"Content-Type", "application/x-www-form-urlencoded"}};
  std::string all;
  for (const std::string& scope : scopes) all += (all.empty() ? "" : " ") + scope;
  request.body = "grant_type=refresh_token&client_id=adaptdl&refresh_token=" +
                 percent_encode(credential_.identity_token) +
                 "&service=" + percent_encode(challenge_.parameter("service")) +
                 "&scope=" + percent_encode(all);
  return send_(request);
}

HttpResponse RegistryAuth::get(const std::vector<std::string>& scopes) {
  HttpRequest request;
  request.url = challenge_.parameter("realm");
  const std::string service = challenge_.parameter("service");
  if (!service.empty()) request.url = with_parameter(request.url, "service", service);
  for (const std::string& scope : scopes) request.url = with_parameter(request.url, "scope", scope);
  if (!credential_.identity_token.empty()) {
    request.headers = {{"Authorization", basic("<token>", credential_.identity_token)}};
  } else if (!credential_.username.empty()) {
    request.headers = {{"Authorization", basic(credential_.username, credential_.password)}};
  }
  return send_(request);
}

RegistryAuth::Token RegistryAuth::fetch(const std::vector<std::string>& scopes) {
  const std::string realm = url_origin(challenge_.parameter("realm"));
  if (realm.empty()) fail("{}: its token server (realm) is not a valid URL", registry_);
  const bool plain = origin_.starts_with("http://") && (realm == origin_ || is_here(realm));
  if (!realm.starts_with("https://") && !plain) {
    fail(
        "{}: its token server {} does not use https, so others could read the credentials; the "
        "realm must be https",
        registry_, realm);
  }
  HttpResponse answer{404, {}, ""};
  if (!credential_.identity_token.empty()) answer = exchange(scopes);
  if (answer.status == 404 || answer.status == 405) answer = get(scopes);
  const std::string what = "the token server " + realm;
  if (answer.status == 401 || answer.status == 403) {
    throw Error(
        withheld_ ? registry_ + ": " + no_credential()
        : credential_.empty()
            ? fmt::format("{}: {} gives no token without credentials; log in with docker or "
                          "podman: `docker login {}`",
                          registry_, what, registry_)
            : fmt::format("{}: {} refuses the credentials (status {}); log in again: `docker "
                          "login {}`",
                          registry_, what, answer.status, registry_),
        ExitCode::auth);
  }
  if (!answer.ok()) fail("{}: {} answers with status {}", registry_, what, answer.status);
  const Json json = parse_json(answer.body, what);
  std::string text = json_get_or<std::string>(json, "token", what, "");
  if (text.empty()) text = json_get_or<std::string>(json, "access_token", what, "");
  if (text.empty()) fail("{}: {} answers without a token", registry_, what);
  const double life = json_get_or<double>(json, "expires_in", what, 0.0);
  const double seconds = std::clamp(life > 0 ? life : kUsualLife, 1.0, 86400.0);
  return {text, Monotonic::now() +
                    std::chrono::duration_cast<Monotonic::duration>(Seconds(seconds * kUsedPart))};
}

}  // namespace adaptdl::oci
