// Against the docker-registry of the distribution project, which checks what it stores by itself.
// Without it in PATH the test is skipped.

#define DOCTEST_CONFIG_IMPLEMENT
#include "tests/unit/oci/docker_registry.h"

#include <cstdio>
#include <doctest/doctest.h>

#include "core/base/files.h"
#include "core/oci/digest.h"
#include "core/oci/image.h"
#include "core/oci/image_output.h"
#include "core/oci/media_types.h"

namespace adaptdl::oci {
namespace {

std::string noise(size_t size) {
  std::string bytes(size, '\0');
  uint64_t state = 88172645463325252u;
  for (char& byte : bytes) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    byte = static_cast<char>(state);
  }
  return bytes;
}

void check_stored(const DockerRegistry& real, const PushedImage& pushed, const std::string& type) {
  const std::string text = real.stored(pushed.reference.digest);
  CHECK(digest_of(text) == pushed.reference.digest);
  const Json manifest = Json::parse(text);
  CHECK(manifest["mediaType"] == type);
  std::vector<Json> parts = manifest["layers"].get<std::vector<Json>>();
  parts.push_back(manifest["config"]);
  for (const Json& part : parts) {
    const auto digest = part["digest"].get<std::string>();
    const std::string bytes = real.stored(digest);
    CHECK(digest_of(bytes) == digest);
    CHECK(bytes.size() == part["size"]);
  }
}

}  // namespace

TEST_CASE("what is pushed is stored whole, comes back, and is not sent twice") {
  const DockerRegistry real;
  TemporaryDirectory folder;
  const LayerFile large =
      write_layer({{"data", TarEntry::Kind::bytes, noise(40'000'000)}}, folder.file("large"));
  const LayerFile small = write_layer({{"adaptdl-app/main.py", TarEntry::Kind::bytes, "print()"}},
                                      folder.file("small"));
  for (const bool docker : {false, true}) {
    CAPTURE(docker);
    const std::string type = docker ? kDockerManifest : kOciManifest;
    const std::string repository = docker ? "team/docker" : "team/oci";
    Image base = empty_image({"linux", "amd64"});
    if (docker) {
      base.media_type = kDockerManifest;
      base.manifest["mediaType"] = kDockerManifest;
      base.manifest["config"]["mediaType"] = kDockerConfig;
    }
    append_layer(base, large, "test: the base");
    const PushedImage first = push_image(base, *real.open(repository), real.reference(repository));
    CHECK(first.bytes_sent > 40'000'000);
    check_stored(real, first, type);

    for (int time = 0; time < 2; ++time) {
      Image image = pull_image(real.open(repository), first.reference, {"linux", "amd64"});
      append_layer(image, small, "test: the project");
      settings(image)["WorkingDir"] = "/adaptdl-app";
      // Into the base's own repository, and into another, where the base is mounted.
      for (const std::string& target : {repository, repository + "/app"}) {
        CAPTURE(target);
        const PushedImage pushed = push_image(image, *real.open(target), real.reference(target));
        CHECK(pushed.bytes_sent < (time == 0 ? small.size + 4096 : 1));
        check_stored(real, pushed, type);
        const Image back = pull_image(real.open(target), pushed.reference, {"linux", "amd64"});
        CHECK(back.config == Json::parse(finish_image(image).config));
        const std::string file = folder.file("back");
        real.open(target)->download(target, large.digest, large.size, file);
        CHECK(digest_of_file(file) == large.digest);
      }
    }
  }
}

}  // namespace adaptdl::oci

int main(int argc, char** argv) {
  return adaptdl::oci::with_docker_registry([&] { return doctest::Context(argc, argv).run(); });
}
