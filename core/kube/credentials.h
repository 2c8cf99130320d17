#pragma once

// The credentials that a user's requests carry.

#include <mutex>
#include <optional>
#include <string>

#include "core/base/clock.h"
#include "core/kube/config.h"

namespace adaptdl::kube {

struct Identity {
  HttpHeaders headers;           // Authorization, impersonation
  std::string certificate, key;  // PEM; "": none

  bool operator==(const Identity&) const = default;
};

// Knows the user's current identity. Reads files of tokens and certificates again after ten
// seconds, because they are rotated; runs a credential plugin again when its credential has
// expired. Thread-safe: while one thread waits for a plugin, the others wait too.
class Credentials {
 public:
  // Over plain HTTP the identity is empty: nothing is sent.
  explicit Credentials(const Config& config);

  // Throws Error if a file that was never read before is unreadable or empty, or if a plugin fails.
  Identity current();

  // The server answered 401 to `refused`: reads the files and runs the plugin again, once for all
  // threads that report the same identity. False if the identity is unchanged.
  bool renew(const Identity& refused);

 private:
  Identity make();
  void read_files();

  const bool secure_;
  const User user_;
  const std::string source_;
  std::mutex mutex_;
  TimePoint read_at_{};
  bool read_ = false;
  std::string token_, certificate_, key_;
  std::optional<ExecCredential> given_;
};

}  // namespace adaptdl::kube
