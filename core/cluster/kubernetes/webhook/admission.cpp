#include "core/cluster/kubernetes/webhook/admission.h"

#include <algorithm>
#include <array>

#include "core/base/log.h"
#include "core/cluster/kubernetes/jobs/job_object.h"
#include "core/cluster/kubernetes/trim.h"
#include "core/formats/json_fields.h"

namespace adaptdl::kubernetes {

namespace {

constexpr std::array<std::string_view, 8> kMayChange = {
    "minReplicas", "maxReplicas",  "requestedReplicas",    "suspend",
    "cancel",      "backoffLimit", "startDeadlineSeconds", "ttlSecondsAfterFinished"};

struct Verdict {
  bool allowed = true;
  std::string reason, message;  // of a refusal: "Invalid", "Forbidden"
  Json warnings = Json::array();
};

Verdict refuse(const char* reason, const std::string& message) {
  return {false, reason, message};
}

bool may_change(std::string_view key) {
  return std::find(kMayChange.begin(), kMayChange.end(), key) != kMayChange.end();
}

// Whether the parts of two specs that cannot change after the submission are the same.
bool same_fixed_part(const Json& before, const Json& now) {
  if (!before.is_object()) return before == now;
  const auto kept = [](const Json& of, const Json& in) {
    for (const auto& [key, value] : of.items()) {
      if (!may_change(key) && (!in.contains(key) || in[key] != value)) return false;
    }
    return true;
  };
  return kept(before, now) && kept(now, before);
}

// The object in a review may not have a name, uid or namespace yet.
std::string problem_of(Json job, const std::string& job_namespace) {
  Json& metadata = job["metadata"];
  if (!metadata.is_object()) metadata = Json::object();
  if (!metadata.contains("name")) {
    metadata["name"] = json_get_or<std::string>(metadata, "generateName", "metadata", "job");
  }
  if (!metadata.contains("uid")) metadata["uid"] = "none";
  metadata["namespace"] = job_namespace;
  std::string problem;
  read_job(job, problem);
  return problem;
}

void warn_of_unknown(const Json& spec, Json& warnings) {
  for (const auto& [key, value] : spec.items()) {
    if (key != "template" && key != "preemptible" && key != "restartable" && key != "liveRescale" &&
        key != "accelerators" && !may_change(key)) {
      warnings.push_back(fmt::format("spec.{}: unknown field, ignored", key));
    }
  }
}

Verdict judge(const Json& request, const TryTemplate& try_template) {
  const auto operation = json_get<std::string>(request, "operation", "request");
  const auto job_namespace = json_get_or<std::string>(request, "namespace", "request", "default");
  const Json& job = member(request, "object");
  if (operation != "CREATE" && operation != "UPDATE") return {};
  if (!job.is_object()) return refuse("Invalid", "object: missing");
  const Json& spec = member(job, "spec");
  if (!spec.is_object()) return refuse("Invalid", "spec: missing");

  if (operation == "UPDATE") {
    const Json& old_spec = member(member(request, "oldObject"), "spec");
    if (old_spec == spec) return {};  // labels or finalizers, which even an invalid job may change
    if (!same_fixed_part(old_spec, spec)) {
      return refuse("Forbidden",
                    fmt::format("updates to job spec are forbidden, except {}; submit another job",
                                fmt::join(kMayChange, ", ")));
    }
  }
  // Before anything copies it.
  if (const std::string problem = size_problem(member(spec, "template")); !problem.empty()) {
    return refuse("Invalid", problem);
  }
  if (const std::string problem = problem_of(job, job_namespace); !problem.empty()) {
    return refuse("Invalid", problem);
  }
  Verdict verdict;
  warn_of_unknown(spec, verdict.warnings);
  if (operation == "UPDATE") return verdict;
  if (!spec.contains("template")) return refuse("Invalid", "spec.template: missing");
  try {
    if (const auto problem = try_template(job_namespace, spec["template"])) {
      return refuse("Invalid", "spec.template: " + *problem);
    }
  } catch (const Error& error) {
    log_warning("admission: {}", error.what());
  }
  return verdict;
}

// What cannot be read is refused, too: an error would count as no verdict, and admit the job.
Verdict judge_all(const Json& request, const TryTemplate& try_template) {
  try {
    return judge(request, try_template);
  } catch (const Error& error) {
    return refuse("Invalid", error.what());
  }
}

}  // namespace

Json review_admission(const Json& review, const TryTemplate& try_template) {
  if (json_get<std::string>(review, "kind", "AdmissionReview") != "AdmissionReview") {
    fail("not an AdmissionReview");
  }
  const Json& request = member(review, "request");
  const auto uid = json_get<std::string>(request, "uid", "request");
  const Verdict verdict = judge_all(request, try_template);
  Json response = {{"uid", uid}, {"allowed", verdict.allowed}};
  if (!verdict.allowed) {
    response["status"] = {{"code", 422}, {"reason", verdict.reason}, {"message", verdict.message}};
  }
  if (!verdict.warnings.empty()) response["warnings"] = verdict.warnings;
  return {
      {"apiVersion", "admission.k8s.io/v1"}, {"kind", "AdmissionReview"}, {"response", response}};
}

}  // namespace adaptdl::kubernetes
