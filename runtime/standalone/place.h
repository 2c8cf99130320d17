#pragma once

// Where a replica that nobody has launched belongs.

#include <cstdint>
#include <optional>
#include <string>

#include "core/net/tls.h"

namespace adaptdl::standalone {

struct Place {
  int rank = 0, replicas = 1;           // 0 <= rank < replicas
  int64_t restarts = 0;                 // how often all replicas have been started before
  std::string master_addr = "0.0.0.0";  // host of rank 0, unless a supervisor knows it
  int master_port = 0;                  // where rank 0 listens; 0 = none, for a single replica
  std::string supervisor_url, job_id;   // "" = none
  std::optional<TlsAuthorities> supervisor_authorities;  // none: the URL is of http
  std::string link_key;          // of TLS between the replicas; "" = they do not encrypt
  double patience_s = 600;       // for the others to come
  double hang_timeout_s = 1800;  // how long others may wait for a replica; 0 = for ever
};

// Of connections to rank 0; another one for each restart. Nothing without link_key.
std::optional<TlsKey> meeting_key(const Place& place);

}  // namespace adaptdl::standalone
