#include "core/oci/credentials.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "core/base/files.h"
#include "core/base/log.h"
#include "tests/unit/base/expect_error.h"

namespace adaptdl::oci {
namespace {

// A variable for as long as this lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    const char* before = getenv(name);
    had_ = before != nullptr;
    if (had_) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (had_) {
      setenv(name_, before_.c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* name_;
  bool had_ = false;
  std::string before_;
};

std::string found(const std::string& json, const std::string& registry,
                  const std::string& repository = "a/b") {
  const Credential credential =
      stored_credential(parse_json(json, "file"), registry, repository, "file");
  return credential.username + "|" + credential.password + "|" + credential.identity_token;
}

void write_helper(const TemporaryDirectory& folder, const std::string& name,
                  const std::string& script) {
  const std::string path = folder.file("docker-credential-" + name);
  replace_file(path, "#!/bin/sh\n" + script);
  REQUIRE(chmod(path.c_str(), 0755) == 0);
}

}  // namespace

TEST_CASE("what is written down is found by host, with scheme, and by the longest name") {
  CHECK(found(R"({"auths":{"r.io":{"auth":"bWU6aTp0"}}})", "r.io") == "me|i:t|");
  CHECK(found(R"({"auths":{"https://r.io/v1/":{"auth":"bWU6aXQ="}}})", "r.io") == "me|it|");
  CHECK(found(R"({"auths":{"https://index.docker.io/v1/":{"auth":"bWU6aXQ="}}})", "docker.io") ==
        "me|it|");
  CHECK(found(R"({"auths":{"r.io":{"username":"u","password":"p"}}})", "r.io") == "u|p|");
  CHECK(found(R"({"auths":{"r.io":{"auth":"bWU6aXQ=","identitytoken":"t"}}})", "r.io") == "||t");
  CHECK(found(R"({"auths":{"r.io":{"username":"<token>","password":"t"}}})", "r.io") == "||t");
  const char* several = R"({"auths":{"r.io":{"username":"host","password":"p"},
      "r.io/a":{"username":"team","password":"p"}}})";
  CHECK(found(several, "r.io", "a/b") == "team|p|");
  CHECK(found(several, "r.io", "ab/b") == "host|p|");
  CHECK(found(several, "q.io") == "||");
  CHECK(found(R"({"auths":{"r.io":{}}})", "r.io") == "||");
  CHECK(found("{}", "r.io") == "||");
}

TEST_CASE("what is wrong in a file is said without its secrets") {
  CHECK_ERROR(found(R"({"auths":{"r.io":{"auth":"!geheim"}}})", "r.io"), "file: auths: r.io: auth");
  const std::string message =
      error_of([] { found(R"({"auths":{"r.io":{"auth":"Z2VoZWlt"}}})", "r.io"); });
  CHECK(contains(message, "not USER:PASSWORD"));
  CHECK_FALSE(contains(message, "geheim"));
  CHECK_ERROR(found(R"({"auths":[]})", "r.io"), "auths");
}

TEST_CASE("helpers are asked by docker's name of the registry, one of its own first") {
  TemporaryDirectory folder;
  write_helper(folder, "one",
               "read -r host; echo \"{\\\"Username\\\":\\\"$1\\\",\\\"Secret\\\":\\\"$host\\\"}\"");
  write_helper(folder, "token",
               "cat >/dev/null; echo '{\"Username\":\"<token>\",\"Secret\":\"t\"}'");
  write_helper(folder, "empty",
               "cat >/dev/null; echo credentials not found in native keychain; exit 1");
  write_helper(folder, "broken", "cat >/dev/null; echo no; exit 3");
  const Variable path("PATH", folder.path() + ":" + getenv("PATH"));
  const std::string file = folder.file("config.json");
  const CredentialPlaces places{{folder.file("none.json"), file}};
  replace_file(file, R"({"credsStore":"one","credHelpers":{"r.io":"token"}})");
  Credential credential = find_credential("docker.io", "a", places);
  CHECK(credential.username == "get");
  CHECK(credential.password == "https://index.docker.io/v1/");
  CHECK(find_credential("r.io", "a", places).identity_token == "t");
  CHECK(find_credential("q.io", "a", places).password == "q.io");

  set_log_level(LogLevel::error);  // their failures are warned of
  for (const char* helper : {"empty", "broken", "missing", "../one"}) {
    CAPTURE(helper);
    replace_file(
        file,
        fmt::format(R"({{"credsStore":"{}","auths":{{"r.io":{{"username":"u","password":"p"}}}}}})",
                    helper));
    CHECK(find_credential("r.io", "a", places).username == "u");
  }
  set_log_level(LogLevel::info);
  replace_file(file, "[]");
  CHECK_ERROR(find_credential("r.io", "a", places), "config.json");
  CHECK(find_credential("r.io", "a", {}).empty());
}

TEST_CASE("the places are docker's, then podman's") {
  const Variable home("HOME", "/h"), docker("DOCKER_CONFIG", ""), file("REGISTRY_AUTH_FILE", ""),
      runtime("XDG_RUNTIME_DIR", "/r"), config("XDG_CONFIG_HOME", "");
  CHECK(credential_places().files == std::vector<std::string>{"/h/.docker/config.json",
                                                              "/r/containers/auth.json",
                                                              "/h/.config/containers/auth.json"});
  const Variable other("DOCKER_CONFIG", "/d"), given("REGISTRY_AUTH_FILE", "/auth");
  CHECK(credential_places().files == std::vector<std::string>{"/d/config.json", "/auth"});
}

}  // namespace adaptdl::oci
