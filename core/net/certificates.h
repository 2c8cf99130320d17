#pragma once

// Certificates that a service makes for itself: an authority of its own, and what it signs. X.509
// version 3, keys on the curve P-256; PEM texts. Thread-safe (pure functions but for the clock).

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace adaptdl {

struct KeyPair {
  std::string certificate, key;
};

// One that signs itself. Times are in seconds since 1970; it holds from five minutes before
// `now_s`, since clocks differ, for `life_s` > 0 from then on. Two of the same name are told apart
// by their keys.
KeyPair make_authority(const std::string& name, double now_s, double life_s);

// A server's certificate for these DNS names (at least one), signed by `authority`. Throws Error if
// that is no key pair in PEM.
KeyPair make_server_certificate(const KeyPair& authority, const std::vector<std::string>& hosts,
                                double now_s, double life_s);

// When the first certificate of a PEM text ends; nothing if there is none.
std::optional<double> certificate_end_s(std::string_view pem);

// Whether the first certificate of `pem` was signed by that of `authority`; false if either is
// none.
bool is_signed_by(std::string_view pem, std::string_view authority);

}  // namespace adaptdl
