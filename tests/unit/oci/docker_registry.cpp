#include "tests/unit/oci/docker_registry.h"

#include <arpa/inet.h>
#include <cstdio>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>

#include "core/base/error.h"
#include "core/base/system.h"
#include "core/net/http.h"

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
  ADAPTDL_CHECK(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  ADAPTDL_CHECK(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return ntohs(address.sin_port);
}

}  // namespace

int with_docker_registry(const std::function<int()>& tests) {
  if (has_program()) return tests();
  std::fputs("SKIPPED: there is no docker-registry in PATH; install the package of that name\n",
             stderr);
  return kSkipped;
}

DockerRegistry::DockerRegistry() {
  for (int tried = 0; tried < 3 && !start(); ++tried) {
  }
  if (!child_.running()) fail("docker-registry does not start");
}

std::string DockerRegistry::stored(const std::string& digest) const {
  const std::string hex = digest.substr(7);
  return read_file(fmt::format("{}/docker/registry/v2/blobs/sha256/{}/{}/data", folder_.path(),
                               hex.substr(0, 2), hex),
                   1u << 30);
}

bool DockerRegistry::start() {
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

}  // namespace adaptdl::oci
