#include "core/kube/credentials.h"

#include "core/base/clock.h"
#include "core/base/files.h"
#include "tests/unit/base/expect_error.h"

namespace adaptdl::kube {
namespace {

std::string authorization(const Identity& identity) {
  for (const auto& [name, value] : identity.headers) {
    if (name == "Authorization") return value;
  }
  return "";
}

// A program that counts its runs in `count` and says what `answer` holds, $RUN replaced.
struct Program {
  explicit Program(const std::string& api = "v1") {
    write_file_atomic(folder.file("plugin"),
                      "#!/bin/sh\nprintf x >> \"$COUNT\"\nprintf '%s' \"$KUBERNETES_EXEC_INFO\" > "
                      "\"$COUNT.info\"\nif test -s \"$COUNT.fail\"; then exit 3; fi\n"
                      "sed \"s/RUN/$(wc -c < \"$COUNT\" | tr -d ' ')/\" \"$1\"\n",
                      0755);
    plugin.api_version = "client.authentication.k8s.io/" + api;
    plugin.command = folder.file("plugin");
    plugin.arguments = {folder.file("answer")};
    plugin.environment = {{"COUNT", folder.file("count")}};
    plugin.interaction = ExecPlugin::Interaction::never;
    plugin.install_hint = "get it from the shop";
  }

  void answers(const std::string& status, const std::string& api = "v1") const {
    write_file_atomic(folder.file("answer"),
                      R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/)" +
                          api + R"(","status":)" + status + "}");
  }
  size_t runs() const {
    return path_exists(folder.file("count")) ? read_file(folder.file("count"), 99).size() : 0;
  }
  Config config() const {
    Config config;
    config.server = "https://a";
    config.user.name = "u";
    config.user.exec = plugin;
    return config;
  }

  TemporaryDirectory folder;
  ExecPlugin plugin;
};

std::string in_seconds(int seconds) {
  return rfc3339(std::chrono::system_clock::now() + std::chrono::seconds(seconds), 0);
}

}  // namespace

TEST_CASE("a token of a file is read again after a 401") {
  const TemporaryDirectory folder;
  Config config;
  config.server = "https://a";
  config.user.token_file = folder.file("token");
  config.user.token = "of the kubeconfig";
  Credentials credentials(config);
  CHECK_ERROR(credentials.current(), "token");
  write_file_atomic(folder.file("token"), "\n");
  CHECK_ERROR(credentials.current(), "is empty");
  write_file_atomic(folder.file("token"), "one\n");
  const Identity first = credentials.current();
  CHECK(authorization(first) == "Bearer one");
  CHECK_FALSE(credentials.renew(first));
  write_file_atomic(folder.file("token"), "two");
  CHECK(credentials.renew(first));
  CHECK(credentials.renew(first));  // by the thread that was slower
  CHECK(authorization(credentials.current()) == "Bearer two");
  remove_tree(folder.file("token"));
  CHECK_FALSE(credentials.renew(credentials.current()));
  CHECK(authorization(credentials.current()) == "Bearer two");
}

TEST_CASE("certificates and basic authentication; nothing over plain HTTP") {
  const TemporaryDirectory folder;
  write_file_atomic(folder.file("crt"), "C");
  write_file_atomic(folder.file("key"), "K");
  Config config;
  config.server = "https://a";
  config.user.certificate_file = folder.file("crt");
  config.user.key_file = folder.file("key");
  config.user.login = "Aladdin";
  config.user.password = "open sesame";
  config.user.impersonation = {{"Impersonate-User", "x"}};
  const Identity identity = Credentials(config).current();
  CHECK(identity.certificate == "C");
  CHECK(identity.key == "K");
  CHECK(authorization(identity) == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");  // RFC 7617
  CHECK(identity.headers.back().second == "x");
  config.server = "http://a";
  CHECK(Credentials(config).current() == Identity());
}

TEST_CASE("a program is run once, again when its answer expires or is refused") {
  Program program;
  program.answers(R"({"token":"RUN"})");
  Credentials credentials(program.config());
  const Identity first = credentials.current();
  CHECK(authorization(first) == "Bearer 1");
  CHECK(authorization(credentials.current()) == "Bearer 1");
  CHECK(program.runs() == 1);
  CHECK(credentials.renew(first));
  CHECK(authorization(credentials.current()) == "Bearer 2");
  CHECK(program.runs() == 2);

  program.answers(R"({"clientCertificateData":"C","clientKeyData":"K","expirationTimestamp":")" +
                  in_seconds(3600) + "\"}");
  CHECK(credentials.renew(credentials.current()));
  CHECK(credentials.current().certificate == "C");
  CHECK(credentials.current().key == "K");
  CHECK(authorization(credentials.current()).empty());
  CHECK(program.runs() == 3);
  program.answers(R"({"token":"RUN","expirationTimestamp":")" + in_seconds(-10) + "\"}");
  CHECK(credentials.renew(credentials.current()));
  const size_t before = program.runs();
  credentials.current();
  CHECK(program.runs() == before + 1);
}

TEST_CASE("a program is told what it needs to know") {
  Program program("v1beta1");
  program.plugin.cluster = Json{{"server", "https://a"}, {"config", {{"audience", "x"}}}};
  program.answers(R"({"token":"t"})", "v1beta1");
  CHECK(run_exec_plugin(program.plugin, "u").token == "t");
  CHECK(Json::parse(read_file(program.folder.file("count.info"), 4096)) == Json::parse(R"({
    "kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1",
    "spec": {"interactive": false,
             "cluster": {"server": "https://a", "config": {"audience": "x"}}}})"));
}

TEST_CASE("a program that fails is an Error that says what to do") {
  Program program;
  program.answers(R"({"token":"t"})", "v1beta1");
  const auto run = [&] { run_exec_plugin(program.plugin, "u"); };
  CHECK_ERROR(run(),
              "its output has the apiVersion client.authentication.k8s.io/v1beta1, but the "
              "kubeconfig expects");
  program.answers(R"({"token":""})");
  CHECK_ERROR(run(), "neither a token nor a certificate");
  program.answers(R"({"token":"t","clientKeyData":"K"})");
  CHECK_ERROR(run(), "only one of certificate and key");
  program.answers(R"({"token":["secret"]})");
  CHECK_ERROR(run(), "token in its output is not text");
  program.answers("null");
  CHECK_ERROR(run(), "has no status");
  program.answers(R"({"token":"t","expirationTimestamp":"soon"})");
  CHECK_ERROR(run(), "soon is not an RFC 3339 time");
  write_file_atomic(program.folder.file("answer"), "{secret");
  const std::string message = error_of(run);
  CHECK(contains(message, "its output is not JSON"));
  CHECK_FALSE(contains(message, "secret"));
  write_file_atomic(program.folder.file("count.fail"), "x");
  CHECK_ERROR(run(), "exit code 3\nget it from the shop");
  program.plugin.command = "adaptdl-no-such-program";
  CHECK_ERROR(run(), "get it from the shop");
}

}  // namespace adaptdl::kube
