#pragma once

// What the operator deals with, for the fake API server.

#include <vector>

#include "core/cluster/kubernetes/install/manifests.h"
#include "tests/unit/kube/fake_api.h"

namespace adaptdl::kubernetes {

inline const kube::Resource kTestJobs{"adaptdl.petuum.com", "v1", "adaptdljobs", "", "", ""};
inline const kube::Resource kTestConfigurations{
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "", "", ""};

inline std::vector<kube::FakeApi::Kind> operator_kinds() {
  return {{kTestJobs, "AdaptDLJob", true, {"spec"}},
          {kTestConfigurations, "ValidatingWebhookConfiguration", false, {"webhooks"}},
          {kube::kServices, "Service", true, {"spec"}},
          {kube::kNetworkPolicies, "NetworkPolicy", true, {"spec"}},
          {{"", "v1", "podtemplates", "", "", ""}, "PodTemplate", true, {"template"}},
          {{"events.k8s.io", "v1", "events", "", "", ""},
           "Event",
           true,
           {"action", "eventTime", "note", "reason", "regarding", "related", "reportingController",
            "reportingInstance", "type"}}};
}

}  // namespace adaptdl::kubernetes
