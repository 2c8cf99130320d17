#pragma once

// Certificates that a service creates for itself: its own certificate authority and what that
// signs. X.509 version 3, keys on the curve P-256; PEM texts. Thread-safe.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace adaptdl {

struct KeyPair {
  std::string certificate, key;
};

// Creates a self-signed authority. Times are in seconds since 1970. It is valid from five minutes
// before `now_s`, because clocks differ, until `life_s` > 0 after `now_s`. Two authorities of the
// same name differ by their keys.
KeyPair make_authority(const std::string& name, double now_s, double life_s);

// A server's certificate for these DNS names (at least one), signed by `authority`. Throws Error if
// `authority` is not a key pair in PEM.
KeyPair make_server_certificate(const KeyPair& authority, const std::vector<std::string>& hosts,
                                double now_s, double life_s);

// When the first certificate of a PEM text ends; nothing if there is none.
std::optional<double> certificate_end_s(std::string_view pem);

// Whether `authority`'s first certificate signed the first one of `pem`; false if either text has
// no certificate.
bool is_signed_by(std::string_view pem, std::string_view authority);

}  // namespace adaptdl
