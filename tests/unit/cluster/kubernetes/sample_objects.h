#pragma once

#include <string>
#include <vector>

#include "core/cluster/kubernetes/jobs/job_object.h"
#include "core/cluster/kubernetes/jobs/pod_object.h"

namespace adaptdl::kubernetes {

inline Json sample_job(Json spec = Json::object(), Json status = Json::object()) {
  spec.emplace("template", Json::parse(R"({
    "metadata": {"labels": {"team": "a"}},
    "spec": {"containers": [{"name": "main", "image": "i", "env": [{"name": "A", "value": "1"}],
                             "resources": {"requests": {"cpu": "500m"}}}]}})"));
  Json job = Json::parse(R"({"metadata": {
    "namespace": "team-a", "name": "digits", "uid": "u-1", "generation": 2,
    "resourceVersion": "7", "creationTimestamp": "2026-01-31T08:00:00Z"}})");
  job["spec"] = std::move(spec);
  job["status"] = std::move(status);
  return job;
}

inline JobObject read_sample(Json spec = Json::object(), Json status = Json::object()) {
  std::string problem;
  return read_job(sample_job(std::move(spec), std::move(status)), problem);
}

// A pod of group 0 that was made for `node` and runs.
inline PodFacts sample_pod(int rank, const std::string& node, int replicas) {
  PodFacts pod;
  pod.name = "digits-u-1-0-" + std::to_string(rank);
  pod.owner_uid = "u-1";
  pod.job = "digits";
  pod.group = 0;
  pod.rank = rank;
  pod.replicas = replicas;
  pod.node = node;
  pod.scheduled = pod.ready = true;
  return pod;
}

}  // namespace adaptdl::kubernetes
