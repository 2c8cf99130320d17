#pragma once

// What the webhook proves itself with, and when that is to be made anew. Pure but for randomness.

#include <optional>
#include <string>
#include <vector>

#include "core/formats/json.h"
#include "core/net/certificates.h"

namespace adaptdl::kubernetes {

struct WebhookCertificates {
  // PEM: the authority that signs, then the one before it while that holds, so that a server that
  // has not yet heard of the change is still believed.
  std::string authorities;
  std::string authority_key;
  KeyPair server;

  bool operator==(const WebhookCertificates& other) const {
    return authorities == other.authorities && authority_key == other.authority_key &&
           server.certificate == other.server.certificate && server.key == other.server.key;
  }
};

// Those to use from now on, if they are to be others than `have` (nothing: there are none). A
// server's certificate lives for `life_s` and is made anew when a third of that is left; an
// authority lives four times as long, and never shorter than what it signs. What cannot be read is
// made anew; another `life_s` counts from the next time on. Times in seconds; `now_s` since 1970.
std::optional<WebhookCertificates> renewed(const std::optional<WebhookCertificates>& have,
                                           const std::vector<std::string>& hosts, double life_s,
                                           double now_s);

// As a Secret's data (base64), and back; what is missing is empty.
Json secret_data(const WebhookCertificates& certificates);
WebhookCertificates from_secret_data(const Json& data);

}  // namespace adaptdl::kubernetes
