#pragma once

// The webhook's certificates, and when to renew them. Pure, except for random numbers.

#include <optional>
#include <string>
#include <vector>

#include "core/formats/json.h"
#include "core/net/certificates.h"

namespace adaptdl::kubernetes {

struct WebhookCertificates {
  // PEM: the signing authority, then the previous one while it is valid, so that clients still
  // trust a server that does not have the new certificate yet.
  std::string authorities;
  std::string authority_key;
  KeyPair server;

  bool operator==(const WebhookCertificates& other) const {
    return authorities == other.authorities && authority_key == other.authority_key &&
           server.certificate == other.server.certificate && server.key == other.server.key;
  }
};

// The certificates to use from now on; nothing if `have` (nothing: there are none) stays valid. A
// server's certificate lives for `life_s`, and is renewed when a third of that is left. An
// authority lives four times as long, and never shorter than what it signs. Unreadable certificates
// are replaced. A changed `life_s` takes effect at the next renewal. Times in seconds; `now_s`
// since 1970.
std::optional<WebhookCertificates> renewed(const std::optional<WebhookCertificates>& have,
                                           const std::vector<std::string>& hosts, double life_s,
                                           double now_s);

// Converts to a Secret's data (base64), and back; missing entries become empty.
Json secret_data(const WebhookCertificates& certificates);
WebhookCertificates from_secret_data(const Json& data);

}  // namespace adaptdl::kubernetes
