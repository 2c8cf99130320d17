#pragma once

// SHA-256 as registries write it: "sha256:" and 64 lower-case hexadecimal digits.

#include <memory>
#include <string>
#include <string_view>

namespace adaptdl::oci {

// Digests bytes that come in pieces. One thread.
class Digester {
 public:
  Digester();
  ~Digester();
  Digester(Digester&&) noexcept;
  Digester& operator=(Digester&&) noexcept;

  void add(std::string_view bytes);
  // The digest of everything added; add nothing after it.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string digest_of(std::string_view bytes);

// Throws Error as reading the file does.
std::string digest_of_file(const std::string& path);

}  // namespace adaptdl::oci
