#pragma once

// The objects of an installation. Pure.

#include <string>
#include <vector>

#include "core/cluster/kubernetes/install/values.h"
#include "core/formats/json.h"
#include "core/kube/resource.h"

namespace adaptdl::kubernetes {

// Names that the operator uses, too.
inline constexpr const char* kLeaseName = "adaptdl-operator";
inline constexpr const char* kAllocatorLease = "adaptdl-operator-allocator";  // without controller
inline constexpr const char* kExpanderLease = "adaptdl-operator-expander";    // without both
inline constexpr const char* kKeySecret = "adaptdl-operator-key";
inline constexpr const char* kCertificateSecret = "adaptdl-webhook-certificate";
inline constexpr const char* kSupervisorSecret = "adaptdl-supervisor-certificate";
inline constexpr const char* kWebhookConfiguration = "adaptdl";
inline constexpr const char* kWebhookName = "validate.adaptdl.petuum.com";
inline constexpr const char* kValidatorService = "adaptdl-validator";
inline constexpr const char* kDeployment = "adaptdl-operator";
inline constexpr const char* kConfigMap = "adaptdl-config";
inline constexpr const char* kConfigKey = "values.json";
inline constexpr const char* kClientAuthoritiesKey = "webhook-client-ca.crt";
inline constexpr const char* kDefinition = "adaptdljobs.adaptdl.petuum.com";
// Label of all objects of an installation, except data; its value is the operator's namespace.
inline constexpr const char* kLabelInstalled = "adaptdl/installed-by";

// The objects in the order of application: an object comes after those that it needs. The namespace
// is the first, the definition of jobs the second. `given`: the values as given, which the
// installation stores; `version`: of this program. Requires: values.image() is not "".
std::vector<Json> manifests(const Values& values, const std::string& name_space, const Json& given,
                            const std::string& version);

// The place of an object of a kind in manifests(). Throws Error for another kind.
kube::Resource resource_of(const Json& object);

// All those kinds, and those that the operator creates for itself, in the order of application.
struct InstalledKind {
  std::string kind;
  kube::Resource collection;
};
std::vector<InstalledKind> installed_kinds();

// Whether the object is kept when the installation is removed: the registry's volume.
bool is_data(const Json& object);

// "Deployment adaptdl-operator", for messages.
std::string describe_object(const Json& object);

}  // namespace adaptdl::kubernetes
