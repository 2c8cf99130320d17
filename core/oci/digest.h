#pragma once

// SHA-256 as registries write it: "sha256:" and 64 lower-case hexadecimal digits.

#include <string>
#include <string_view>

#include "core/base/crypto.h"

namespace adaptdl::oci {

// Digests bytes that come in pieces. One thread.
class Digester {
 public:
  void add(std::string_view bytes) { state_.add(bytes); }
  // The digest of everything added; add nothing after it.
  std::string finish();

 private:
  Sha256 state_;
};

std::string digest_of(std::string_view bytes);

// Throws Error as reading the file does.
std::string digest_of_file(const std::string& path);

}  // namespace adaptdl::oci
