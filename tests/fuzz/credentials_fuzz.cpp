// How a registry asks for credentials, and what answers: the file of docker and podman, and the
// token server. The first line is a header WWW-Authenticate; the rest is the file, the answer, and
// what a credential helper prints.

#include <algorithm>

#include "core/base/error.h"
#include "core/formats/json.h"
#include "core/oci/auth.h"
#include "core/oci/credentials.h"
#include "core/oci/url.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;
using namespace adaptdl::oci;

namespace {

const std::string kSecret = "hunter2";

template <typename Read>
Credential if_valid(Read&& read) {
  try {
    return read();
  } catch (const Error&) {
    return {};
  }
}

// Nobody but a token server behind TLS hears of the credentials, or one on the registry's own
// address, where the registry has no TLS either.
void authenticate(const Credential& credential, const std::string& origin,
                  const std::string& header, const std::string& body) {
  const TokenRequest ask = [&](const HttpRequest& request) {
    const std::string asked = url_origin(request.url);
    ADAPTDL_CHECK(asked.starts_with("https://") || origin.starts_with("http://"));
    ADAPTDL_CHECK(asked.find('@') == std::string::npos);
    return HttpResponse{request.method == "POST" ? 404 : 200, {}, body};
  };
  try {
    RegistryAuth auth("r.io", credential, ask);
    auth.challenge({401, {{"www-authenticate", header}}, ""}, origin);
    const std::string value = auth.header({"repository:team/app:pull"});
    ADAPTDL_CHECK(value.empty() || value.starts_with("Bearer ") || value.starts_with("Basic "));
    auth.forget({"repository:team/app:pull"});
    auth.no_credential();
  } catch (const Error&) {
    // no token
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz_text(data, size);
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string header(text.substr(0, end)), body(text.substr(std::min(end + 1, text.size())));
  const Credential stored = if_valid(
      [&] { return stored_credential(parse_json(body, "fuzz"), "r.io", "team/app", "fuzz"); });
  const Credential printed = if_valid([&] { return helper_credential(body); });
  const Credential token{"", "", kSecret}, login{"user", kSecret, ""};
  for (const Credential& credential : {stored, printed, token, login}) {
    for (const char* origin : {"https://r.io", "http://r.io", "http://localhost:5000"}) {
      authenticate(credential, origin, header, body);
    }
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  const std::string bearer =
      "Bearer realm=\"https://auth.r.io/token\",service=\"r.io\",scope=\"x\"\n";
  return {{bearer + R"({"auths":{"https://r.io/v1/":{"auth":"dXNlcjpodW50ZXIy"}}})",
           bearer + R"({"token":"t","expires_in":300})",
           "Basic realm=x, Bearer realm=http://localhost:5000/t\n" +
               std::string(R"({"access_token":"t","expires_in":1e9})"),
           bearer + R"({"ServerURL":"r.io","Username":"user","Secret":"hunter2"})",
           "Basic realm=\"x\"\n" +
               std::string(R"({"auths":{"r.io/team":{"username":"<token>","password":"p"},
"r.io":{"identitytoken":"i"}},"credHelpers":{"r.io":"h"},"credsStore":"s"})")},
          {"Bearer ",     "Basic ",
           "realm=",      "https://",
           "http://",     "localhost",
           "\"",          "\\",
           ",",           "\n",
           "\"auths\":",  "\"auth\":",
           "\"token\":",  "\"Username\":",
           "\"Secret\":", "\"expires_in\":-1",
           "OnA=",        "null",
           "{}",          "[]",
           "?",           "#",
           "@",           "[::1]"}};
}
