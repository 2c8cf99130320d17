#include "core/cluster/kubernetes/jobs/job_keys.h"

#include "core/base/crypto.h"

namespace adaptdl::kubernetes {

JobKeys job_keys(const std::string& key, const JobObject& job) {
  const std::string which = job.id() + "/" + job.uid;
  const auto derive = [&](const std::string& text) {
    return to_hex(hmac_sha256(bytes_of(key), bytes_of(text)));
  };
  return {derive(which), derive("links\n" + which)};
}

}  // namespace adaptdl::kubernetes
