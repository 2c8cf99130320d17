#include "core/base/crypto.h"

#include <cerrno>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include "core/base/error.h"

namespace adaptdl {

namespace {

// Otherwise OpenSSL would read the machine's openssl.cnf, which may load modules.
void prepare_openssl() {
  static const bool done = OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr) == 1;
  ADAPTDL_CHECK(done);
}

}  // namespace

Sha256Digest hmac_sha256(std::span<const uint8_t> key, std::span<const uint8_t> message) {
  prepare_openssl();
  // A null key means "the previous key" to OpenSSL, so an empty one still needs an address.
  static const uint8_t nothing = 0;
  Sha256Digest digest{};
  unsigned int length = 0;
  const uint8_t* result =
      HMAC(EVP_sha256(), key.empty() ? &nothing : key.data(), static_cast<int>(key.size()),
           message.empty() ? &nothing : message.data(), message.size(), digest.data(), &length);
  ADAPTDL_CHECK(result != nullptr && length == digest.size());
  return digest;
}

Sha256Digest sha256(std::span<const uint8_t> message) {
  prepare_openssl();
  Sha256Digest digest{};
  unsigned int length = 0;
  const int ok =
      EVP_Digest(message.data(), message.size(), digest.data(), &length, EVP_sha256(), nullptr);
  ADAPTDL_CHECK(ok == 1 && length == digest.size());
  return digest;
}

struct Sha256::State {
  State() : context(EVP_MD_CTX_new()) {
    prepare_openssl();
    ADAPTDL_CHECK(context != nullptr);
    ADAPTDL_CHECK(EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1);
  }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  EVP_MD_CTX* context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::add(std::string_view bytes) {
  ADAPTDL_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

Sha256Digest Sha256::finish() {
  Sha256Digest digest{};
  ADAPTDL_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), nullptr) == 1);
  return digest;
}

bool equal_constant_time(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  if (a.size() != b.size()) return false;
  return a.empty() || CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void random_bytes(std::span<uint8_t> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = getrandom(bytes.data() + done, bytes.size() - done, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      fail_errno(errno, "cannot read random bytes from the kernel");
    }
    done += static_cast<size_t>(got);
  }
}

std::vector<uint8_t> random_bytes(size_t count) {
  std::vector<uint8_t> bytes(count);
  random_bytes(std::span<uint8_t>(bytes));
  return bytes;
}

std::string to_hex(std::span<const uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::vector<uint8_t> from_hex(std::string_view text, std::string_view what) {
  const auto digit = [&](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    fail("{}: not hexadecimal digits", what);
  };
  if (text.size() % 2 != 0) fail("{}: an odd number of hexadecimal digits", what);
  std::vector<uint8_t> bytes(text.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(digit(text[2 * i]) * 16 + digit(text[2 * i + 1]));
  }
  return bytes;
}

}  // namespace adaptdl
