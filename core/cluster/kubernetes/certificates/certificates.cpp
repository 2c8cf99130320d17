#include "core/cluster/kubernetes/certificates/certificates.h"

#include "core/formats/base64.h"
#include "core/formats/json_fields.h"

namespace adaptdl::kubernetes {

namespace {

std::string decoded(const Json& data, const char* key) {
  try {
    return from_base64(text_at(data, key), key);
  } catch (const Error&) {  // counts as missing
    return "";
  }
}

bool holds(std::string_view pem, double until_s) {
  const auto end = certificate_end_s(pem);
  return end && *end >= until_s;
}

// The first certificate in the text.
std::string first_of(const std::string& authorities) {
  constexpr std::string_view kEnd = "-----END CERTIFICATE-----\n";
  const size_t end = authorities.find(kEnd);
  return end == std::string::npos ? "" : authorities.substr(0, end + kEnd.size());
}

}  // namespace

std::optional<ServerCertificates> renewed(const std::optional<ServerCertificates>& have,
                                          const CertificateNeeds& needs, double now_s) {
  ADAPTDL_CHECK(needs.authority_life_s >= 2 * needs.life_s);
  ServerCertificates next = have.value_or(ServerCertificates{});
  const std::string authority = first_of(next.authorities);
  const auto renew_authority = [&] {
    const KeyPair made = make_authority(needs.authority_name, now_s, needs.authority_life_s);
    next.authorities = made.certificate + (holds(authority, now_s) ? authority : "");
    next.authority_key = made.key;
  };
  const auto renew_server = [&] {
    next.server = make_server_certificate({first_of(next.authorities), next.authority_key},
                                          needs.hosts, now_s, needs.life_s);
  };
  const bool lasts = holds(authority, now_s + needs.life_s);
  if (lasts && holds(next.server.certificate, now_s + needs.life_s / 3) &&
      is_signed_by(next.server.certificate, authority)) {
    return std::nullopt;
  }
  if (!lasts) renew_authority();
  try {
    renew_server();
  } catch (const Error&) {  // the stored key is invalid
    renew_authority();
    renew_server();
  }
  return next;
}

HttpTls tls_of(const ServerCertificates& certificates) {
  return {certificates.server.certificate, certificates.server.key};
}

Json secret_data(const ServerCertificates& certificates) {
  return {{"ca.crt", to_base64(certificates.authorities)},
          {"ca.key", to_base64(certificates.authority_key)},
          {"tls.crt", to_base64(certificates.server.certificate)},
          {"tls.key", to_base64(certificates.server.key)}};
}

ServerCertificates from_secret_data(const Json& data) {
  if (!data.is_object()) return {};
  return {decoded(data, "ca.crt"),
          decoded(data, "ca.key"),
          {decoded(data, "tls.crt"), decoded(data, "tls.key")}};
}

}  // namespace adaptdl::kubernetes
