#pragma once

// Images as values: what a base is, with layers and settings added, ready to be pushed or written.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/json.h"
#include "core/oci/layer.h"
#include "core/oci/registry.h"

namespace adaptdl::oci {

// What an image runs on, in Go's words: linux, amd64, and for arm a variant: "v8".
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
  std::map<std::string, std::string> files;  // digest -> file, of layers that lie here
  // Where the other layers are. Shared: images made of one base ask the same registry.
  std::shared_ptr<Registry> source = {};
  std::string source_repository = {};

  bool is_docker() const;
};

// An image of nothing.
Image empty_image(const Platform& platform);

// From what a registry holds. Throws Error "WHAT: ..." for what is no such image: an old or unknown
// form, layers without digests, a config for another number of layers.
Image read_image(const Manifest& manifest, std::string_view config, std::string_view what);

// The digest of the index's manifest for the platform. Throws Error that lists what there is.
std::string choose_manifest(std::string_view index, const Platform& platform,
                            std::string_view what);

// What the registry has under that name, for the platform if it has several. Reads the manifest and
// the config alone. Throws Error, also if the image is for another platform.
Image pull_image(std::shared_ptr<Registry> registry, const Reference& reference,
                 const Platform& platform);

// Adds a layer, and says in the history what made it. The file stays where it is until the image
// is pushed or written.
void append_layer(Image& image, const LayerFile& layer, const std::string& made_by);

// The settings for containers, config.config: Env, Cmd, WorkingDir and so on.
Json& settings(Image& image);
// Says in the history what changed settings alone.
void note_setting(Image& image, const std::string& made_by);
void set_environment(Image& image, const std::string& name, const std::string& value);
// Of settings(image).Env; "" if unset.
std::string environment(const Image& image, const std::string& name);

// What is stored: the manifest's text, that of the config, and the manifest's digest.
struct FinishedImage {
  std::string manifest, config, digest;
};
FinishedImage finish_image(const Image& image);

}  // namespace adaptdl::oci
