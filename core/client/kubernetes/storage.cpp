#include "core/client/kubernetes/storage.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/client/image/image_self.h"
#include "core/cluster/kubernetes/jobs/pod_builder.h"
#include "core/formats/json_fields.h"

namespace adaptdl::client {
namespace {

constexpr const char* kVolume = "adaptdl-pvc";

bool is_in(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder + "/");
}

bool has_dots(const std::string& path) {
  for (size_t start = 0; start < path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    if (path.compare(start, end - start, "..") == 0) return true;
    start = end + 1;
  }
  return false;
}

// The security context with the user who owns the job's files.
Json security(const Json& given) {
  Json result = {{"allowPrivilegeEscalation", false},
                 {"readOnlyRootFilesystem", true},
                 {"capabilities", {{"drop", Json::array({"ALL"})}}},
                 {"seccompProfile", {{"type", "RuntimeDefault"}}}};
  for (const char* key : {"runAsUser", "runAsGroup", "runAsNonRoot", "seLinuxOptions"}) {
    if (const auto found = given.find(key); found != given.end()) result[key] = *found;
  }
  return result;
}

}  // namespace

std::string storage_path(const std::string& path) {
  if (has_dots(path)) {
    throw UsageError(fmt::format("{}: a path in a job must stay in the job's storage", path));
  }
  const std::string whole = absolute_path(join_path("/", path));
  if (whole == "/" || whole == kStorageFolder) return kStorageFolder;
  constexpr std::array<std::array<const char*, 2>, 4> kFolders{
      {{"/adaptdl/checkpoint", "/adaptdl/checkpoint"},
       {"/adaptdl/share", "/adaptdl/share"},
       {"/checkpoints", "/adaptdl/checkpoint"},
       {"/share", "/adaptdl/share"}}};
  for (const auto& [said, there] : kFolders) {
    if (is_in(whole, said)) return there + whole.substr(std::string_view(said).size());
  }
  fail(
      "{}: a job on Kubernetes has only /adaptdl/checkpoint and /adaptdl/share; to read another "
      "file of a running replica, use `adaptdl exec JOB -- cat {}`",
      whole, whole);
}

std::string storage_claim(const Json& job) {
  for (const Json& volume : value_at_pointer(job, "/spec/template/spec/volumes")) {
    if (value_at_pointer(volume, "/name") != kVolume) continue;
    const Json& claim = value_at_pointer(volume, "/persistentVolumeClaim/claimName");
    if (claim.is_string()) return claim.get<std::string>();
  }
  return "";
}

StorageTools::StorageTools(const Json& job)
    : own(value_at_pointer(job, "/spec/template/spec/containers/0/command/0") == kProgramPlace) {}

std::vector<std::string> StorageTools::wait(int seconds) const {
  const std::string text = std::to_string(seconds);
  if (own) return {kProgramPlace, "__storage", "--", "wait", text};
  return {"sleep", text};
}

std::vector<std::string> StorageTools::is_folder(const std::string& path) const {
  if (own) return {kProgramPlace, "__storage", "--", "is-folder", path};
  return {"test", "-d", path};
}

std::vector<std::string> StorageTools::pack(const std::string& folder,
                                            const std::vector<std::string>& members) const {
  std::vector<std::string> words = {"tar", "-c", "-f", "-", "-C", folder};
  if (own) words = {kProgramPlace, "__storage", "--", "pack", folder};
  for (const std::string& member : members) words.push_back(own ? member : "./" + member);
  return words;
}

bool StorageTools::packed(int code, std::string_view said, CopyResult& result) const {
  if (code != (own ? 0 : 1)) return code == 0;
  // Only GNU tar exits with 1 just because a file changed or was removed.
  bool told = own;
  while (!said.empty()) {
    const size_t end = std::min(said.find('\n'), said.size());
    std::string_view line = said.substr(0, end);
    said.remove_prefix(std::min(end + 1, said.size()));
    const auto without = [&](std::string_view start) {
      const bool begins = line.starts_with(start);
      if (begins) line.remove_prefix(start.size());
      return begins;
    };
    bool changed = own && without(kChangedMark);
    if (!own) {
      without("tar: ");
      changed =
          line.ends_with(": file changed as we read it") || line.ends_with("; padding with zeros");
      const bool skipped =
          line.ends_with(": File removed before we read it") || line.ends_with(": socket ignored");
      if (!changed && !skipped) return false;
      told = true;
    }
    (changed ? result.changed : result.skipped).emplace_back(line);
  }
  return told;
}

std::vector<std::string> StorageTools::unpack(const std::string& folder) const {
  if (own) return {kProgramPlace, "__storage", "--", "unpack", folder};
  // A failing tar leaves the rest of its input unread, which breaks the connection of some nodes.
  return {"sh", "-c", "tar -x -p -o -f - -C \"$1\"; code=$?; cat >/dev/null; exit $code", "sh",
          folder};
}

Json copy_pod(const Json& job, const std::string& claim, const std::string& claim_uid) {
  const Json own = value_at_pointer(job, "/spec/template/spec");
  const Json program = value_at_pointer(own, "/containers/0");
  Json given = value_at_pointer(own, "/securityContext");  // the container's overrides it
  if (!given.is_object()) given = Json::object();
  if (const Json inner = value_at_pointer(program, "/securityContext"); inner.is_object())
    given.update(inner);
  const Json container = {
      {"name", "copy"},
      {"image", value_at_pointer(program, "/image")},
      {"command", StorageTools(job).wait(kCopyPodLife_s)},
      {"resources", {{"requests", {{"cpu", "10m"}, {"memory", "16Mi"}}}}},
      {"securityContext", security(given)},
      {"volumeMounts", Json::array({{{"name", kVolume},
                                     {"mountPath", kStorageFolder},
                                     {"subPath", std::string(kStorageFolder).substr(1)}}})}};
  Json spec = {
      {"containers", Json::array({container})},
      {"restartPolicy", "Never"},
      {"activeDeadlineSeconds", kCopyPodLife_s},
      {"terminationGracePeriodSeconds", 1},
      {"automountServiceAccountToken", false},
      {"volumes",
       Json::array({{{"name", kVolume}, {"persistentVolumeClaim", {{"claimName", claim}}}}})}};
  if (const Json policy = value_at_pointer(program, "/imagePullPolicy"); policy.is_string()) {
    spec["containers"][0]["imagePullPolicy"] = policy;
  }
  for (const char* key : {"fsGroup", "supplementalGroups"}) {
    const auto found = given.find(key);
    if (found != given.end()) spec["securityContext"][key] = *found;
  }
  for (const char* key :
       {"imagePullSecrets", "nodeSelector", "tolerations", "serviceAccountName"}) {
    if (own.is_object() && own.contains(key)) spec[key] = own[key];
  }
  kubernetes::add_toleration(spec);
  // Only node affinity: affinity to other pods, such as the job's, might never be satisfied.
  if (const Json affinity = value_at_pointer(own, "/affinity/nodeAffinity"); affinity.is_object()) {
    spec["affinity"]["nodeAffinity"] = affinity;
  }
  const Json owner = {
      {"apiVersion", "v1"}, {"kind", "PersistentVolumeClaim"}, {"name", claim}, {"uid", claim_uid}};
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata",
           {{"generateName", "copy-" + claim + "-"},
            {"labels", {{"adaptdl/cli-copy", claim_uid.substr(0, 8)}}},
            {"ownerReferences", Json::array({owner})}}},
          {"spec", spec}};
}

}  // namespace adaptdl::client
