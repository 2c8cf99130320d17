#pragma once

// The docker-registry of the distribution project, for tests.

#include <functional>
#include <memory>
#include <string>

#include "core/base/files.h"
#include "core/base/process.h"
#include "core/oci/registry.h"

namespace adaptdl::oci {

// What `tests` returns; without docker-registry in PATH they are skipped, aloud: 77.
int with_docker_registry(const std::function<int()>& tests);

// One of its own on a free port of 127.0.0.1, which ends with the object.
class DockerRegistry {
 public:
  DockerRegistry();

  Reference reference(const std::string& repository, const std::string& tag = "") const {
    return {name_, repository, tag, ""};
  }
  std::shared_ptr<Registry> open(const std::string& repository) const {
    return std::make_shared<Registry>(reference(repository), RegistryOptions{}, CredentialPlaces{});
  }
  // The stored bytes, from its folder.
  std::string stored(const std::string& digest) const;

 private:
  bool start();  // false if the port was taken meanwhile

  TemporaryDirectory folder_;
  std::string name_;
  Child child_;
};

}  // namespace adaptdl::oci
