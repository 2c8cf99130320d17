#pragma once

// The validating webhook's verdict on a job that is created or changed.
// https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers

#include <functional>
#include <optional>
#include <string>

#include "core/formats/json.h"

namespace adaptdl::kubernetes {

// Asks the API server whether it would accept a PodTemplate (with ?dryRun=All): nothing if so, else
// its message. May throw Error if the API server is unreachable or refuses; the job is admitted
// then, since the controller detects invalid jobs, too.
using TryTemplate = std::function<std::optional<std::string>(const std::string& job_namespace,
                                                             const Json& pod_template)>;

// Answers an AdmissionReview v1. A refusal has status 422 and names the field: "Invalid" for
// inconsistent numbers and, on creation, for a template that the API server would refuse;
// "Forbidden" for a change of the spec other than of minReplicas, maxReplicas, requestedReplicas,
// suspend, cancel, backoffLimit, startDeadlineSeconds and ttlSecondsAfterFinished. Unknown keys get
// a warning. Throws Error if `review` is not an AdmissionReview with a uid.
Json review_admission(const Json& review, const TryTemplate& try_template);

}  // namespace adaptdl::kubernetes
