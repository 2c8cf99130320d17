#pragma once

// What requests of a user carry.

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

// Knows the user's identity as it is now. Files of tokens and certificates are read again when they
// are older than ten seconds here, since they are rotated; a program is run again when what it gave
// has expired. Thread-safe: while one thread waits for a program, so do the others.
class Credentials {
 public:
  // Nothing is sent over plain HTTP.
  explicit Credentials(const Config& config);

  // Throws Error if a file cannot be read or is empty and was never read, or a program fails.
  Identity current();

  // The server answered 401 to `refused`: reads and runs anew, but once if many threads say so.
  // False if nothing else came out.
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
