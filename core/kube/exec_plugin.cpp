#include "core/kube/exec_plugin.h"

#include <fcntl.h>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/process.h"
#include "core/base/system.h"

namespace adaptdl::kube {
namespace {

// Long enough to log in with a browser.
constexpr Seconds kPatience{600.0};
constexpr size_t kMaxPluginAnswer = 1u << 20;

std::string hint(const ExecPlugin& plugin) {
  return plugin.install_hint.empty() ? "" : "\n" + plugin.install_hint;
}

}  // namespace

ExecCredential run_exec_plugin(const ExecPlugin& plugin, const std::string& user) {
  using Interaction = ExecPlugin::Interaction;
  const std::string what = fmt::format("user {}: {}", user, plugin.command);
  const bool interactive = plugin.interaction != Interaction::never && is_terminal(0);
  if (plugin.interaction == Interaction::always && !interactive) {
    fail("{}: it needs a terminal, but standard input is not one", what);
  }
  Json spec{{"interactive", interactive}};
  if (!plugin.cluster.is_null()) spec["cluster"] = plugin.cluster;
  const Json info{
      {"kind", "ExecCredential"}, {"apiVersion", plugin.api_version}, {"spec", std::move(spec)}};

  SpawnOptions options;
  options.argv = {plugin.command};
  options.argv.insert(options.argv.end(), plugin.arguments.begin(), plugin.arguments.end());
  std::vector<std::pair<std::string, std::optional<std::string>>> environment;
  for (const auto& [name, value] : plugin.environment) environment.emplace_back(name, value);
  environment.emplace_back("KUBERNETES_EXEC_INFO", dump_json(info));
  options.environment = environment_with(environment);
  Fd nothing;
  if (!interactive) {
    nothing = open_file("/dev/null", O_RDONLY);
    options.descriptors.emplace_back(nothing.get(), 0);
  }
  CapturedRun run;
  try {
    run = run_and_capture(options, kPatience, false, kMaxPluginAnswer);
  } catch (const Error& error) {
    throw Error(fmt::format("user {}: {}{}", user, error.what(), hint(plugin)), ExitCode::auth);
  }
  if (!run.status.success()) {
    throw Error(fmt::format("{}: {}{}", what, run.status.describe(), hint(plugin)), ExitCode::auth);
  }
  return parse_exec_credential(run.output, plugin, what);
}

ExecCredential parse_exec_credential(std::string_view text, const ExecPlugin& plugin,
                                     const std::string& what) {
  Json answer;
  try {
    answer = parse_json(text, what, {kMaxPluginAnswer, 16});
  } catch (const Error&) {
    fail("{}: its output is not JSON", what);  // the reason would quote it, maybe a secret
  }
  const auto kind = json_get_or<std::string>(answer, "kind", what, "");
  if (kind != "ExecCredential") fail("{}: its output is not an ExecCredential", what);
  const auto version = json_get_or<std::string>(answer, "apiVersion", what, "");
  if (version != plugin.api_version) {
    fail(
        "{}: its output has the apiVersion {}, but the kubeconfig expects {}; set the same "
        "apiVersion there",
        what, version, plugin.api_version);
  }
  const auto status = json_find<Json>(answer, "status", what);
  if (!status || !status->is_object()) fail("{}: its output has no status", what);
  const auto read = [&](const char* key) {
    const auto found = status->find(key);
    if (found == status->end() || found->is_null()) return std::string();
    if (!found->is_string()) fail("{}: {} in its output is not text", what, key);
    return found->get<std::string>();
  };
  ExecCredential credential;
  credential.token = read("token");
  credential.certificate = read("clientCertificateData");
  credential.key = read("clientKeyData");
  if (credential.certificate.empty() != credential.key.empty()) {
    fail("{}: its output has only one of certificate and key", what);
  }
  if (credential.token.empty() && credential.key.empty()) {
    fail("{}: its output has neither a token nor a certificate", what);
  }
  const std::string expires = read("expirationTimestamp");
  if (!expires.empty()) {
    credential.expires = parse_rfc3339(expires);
    if (!credential.expires) {
      fail("{}: expirationTimestamp {} is not an RFC 3339 time", what, expires);
    }
  }
  return credential;
}

}  // namespace adaptdl::kube
