#pragma once

// Proving to a registry who asks: plainly (Basic), or by tokens that a server of its choice gives
// for credentials (Bearer; the distribution project's "token authentication").

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/net/http.h"
#include "core/oci/credentials.h"

namespace adaptdl::oci {

// One way that a header WWW-Authenticate offers. Names are in lower case.
struct Challenge {
  std::string scheme;  // "basic", "bearer"
  std::map<std::string, std::string> parameters;

  std::string parameter(const std::string& name) const;  // "" if missing
};

// All that the header offers; what it cannot make sense of is left out. Never fails.
std::vector<Challenge> parse_challenges(std::string_view header);

// Sends a request to a token server: with retries, followed by whoever listens.
using TokenRequest = std::function<HttpResponse(const HttpRequest&)>;

// One thread. Holds secrets: what it returns goes into a header Authorization, to the registry it
// is for and nowhere else.
class RegistryAuth {
 public:
  // `registry` is for messages.
  RegistryAuth(std::string registry, Credential credential, TokenRequest send);

  // Takes in what the registry asks for, from an answer of 401; without a challenge in it nothing
  // changes. `origin` is the registry's url_origin(): one that is spoken to by plain HTTP may have
  // a plain token server, if that is itself or where plain_http_allowed() says so.
  void challenge(const HttpResponse& answer, const std::string& origin);

  // The header's value for actions in these scopes, "repository:NAME:pull,push", the one that
  // pushes first; "" if the registry asked for nothing. May ask the token server. Throws Error,
  // with ExitCode::auth if the credentials are refused or missing, for a realm that is not https,
  // and for answers without a token.
  std::string header(const std::vector<std::string>& scopes);

  // The registry refused what header() gave for these scopes: the next one is a new one.
  void forget(const std::vector<std::string>& scopes);

  bool has_credential() const { return !credential_.empty(); }

 private:
  struct Token {
    std::string text;
    TimePoint until;
  };
  Token fetch(const std::vector<std::string>& scopes);
  HttpResponse exchange(const std::vector<std::string>& scopes);
  HttpResponse get(const std::vector<std::string>& scopes);

  std::string registry_, origin_;
  Credential credential_;
  TokenRequest send_;
  Challenge challenge_;
  std::map<std::vector<std::string>, Token> tokens_;
};

}  // namespace adaptdl::oci
