// Against the docker-registry of the distribution project, which checks what it stores by itself.
// Without it in PATH the test is skipped.

#define DOCTEST_CONFIG_IMPLEMENT
#include <arpa/inet.h>
#include <cstdio>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>

#include "core/base/files.h"
#include "core/base/process.h"
#include "core/base/system.h"
#include "core/oci/digest.h"
#include "core/oci/image.h"
#include "core/oci/media_types.h"

namespace adaptdl::oci {
namespace {

constexpr int kSkipped = 77;  // as Meson has it

bool has_program() {
  const std::string path = environment_variable("PATH").value_or("");
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    if (path_exists(join_path(path.substr(at, end - at), "docker-registry"))) return true;
    at = end + 1;
  }
  return false;
}

uint16_t free_port() {
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return ntohs(address.sin_port);
}

class DockerRegistry {
 public:
  DockerRegistry() {
    for (int tried = 0; tried < 3 && !start(); ++tried) {
    }
    REQUIRE(child_.running());
  }

  Reference reference(const std::string& repository, const std::string& tag = "") const {
    return {name_, repository, tag, ""};
  }
  std::shared_ptr<Registry> open(const std::string& repository) const {
    return std::make_shared<Registry>(reference(repository), RegistryOptions{}, CredentialPlaces{});
  }
  // The stored bytes, from its folder.
  std::string stored(const std::string& digest) const {
    const std::string hex = digest.substr(7);
    return read_file(fmt::format("{}/docker/registry/v2/blobs/sha256/{}/{}/data", folder_.path(),
                                 hex.substr(0, 2), hex),
                     1u << 30);
  }

 private:
  // False if the port was taken meanwhile.
  bool start() {
    name_ = fmt::format("127.0.0.1:{}", free_port());
    const std::string config = folder_.file("config.yml");
    replace_file(config, fmt::format("version: 0.1\nlog: {{level: error, accesslog: {{disabled: "
                                     "true}}}}\nstorage:\n  filesystem: "
                                     "{{rootdirectory: {}}}\nhttp: {{addr: {}}}\n",
                                     folder_.path(), name_));
    SpawnOptions options;
    options.argv = {"docker-registry", "serve", config};
    child_ = spawn(options);
    HttpClient client;
    while (!child_.poll()) {
      try {
        if (client.send({.url = "http://" + name_ + "/v2/"}).ok()) return true;
      } catch (const HttpError&) {  // not yet
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    }
    return false;
  }

  TemporaryDirectory folder_;
  std::string name_;
  Child child_;
};

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
    const std::string bytes = real.stored(part["digest"]);
    CHECK(digest_of(bytes) == part["digest"]);
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
  if (!adaptdl::oci::has_program()) {
    std::fputs("SKIPPED: there is no docker-registry in PATH; install the package of that name\n",
               stderr);
    return adaptdl::oci::kSkipped;
  }
  return doctest::Context(argc, argv).run();
}
