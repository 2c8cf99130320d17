#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/kube/config.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz_text(data, size);
  set_log_level(LogLevel::error);
  try {
    const kube::Config config = kube::parse_config(text, "fuzz", {});
    ADAPTDL_CHECK(config.server.starts_with("http"));
    ADAPTDL_CHECK(!config.name_space.empty());
  } catch (const Error&) {
    // refused
  }
  try {
    kube::ExecPlugin plugin;
    plugin.api_version = "client.authentication.k8s.io/v1";
    const auto credential = kube::parse_exec_credential(text, plugin, "fuzz");
    ADAPTDL_CHECK(!credential.token.empty() || !credential.key.empty());
  } catch (const Error&) {
    // refused
  }
  if (const auto time = parse_rfc3339(text)) {
    ADAPTDL_CHECK(rfc3339(*time, 6).size() == 27);
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {{R"(current-context: a
clusters:
- name: b
  cluster: {server: "https://h:1", certificate-authority-data: UEVN, proxy-url: "http://p"}
contexts: [{name: a, context: {cluster: b, user: c, namespace: d}}]
users:
- name: c
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: ./x
      args: [a]
      env: [{name: A, value: b}]
      interactiveMode: Never
      provideClusterInfo: true
    as: boss
    as-groups: [g]
)",
           R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1",
"status":{"token":"t","expirationTimestamp":"2026-01-31T08:05:09.123Z"}})",
           "2026-01-31T08:05:09+02:00"},
          {"current-context:",
           "clusters:",
           "users:",
           "contexts:",
           "null",
           "~",
           "token: ",
           "insecure-skip-tls-verify: true",
           "auth-provider: {}",
           "tls-server-name",
           "- ",
           "\n",
           "{",
           "}",
           "[",
           "]",
           ": ",
           "-data",
           "Z",
           "2200-12-31T23:59:60Z"}};
}
