#pragma once

// The certificates of a server of the operator, and when to renew them. Pure, except for random
// numbers.

#include <optional>
#include <string>
#include <vector>

#include "core/formats/json.h"
#include "core/net/certificates.h"
#include "core/net/http_server.h"

namespace adaptdl::kubernetes {

struct ServerCertificates {
  // PEM: the signing authority, then the previous one while it is valid, so that clients still
  // trust a server that does not have the new certificate yet.
  std::string authorities;
  std::string authority_key;
  KeyPair server;

  bool operator==(const ServerCertificates& other) const {
    return authorities == other.authorities && authority_key == other.authority_key &&
           server.certificate == other.server.certificate && server.key == other.server.key;
  }
};

struct CertificateNeeds {
  std::string authority_name;      // of the authority that is made, for readers
  std::vector<std::string> hosts;  // the names that the server's certificate proves, at least one
  double life_s = 0;               // of the server's certificate, > 0
  double authority_life_s = 0;     // >= 2 * life_s
};

// The certificates to use from now on; nothing if `have` (nothing: there are none) stays valid. A
// server's certificate is renewed when a third of its life is left, an authority when it would end
// before what it signs. Unreadable certificates are replaced. Changed lives take effect at the next
// renewal. Times in seconds; `now_s` since 1970.
std::optional<ServerCertificates> renewed(const std::optional<ServerCertificates>& have,
                                          const CertificateNeeds& needs, double now_s);

HttpTls tls_of(const ServerCertificates& certificates);

// Converts to a Secret's data (base64), and back; missing entries become empty.
Json secret_data(const ServerCertificates& certificates);
ServerCertificates from_secret_data(const Json& data);

}  // namespace adaptdl::kubernetes
