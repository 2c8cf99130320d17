#pragma once

// What the validating webhook says to a job that is created or changed.
// https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers

#include <functional>
#include <optional>
#include <string>

#include "core/formats/json.h"

namespace adaptdl::kubernetes {

// Asks the API server whether it would take a PodTemplate (with ?dryRun=All): nothing if so, else
// its sentence. May throw Error if it cannot be asked; the job is admitted then, since the
// controller finds out as well.
using TryTemplate = std::function<std::optional<std::string>(const std::string& job_namespace,
                                                             const Json& pod_template)>;

// Answers an AdmissionReview v1. A job is refused with 422 and the field named: "Invalid" on
// creation for numbers that do not fit together and a template that the API server would not take;
// "Forbidden" for a change of the spec other than of minReplicas, maxReplicas, requestedReplicas,
// suspend, cancel, backoffLimit, startDeadlineSeconds and ttlSecondsAfterFinished. Keys that mean
// nothing are warned of. Throws Error for what is no AdmissionReview.
Json review_admission(const Json& review, const TryTemplate& try_template);

}  // namespace adaptdl::kubernetes
