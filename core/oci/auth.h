#pragma once

// Authentication to a registry: by credentials (Basic), or by tokens that the registry's token
// server gives for credentials (Bearer; the distribution project's "token authentication").

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/net/http.h"
#include "core/oci/credentials.h"

namespace adaptdl::oci {

// One scheme that a header WWW-Authenticate offers. Names are in lower case.
struct Challenge {
  std::string scheme;  // "basic", "bearer"
  std::map<std::string, std::string> parameters;

  std::string parameter(const std::string& name) const;  // "" if missing
};

// All schemes that the header offers; invalid parts are skipped. Never fails.
std::vector<Challenge> parse_challenges(std::string_view header);

// Sends a request to a token server, with retries and tracing.
using TokenRequest = std::function<HttpResponse(const HttpRequest&)>;

// One thread. Holds secrets: send its result in a header Authorization to its registry only.
class RegistryAuth {
 public:
  // `registry` is for messages.
  RegistryAuth(std::string registry, Credential credential, TokenRequest send);

  // Reads the challenge from a 401 answer; an answer without one changes nothing. `origin` is the
  // registry's url_origin(). A registry over plain HTTP may have a token server over plain HTTP, if
  // that is the registry itself or on this machine. The credentials are dropped if plain HTTP would
  // carry them over a network.
  void challenge(const HttpResponse& answer, const std::string& origin);

  // The header's value for these scopes, "repository:NAME:pull,push", the push scope first; "" if
  // the registry needs no authentication. May ask the token server. Throws Error if the credentials
  // are refused or missing (with ExitCode::auth), if the realm is not https, and for answers
  // without a token.
  std::string header(const std::vector<std::string>& scopes);

  // The registry refused header() for these scopes: the next call fetches a new token.
  void forget(const std::vector<std::string>& scopes);

  bool has_credential() const { return !credential_.empty(); }
  // What to do about a refusal without credentials.
  std::string no_credential() const;

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
  bool withheld_ = false;  // there are credentials, but others could read them
  TokenRequest send_;
  Challenge challenge_;
  std::map<std::vector<std::string>, Token> tokens_;
};

}  // namespace adaptdl::oci
