#include "core/oci/saved_image.h"

#include <fcntl.h>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/oci/digest.h"
#include "core/oci/media_types.h"
#include "core/oci/untar.h"

namespace adaptdl::oci {
namespace {

constexpr size_t kMaxText = 16u << 20;
constexpr const char* kPlainLayer = "application/vnd.oci.image.layer.v1.tar";

// A file that the archive names; it must be below the folder.
std::string inside(const std::string& folder, const std::string& name, const std::string& path) {
  const std::string file = join_path(folder, name);
  std::error_code error;
  const std::string real = std::filesystem::canonical(file, error).string();
  const std::string top = std::filesystem::canonical(folder).string() + "/";
  if (error || !real.starts_with(top))
    fail("{}: manifest.json names {}, which is not in the archive", path, name);
  return real;
}

}  // namespace

Image read_saved_image(const std::string& path, const std::string& folder) {
  const Fd file = open_file(path, O_RDONLY);
  untar(read_descriptor(file.get(), path), folder);
  const std::string what = path + ": manifest.json";
  const Json saved = parse_json(read_file(inside(folder, "manifest.json", path), kMaxText), what);
  if (!saved.is_array() || saved.size() != 1)
    fail("{}: the archive has {} images, expected one", what, saved.size());
  const std::string config =
      read_file(inside(folder, json_get<std::string>(saved[0], "Config", what), path), kMaxText);
  const Json parsed = parse_json(config, path + ": config");
  const auto diff_ids = json_get<std::vector<std::string>>(json_get<Json>(parsed, "rootfs", what),
                                                           "diff_ids", path + ": config");
  Json layers = Json::array();
  std::map<std::string, std::string> files;
  for (const auto& name : json_get<std::vector<std::string>>(saved[0], "Layers", what)) {
    const std::string layer = inside(folder, name, path);
    const std::string digest = digest_of_file(layer);
    const bool plain = layers.size() < diff_ids.size() && diff_ids[layers.size()] == digest;
    layers.push_back({{"mediaType", plain ? kPlainLayer : kOciLayer},
                      {"digest", digest},
                      {"size", std::filesystem::file_size(layer)}});
    files[digest] = layer;
  }
  const Json manifest = {
      {"schemaVersion", 2},
      {"mediaType", kOciManifest},
      {"config",
       {{"mediaType", kOciConfig}, {"digest", digest_of(config)}, {"size", config.size()}}},
      {"layers", layers}};
  Image image = read_image({kOciManifest, "", dump_json(manifest)}, config, path);
  image.files = std::move(files);
  return image;
}

}  // namespace adaptdl::oci
