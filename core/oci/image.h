#pragma once

// Images as values: a base image plus added layers and settings, ready to be pushed or written.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/json.h"
#include "core/oci/layer.h"
#include "core/oci/registry.h"

namespace adaptdl::oci {

// An image's platform, in Go's names: linux, amd64, and for arm a variant such as "v8".
struct Platform {
  std::string os = "linux";
  std::string architecture, variant = {};

  bool operator==(const Platform&) const = default;
};
Platform this_platform();
// "linux/arm64/v8", "linux/amd64", or an architecture alone. Throws Error "WHAT: ...".
Platform parse_platform(std::string_view text, std::string_view what);
std::string to_string(const Platform& platform);

// Invariant: the manifest has a list of layers with media type, digest and size, and the config
// has as many diff_ids; fields that this program does not know stay as they are.
struct Image {
  std::string media_type;  // the manifest's: kOciManifest or kDockerManifest
  Json manifest;
  Json config;
  std::map<std::string, std::string> files;  // digest -> file, of local layers
  // The registry of the other layers. Shared: images made of one base use the same registry.
  std::shared_ptr<Registry> source = {};
  std::string source_repository = {};

  bool is_docker() const;
};

// An image without layers.
Image empty_image(const Platform& platform);

// Reads an image from its manifest and config. Throws Error "WHAT: ..." for an old or unknown
// format, layers without digests, or a config for another number of layers.
Image read_image(const Manifest& manifest, std::string_view config, std::string_view what);

// The digest of the index's manifest for the platform: that variant (of "amd64" v1, of "arm64" v8),
// else one without a variant, else any if none is wanted. If there is none, the Error lists the
// available platforms.
std::string choose_manifest(std::string_view index, const Platform& platform,
                            std::string_view what);

// Reads the image of that name, for the platform if the registry has several. Downloads only the
// manifest and the config. Throws Error, also if the image is for another platform.
Image pull_image(std::shared_ptr<Registry> registry, const Reference& reference,
                 const Platform& platform);

// Adds a layer, and a history entry with `made_by`. The file must exist until the image is pushed
// or written.
void append_layer(Image& image, const LayerFile& layer, const std::string& made_by);

// The settings for containers, config.config: Env, Cmd, WorkingDir and so on.
Json& settings(Image& image);
// Adds a history entry for a change of settings only.
void note_setting(Image& image, const std::string& made_by);
void set_environment(Image& image, const std::string& name, const std::string& value);
// A value from settings(image).Env; "" if unset.
std::string environment(const Image& image, const std::string& name);

// What a registry stores: the texts of the manifest and the config, and the manifest's digest.
struct FinishedImage {
  std::string manifest, config, digest;
};
FinishedImage finish_image(const Image& image);

}  // namespace adaptdl::oci
