#include "core/oci/credentials.h"

#include <optional>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/pipe.h"
#include "core/base/process.h"
#include "core/base/system.h"
#include "core/formats/base64.h"

namespace adaptdl::oci {
namespace {

constexpr size_t kMaxFile = 4u << 20, kMaxHelperAnswer = 1u << 20;
constexpr Seconds kHelperTimeout{60.0};  // it may ask the user
constexpr const char* kHubKey = "https://index.docker.io/v1/";
constexpr const char* kTokenUser = "<token>";

// The registry's name in docker's files and for its helpers.
std::string docker_key(const std::string& registry) {
  return registry == "docker.io" ? kHubKey : registry;
}

// The host of a key as "https://HOST/v1/", or "HOST/TEAM" as it is.
std::string plain_key(std::string key) {
  for (const char* scheme : {"https://", "http://"}) {
    if (key.starts_with(scheme)) {
      key.erase(0, std::string_view(scheme).size());
      return key.substr(0, key.find('/'));
    }
  }
  return key;
}

Credential from_pair(std::string username, std::string password) {
  if (username == kTokenUser) return {"", "", std::move(password)};
  return {std::move(username), std::move(password), ""};
}

Credential read_entry(const Json& entry, const std::string& where) {
  const auto token = json_get_or<std::string>(entry, "identitytoken", where, "");
  if (!token.empty()) return {"", "", token};
  const auto auth = json_get_or<std::string>(entry, "auth", where, "");
  if (auth.empty()) {
    return from_pair(json_get_or<std::string>(entry, "username", where, ""),
                     json_get_or<std::string>(entry, "password", where, ""));
  }
  std::string both = from_base64(auth, where + ": auth");
  while (!both.empty() && both.back() == '\0') both.pop_back();  // old versions of docker
  const size_t colon = both.find(':');
  if (colon == std::string::npos) fail("{}: auth: not USER:PASSWORD in base64", where);
  return from_pair(both.substr(0, colon), both.substr(colon + 1));
}

bool is_helper_name(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos;
}

// Nothing if the helper has no credential.
std::optional<Credential> ask_helper(const std::string& name, const std::string& key) {
  const std::string program = "docker-credential-" + name;
  try {
    auto [reader, writer] = Pipe();
    write_all(writer.get(), key, program);  // a name fits into any pipe
    writer.reset();
    SpawnOptions options;
    options.argv = {program, "get"};
    options.descriptors = {{reader.get(), 0}};
    const CapturedRun run = run_and_capture(options, kHelperTimeout, false, kMaxHelperAnswer);
    if (!run.status.success()) {
      if (run.output.find("credentials not found") != std::string::npos) return std::nullopt;
      fail("{}: {}", run.status.describe(), run.output.substr(0, run.output.find('\n')));
    }
    return helper_credential(run.output);
  } catch (const Error& error) {
    log_warning("{} get, for {}: {}; continuing without it", program, key, error.what());
    return std::nullopt;
  }
}

std::optional<Credential> from_helpers(const Json& file, const std::string& registry,
                                       const std::string& path) {
  const std::string key = docker_key(registry);
  const Json helpers = json_get_or<Json>(file, "credHelpers", path, Json::object());
  for (const std::string& name : {key, registry}) {
    const auto helper = json_get_or<std::string>(helpers, name, path + ": credHelpers", "");
    if (is_helper_name(helper)) return ask_helper(helper, key);
  }
  const auto store = json_get_or<std::string>(file, "credsStore", path, "");
  return is_helper_name(store) ? ask_helper(store, key) : std::nullopt;
}

}  // namespace

CredentialPlaces credential_places() {
  CredentialPlaces places;
  const std::string home = environment_variable("HOME").value_or("");
  if (const auto folder = environment_variable("DOCKER_CONFIG")) {
    places.files.push_back(join_path(*folder, "config.json"));
  } else if (!home.empty()) {
    places.files.push_back(join_path(home, ".docker/config.json"));
  }
  if (const auto file = environment_variable("REGISTRY_AUTH_FILE")) {
    places.files.push_back(*file);
    return places;
  }
  if (const auto runtime = environment_variable("XDG_RUNTIME_DIR")) {
    places.files.push_back(join_path(*runtime, "containers/auth.json"));
  }
  const auto config = environment_variable("XDG_CONFIG_HOME");
  if (config || !home.empty()) {
    places.files.push_back(
        join_path(config ? *config : join_path(home, ".config"), "containers/auth.json"));
  }
  return places;
}

Credential stored_credential(const Json& file, const std::string& registry,
                             const std::string& repository, std::string_view what) {
  const Json auths = json_get_or<Json>(file, "auths", what, Json::object());
  if (!auths.is_object()) fail("{}: auths: is not a mapping of registries", what);
  std::vector<std::string> names;
  for (std::string name = registry + "/" + repository; name.size() > registry.size();
       name.resize(name.rfind('/'))) {
    names.push_back(name);
  }
  names.push_back(registry);
  if (registry == "docker.io") names.insert(names.end(), {"index.docker.io"});
  for (const std::string& name : names) {
    for (const auto& [key, entry] : auths.items()) {
      if (plain_key(key) != name) continue;
      const Credential found = read_entry(entry, fmt::format("{}: auths: {}", what, key));
      if (!found.empty()) return found;
    }
  }
  return {};
}

Credential helper_credential(const std::string& answer) {
  const Json json = parse_json(answer, "its answer");
  return from_pair(json_get<std::string>(json, "Username", "its answer"),
                   json_get<std::string>(json, "Secret", "its answer"));
}

Credential find_credential(const std::string& registry, const std::string& repository,
                           const CredentialPlaces& places) {
  for (const std::string& path : places.files) {
    if (!path_exists(path)) continue;
    const Json file = parse_json(read_file(path, kMaxFile), path);
    if (!file.is_object()) fail("{}: is not a JSON object", path);
    const std::optional<Credential> helped = from_helpers(file, registry, path);
    if (helped && !helped->empty()) return *helped;
    const Credential found = stored_credential(file, registry, repository, path);
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace adaptdl::oci
