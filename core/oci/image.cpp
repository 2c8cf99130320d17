#include "core/oci/image.h"

#include <algorithm>
#include <chrono>
#include <sys/utsname.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/oci/digest.h"
#include "core/oci/media_types.h"

namespace adaptdl::oci {
namespace {

constexpr size_t kMaxConfig = 16u << 20;
constexpr size_t kMaxLayers = 1000;  // far more than any runtime supports

// Checks the descriptor of a layer or a config in a manifest.
void check_descriptor(const Json& descriptor, const std::string& what) {
  if (!is_digest(json_get<std::string>(descriptor, "digest", what))) {
    fail("{}: digest: only sha256 is supported", what);
  }
  json_get<uint64_t>(descriptor, "size", what);
  json_get<std::string>(descriptor, "mediaType", what);
}

std::string history_time() {
  return rfc3339(std::chrono::system_clock::from_time_t(source_date_epoch()), 0);
}

void add_history(Image& image, const std::string& made_by, bool empty) {
  Json entry = {{"created", history_time()}, {"created_by", made_by}};
  if (empty) entry["empty_layer"] = true;
  Json& history = image.config["history"];
  if (!history.is_array()) history = Json::array();
  history.push_back(entry);
}

Platform config_platform(const Json& config) {
  return {json_get_or<std::string>(config, "os", "config", "linux"),
          json_get_or<std::string>(config, "architecture", "config", ""),
          json_get_or<std::string>(config, "variant", "config", "")};
}

bool matches(const Platform& wanted, const Platform& there) {
  return wanted.os == there.os && wanted.architecture == there.architecture &&
         (wanted.variant.empty() || there.variant.empty() || wanted.variant == there.variant);
}

// The variant, also of an architecture whose name alone stands for one.
std::string_view variant_of(const Platform& platform) {
  if (!platform.variant.empty()) return platform.variant;
  if (platform.architecture == "amd64") return "v1";
  if (platform.architecture == "arm64") return "v8";
  return platform.architecture == "arm" ? "v7" : "";
}

// How far a platform that matches is from the wanted one: a higher variant may need instructions
// that the machine lacks, so it comes last.
int distance(const Platform& wanted, const Platform& there) {
  if (variant_of(wanted) == variant_of(there)) return 0;
  return there.variant.empty() ? 1 : 2;
}

}  // namespace

Platform this_platform() {
  utsname names{};
  uname(&names);
  const std::string machine = names.machine;
  if (machine == "x86_64") return {"linux", "amd64"};
  if (machine == "aarch64") return {"linux", "arm64"};
  return {"linux", machine};
}

Platform parse_platform(std::string_view text, std::string_view what) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == '/') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (parts.size() == 1) parts.insert(parts.begin(), "linux");
  const bool sound =
      parts.size() <= 3 &&
      std::none_of(parts.begin(), parts.end(), [](const auto& part) { return part.empty(); });
  if (!sound)
    fail("{}: {} is not a platform; write it like linux/amd64 or linux/arm64/v8", what, text);
  return {parts[0], parts[1], parts.size() == 3 ? parts[2] : ""};
}

std::string to_string(const Platform& platform) {
  return platform.os + "/" + platform.architecture +
         (platform.variant.empty() ? "" : "/" + platform.variant);
}

bool Image::is_docker() const {
  return media_type == kDockerManifest;
}

Image empty_image(const Platform& platform) {
  Image image;
  image.media_type = kOciManifest;
  image.manifest = {{"schemaVersion", 2}, {"mediaType", kOciManifest}, {"layers", Json::array()}};
  image.manifest["config"] = {{"mediaType", kOciConfig}};
  image.config = {{"created", history_time()},
                  {"os", platform.os},
                  {"architecture", platform.architecture},
                  {"config", Json::object()},
                  {"rootfs", {{"type", "layers"}, {"diff_ids", Json::array()}}},
                  {"history", Json::array()}};
  if (!platform.variant.empty()) image.config["variant"] = platform.variant;
  return image;
}

Image read_image(const Manifest& manifest, std::string_view config, std::string_view what) {
  const std::string where = fmt::format("{}: manifest", what);
  Image image;
  image.manifest = parse_json(manifest.text, where);
  image.media_type =
      json_get_or<std::string>(image.manifest, "mediaType", where, manifest.media_type);
  if (image.media_type != kOciManifest && image.media_type != kDockerManifest) {
    fail("{}: unsupported type \"{}\"; rebuild the image with a newer tool", where,
         image.media_type);
  }
  const Json layers = json_get<Json>(image.manifest, "layers", where);
  if (!layers.is_array() || layers.size() > kMaxLayers) {
    fail("{}: layers: is not a list, or is too long", where);
  }
  for (const Json& layer : layers) check_descriptor(layer, where + ": layers");
  check_descriptor(json_get<Json>(image.manifest, "config", where), where + ": config");
  const std::string in_config = fmt::format("{}: config", what);
  image.config = parse_json(config, in_config);
  const Json rootfs = json_get<Json>(image.config, "rootfs", in_config);
  const auto diff_ids = json_get<std::vector<std::string>>(rootfs, "diff_ids", in_config);
  if (diff_ids.size() != layers.size()) {
    fail("{}: is for {} layers, but the image has {}", in_config, diff_ids.size(), layers.size());
  }
  config_platform(image.config);
  const Json inner = json_get_or<Json>(image.config, "config", in_config, Json::object());
  json_get_or<std::vector<std::string>>(inner, "Env", in_config, {});
  return image;
}

std::string choose_manifest(std::string_view index, const Platform& platform,
                            std::string_view what) {
  const Json json = parse_json(index, what);
  std::string there, nearest;
  int least = 0;
  for (const Json& entry : json_get<std::vector<Json>>(json, "manifests", what)) {
    const Json described = json_get_or<Json>(entry, "platform", what, Json::object());
    const Platform found = config_platform(described);
    if (found.os == "unknown") continue;  // an attestation, not an image
    there += (there.empty() ? "" : ", ") + to_string(found);
    if (!matches(platform, found)) continue;
    const int away = distance(platform, found);
    if (!nearest.empty() && away >= least) continue;
    nearest = json_get<std::string>(entry, "digest", what);
    if (!is_digest(nearest)) fail("{}: digest: only sha256 is supported", what);
    least = away;
  }
  if (!nearest.empty()) return nearest;
  fail("{}: no image for {}; available: {}", what, to_string(platform),
       there.empty() ? "none" : there);
}

Image pull_image(std::shared_ptr<Registry> registry, const Reference& reference,
                 const Platform& platform) {
  const std::string what = to_string(reference);
  Manifest manifest = registry->manifest(reference.repository, reference.version());
  if (is_index(manifest.media_type) ||
      is_index(json_get_or<std::string>(parse_json(manifest.text, what), "mediaType", what, ""))) {
    manifest =
        registry->manifest(reference.repository, choose_manifest(manifest.text, platform, what));
  }
  const Json json = parse_json(manifest.text, what);
  const Json described = json_get_or<Json>(json, "config", what, Json::object());
  const auto digest = json_get_or<std::string>(described, "digest", what, "");
  if (!is_digest(digest)) {
    fail("{}: unknown or outdated image format; rebuild the image with a newer tool", what);
  }
  Image image =
      read_image(manifest, registry->blob(reference.repository, digest, kMaxConfig), what);
  const Platform found = config_platform(image.config);
  if (!matches(platform, found)) {
    fail("{}: is for {}, not {}; give a base image for that platform", what, to_string(found),
         to_string(platform));
  }
  image.source = std::move(registry);
  image.source_repository = reference.repository;
  return image;
}

void append_layer(Image& image, const LayerFile& layer, const std::string& made_by) {
  image.manifest["layers"].push_back({{"mediaType", image.is_docker() ? kDockerLayer : kOciLayer},
                                      {"digest", layer.digest},
                                      {"size", layer.size}});
  image.config["rootfs"]["diff_ids"].push_back(layer.diff_id);
  image.files[layer.digest] = layer.path;
  add_history(image, made_by, false);
}

Json& settings(Image& image) {
  Json& inner = image.config["config"];
  if (!inner.is_object()) inner = Json::object();
  return inner;
}

void note_setting(Image& image, const std::string& made_by) {
  add_history(image, made_by, true);
}

void set_environment(Image& image, const std::string& name, const std::string& value) {
  Json& list = settings(image)["Env"];
  if (!list.is_array()) list = Json::array();
  for (Json& entry : list) {
    if (entry.get<std::string>().starts_with(name + "=")) {
      entry = name + "=" + value;
      return;
    }
  }
  list.push_back(name + "=" + value);
}

std::string environment(const Image& image, const std::string& name) {
  const Json inner = json_get_or<Json>(image.config, "config", "config", Json::object());
  for (const auto& entry : json_get_or<std::vector<std::string>>(inner, "Env", "config", {})) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return "";
}

FinishedImage finish_image(const Image& image) {
  FinishedImage result;
  Json config = image.config;
  config["created"] = history_time();
  result.config = dump_json(config);
  Json manifest = image.manifest;
  Json& described = manifest["config"];
  if (!described.contains("mediaType")) {
    described["mediaType"] = image.is_docker() ? kDockerConfig : kOciConfig;
  }
  described["digest"] = digest_of(result.config);
  described["size"] = result.config.size();
  described.erase("data");  // a copy of the base's config
  result.manifest = dump_json(manifest);
  result.digest = digest_of(result.manifest);
  return result;
}

}  // namespace adaptdl::oci
