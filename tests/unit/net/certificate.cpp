#include "tests/unit/net/certificate.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace adaptdl {
namespace {

template <typename Write>
std::string written(Write write) {
  BIO* text = BIO_new(BIO_s_mem());
  write(text);
  char* data = nullptr;
  const long size = BIO_get_mem_data(text, &data);
  std::string result(data, static_cast<size_t>(size));
  BIO_free(text);
  return result;
}

}  // namespace

Certificate make_certificate() {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* cert = X509_new();
  X509_set_version(cert, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert), -60);
  X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
  X509_set_pubkey(cert, key);
  X509_NAME* name = X509_get_subject_name(cert);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(cert, name);
  X509_EXTENSION* names =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:localhost");
  X509_add_ext(cert, names, -1);
  X509_sign(cert, key, EVP_sha256());
  Certificate made;
  made.certificate = written([&](BIO* text) { PEM_write_bio_X509(text, cert); });
  made.key = written([&](BIO* text) {
    PEM_write_bio_PrivateKey(text, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
  X509_EXTENSION_free(names);
  X509_free(cert);
  EVP_PKEY_free(key);
  return made;
}

}  // namespace adaptdl
