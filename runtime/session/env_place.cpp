#include "runtime/session/env_place.h"

#include "adaptdl/env.h"
#include "core/base/error.h"
#include "core/base/number.h"
#include "core/base/system.h"
#include "core/job/worker_environment.h"

namespace adaptdl {

namespace {
constexpr size_t kLeastLinkKey = 16;
}

standalone::Place place_from_environment() {
  standalone::Place place;
  place.rank = env::replica_rank();
  place.replicas = env::num_replicas();
  place.restarts = env::num_restarts();
  place.master_addr = env::master_addr();
  place.master_port = env::master_port();
  place.supervisor_url = env::supervisor_url().value_or("");
  const auto authorities = environment_variable(kSupervisorAuthoritiesVariable);
  const auto secure = environment_variable(kSecureSupervisorVariable);
  if (authorities && secure) {
    place.supervisor_url = *secure;
    place.supervisor_authorities.emplace(*authorities, kSupervisorHost);
  }
  place.job_id = env::job_id().value_or("");
  place.link_key = environment_variable(kLinkKeyVariable).value_or("");
  if (!place.link_key.empty() && place.link_key.size() < kLeastLinkKey) {
    fail("{} has {} characters, and must have at least {}, random ones: openssl rand -hex 32",
         kLinkKeyVariable, place.link_key.size(), kLeastLinkKey);
  }
  const auto read_seconds = [](const char* name, double& seconds) {
    if (const auto value = environment_variable(name)) seconds = parse_double(*value, name, 0, 1e6);
  };
  read_seconds("ADAPTDL_JOIN_TIMEOUT", place.patience_s);
  read_seconds("ADAPTDL_HANG_TIMEOUT", place.hang_timeout_s);
  return place;
}

}  // namespace adaptdl
