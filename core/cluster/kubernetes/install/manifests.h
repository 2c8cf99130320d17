#pragma once

// The objects of an installation. Pure.

#include <string>
#include <vector>

#include "core/cluster/kubernetes/install/values.h"
#include "core/formats/json.h"
#include "core/kube/resource.h"

namespace adaptdl::kubernetes {

// Names that the operator uses of itself as well.
inline constexpr const char* kLeaseName = "adaptdl-operator";
inline constexpr const char* kAllocatorLease = "adaptdl-operator-allocator";  // without controller
inline constexpr const char* kExpanderLease = "adaptdl-operator-expander";    // without both
inline constexpr const char* kKeySecret = "adaptdl-operator-key";
inline constexpr const char* kCertificateSecret = "adaptdl-webhook-certificate";
inline constexpr const char* kWebhookConfiguration = "adaptdl";
inline constexpr const char* kWebhookName = "validate.adaptdl.petuum.com";
inline constexpr const char* kValidatorService = "adaptdl-validator";
inline constexpr const char* kDeployment = "adaptdl-operator";
inline constexpr const char* kConfigMap = "adaptdl-config";
inline constexpr const char* kConfigKey = "values.json";
inline constexpr const char* kDefinition = "adaptdljobs.adaptdl.petuum.com";
// Label of all that belongs to an installation, but for data: the namespace of its operator.
inline constexpr const char* kLabelInstalled = "adaptdl/installed-by";

// In the order in which they are to be applied: whoever needs another comes later. The namespace is
// the first, the definition of jobs the second. `given`: the values as they were given, which the
// installation keeps; `version`: of this program. Requires: values.image() is not "".
std::vector<Json> manifests(const Values& values, const std::string& name_space, const Json& given,
                            const std::string& version);

// Where an object of a kind that manifests() has is found. Throws Error for another kind.
kube::Resource resource_of(const Json& object);

// All those kinds, and those that the operator makes for itself, in the order of application.
struct InstalledKind {
  std::string kind;
  kube::Resource collection;
};
std::vector<InstalledKind> installed_kinds();

// What is kept when the installation goes: the registry's volume.
bool is_data(const Json& object);

// "Deployment adaptdl-operator", for messages.
std::string describe_object(const Json& object);

}  // namespace adaptdl::kubernetes
