#include "core/net/certificates.h"

#include <ctime>
#include <memory>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "core/base/crypto.h"
#include "core/base/error.h"

namespace adaptdl {

namespace {

constexpr double kEarlier = 300;  // s that a certificate is valid before its creation
constexpr size_t kSerialBytes = 16;

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using Cert = std::unique_ptr<X509, Deleter<X509_free>>;
using Bio = std::unique_ptr<BIO, Deleter<BIO_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Deleter<X509_EXTENSION_free>>;
using Number = std::unique_ptr<BIGNUM, Deleter<BN_free>>;

Bio reader(std::string_view text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

template <typename Write>
std::string written(Write write) {
  const Bio text(BIO_new(BIO_s_mem()));
  ADAPTDL_CHECK(text != nullptr && write(text.get()) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(text.get(), &data);
  return {data, static_cast<size_t>(size)};
}

Cert read_certificate(std::string_view pem) {
  return Cert(PEM_read_bio_X509(reader(pem).get(), nullptr, nullptr, nullptr));
}

void set_time(ASN1_TIME* time, double at_s) {
  ADAPTDL_CHECK(ASN1_TIME_set(time, static_cast<time_t>(at_s)) != nullptr);
}

void add_extension(X509* cert, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, cert, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  ADAPTDL_CHECK(extension != nullptr && X509_add_ext(cert, extension.get(), -1) == 1);
}

void set_name(X509* cert, const std::string& name) {
  X509_NAME* subject = X509_get_subject_name(cert);
  ADAPTDL_CHECK(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                           reinterpret_cast<const unsigned char*>(name.data()),
                                           static_cast<int>(name.size()), -1, 0) == 1);
}

Cert begin_certificate(EVP_PKEY* key, const std::string& name, double now_s, double life_s) {
  ADAPTDL_CHECK(life_s > 0);
  Cert cert(X509_new());
  ADAPTDL_CHECK(cert != nullptr && X509_set_version(cert.get(), 2) == 1);
  std::vector<uint8_t> serial = random_bytes(kSerialBytes);
  serial[0] &= 0x7f;  // a positive number
  const Number number(BN_bin2bn(serial.data(), static_cast<int>(serial.size()), nullptr));
  ADAPTDL_CHECK(BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(cert.get())) != nullptr);
  set_time(X509_getm_notBefore(cert.get()), now_s - kEarlier);
  set_time(X509_getm_notAfter(cert.get()), now_s + life_s);
  ADAPTDL_CHECK(X509_set_pubkey(cert.get(), key) == 1);
  set_name(cert.get(), name);
  return cert;
}

KeyPair finish(Cert cert, const Key& key, EVP_PKEY* signer) {
  ADAPTDL_CHECK(X509_sign(cert.get(), signer, EVP_sha256()) > 0);
  KeyPair made;
  made.certificate = written([&](BIO* text) { return PEM_write_bio_X509(text, cert.get()); });
  made.key = written([&](BIO* text) {
    return PEM_write_bio_PrivateKey(text, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  return made;
}

Key new_key() {
  Key key(EVP_EC_gen("P-256"));
  ADAPTDL_CHECK(key != nullptr);
  return key;
}

}  // namespace

KeyPair make_authority(const std::string& name, double now_s, double life_s) {
  const Key key = new_key();
  Cert cert = begin_certificate(key.get(), name, now_s, life_s);
  X509_set_issuer_name(cert.get(), X509_get_subject_name(cert.get()));
  add_extension(cert.get(), cert.get(), NID_basic_constraints, "critical,CA:TRUE");
  add_extension(cert.get(), cert.get(), NID_key_usage, "critical,keyCertSign");
  add_extension(cert.get(), cert.get(), NID_subject_key_identifier, "hash");
  return finish(std::move(cert), key, key.get());
}

KeyPair make_server_certificate(const KeyPair& authority, const std::vector<std::string>& hosts,
                                double now_s, double life_s) {
  ADAPTDL_CHECK(!hosts.empty());
  const Cert issuer = read_certificate(authority.certificate);
  const Key signer(PEM_read_bio_PrivateKey(reader(authority.key).get(), nullptr, nullptr, nullptr));
  if (issuer == nullptr || signer == nullptr) {
    fail("the certificate authority is not a certificate and key in PEM");
  }
  if (X509_check_private_key(issuer.get(), signer.get()) != 1) {
    fail("the certificate authority's key does not match its certificate");
  }
  const Key key = new_key();
  Cert cert = begin_certificate(key.get(), hosts.front(), now_s, life_s);
  X509_set_issuer_name(cert.get(), X509_get_subject_name(issuer.get()));
  std::string names;
  for (const std::string& host : hosts) names += (names.empty() ? "DNS:" : ",DNS:") + host;
  add_extension(cert.get(), issuer.get(), NID_subject_alt_name, names);
  add_extension(cert.get(), issuer.get(), NID_basic_constraints, "critical,CA:FALSE");
  add_extension(cert.get(), issuer.get(), NID_key_usage, "critical,digitalSignature");
  add_extension(cert.get(), issuer.get(), NID_ext_key_usage, "serverAuth");
  // Distinguishes two authorities of the same name.
  add_extension(cert.get(), issuer.get(), NID_authority_key_identifier, "keyid");
  return finish(std::move(cert), key, signer.get());
}

std::optional<double> certificate_end_s(std::string_view pem) {
  const Cert cert = read_certificate(pem);
  std::tm end{};
  if (cert == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(cert.get()), &end) != 1) {
    return std::nullopt;
  }
  return static_cast<double>(timegm(&end));
}

bool is_signed_by(std::string_view pem, std::string_view authority) {
  const Cert cert = read_certificate(pem), issuer = read_certificate(authority);
  if (cert == nullptr || issuer == nullptr) return false;
  EVP_PKEY* key = X509_get0_pubkey(issuer.get());
  return key != nullptr && X509_verify(cert.get(), key) == 1;
}

}  // namespace adaptdl
