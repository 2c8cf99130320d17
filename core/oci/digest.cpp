#include "core/oci/digest.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <openssl/evp.h>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl::oci {

struct Digester::State {
  State() : context(EVP_MD_CTX_new()) {
    ADAPTDL_CHECK(context != nullptr);
    ADAPTDL_CHECK(EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1);
  }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  EVP_MD_CTX* context;
};

Digester::Digester() : state_(std::make_unique<State>()) {}
Digester::~Digester() = default;
Digester::Digester(Digester&&) noexcept = default;
Digester& Digester::operator=(Digester&&) noexcept = default;

void Digester::add(std::string_view bytes) {
  ADAPTDL_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Digester::finish() {
  Sha256Digest digest;
  ADAPTDL_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), nullptr) == 1);
  return "sha256:" + to_hex(digest);
}

std::string digest_of(std::string_view bytes) {
  return "sha256:" + to_hex(sha256(bytes_of(bytes)));
}

std::string digest_of_file(const std::string& path) {
  const Fd file = open_file(path, O_RDONLY);
  Digester digester;
  std::array<char, 1 << 16> piece;
  for (;;) {
    const ssize_t size = ::read(file.get(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) fail_errno(errno, path + ": cannot read");
    if (size == 0) return digester.finish();
    digester.add({piece.data(), static_cast<size_t>(size)});
  }
}

}  // namespace adaptdl::oci
