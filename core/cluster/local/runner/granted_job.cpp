#include "core/cluster/local/runner/granted_job.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"

namespace adaptdl::local {
namespace {

// Format 1: specification and grant in one record, sharing some names.
constexpr int kFormat = 2;
constexpr size_t kMaxGrantedJob = 8u << 20;  // bytes; above the longest submission

Json to_json(const Grant& grant) {
  Json accelerators = Json::object();
  for (const auto& [slot, kind] : grant.accelerators) accelerators[std::to_string(slot)] = kind;
  return {{"name", grant.name},
          {"namespace", grant.job_namespace},
          {"directory", grant.directory},
          {"min_replicas", grant.min_replicas},
          {"max_replicas", grant.max_replicas},
          {"slot_kind", grant.slot_kind},
          {"slots_per_replica", grant.slots_per_replica},
          {"accelerators", std::move(accelerators)},
          {"tensorboard", grant.tensorboard.empty() ? Json() : Json(grant.tensorboard)}};
}

Grant grant_from_json(const Json& json, const std::string& where) {
  Grant grant;
  grant.name = json_get<std::string>(json, "name", where);
  grant.job_namespace = json_get_or(json, "namespace", where, grant.job_namespace);
  grant.directory = json_get<std::string>(json, "directory", where);
  grant.max_replicas = std::clamp(json_get_or(json, "max_replicas", where, grant.max_replicas), 1,
                                  launch::kMaxReplicas);
  grant.min_replicas = std::clamp(json_get_or(json, "min_replicas", where, grant.min_replicas), 1,
                                  grant.max_replicas);
  grant.slot_kind = json_get_or(json, "slot_kind", where, grant.slot_kind);
  if (grant.slot_kind != "core" && grant.slot_kind != "gpu" && grant.slot_kind != "shared") {
    fail("{}: slot_kind: {} must be core, gpu or shared", where, grant.slot_kind);
  }
  grant.slots_per_replica = json_get_or(json, "slots_per_replica", where, grant.slots_per_replica);
  if (grant.slots_per_replica < 1) fail("{}: slots_per_replica: must be at least 1", where);
  const auto kinds = json_get_or<Json>(json, "accelerators", where, Json::object());
  for (const auto& [slot, kind] : kinds.items()) {
    const auto number = try_parse<int>(slot);
    if (!number || !kind.is_string()) fail("{}: accelerators: slot numbers and names", where);
    grant.accelerators[*number] = kind.get<std::string>();
  }
  grant.tensorboard = json_get_or(json, "tensorboard", where, grant.tensorboard);
  return grant;
}

}  // namespace

std::string job_file_text(std::string_view spec, const Grant& grant) {
  return fmt::format(R"({{"format":{},"grant":{},"spec":{}}})", kFormat, dump_json(to_json(grant)),
                     spec) +
         "\n";
}

GrantedJob granted_job(const Json& job_file, const std::string& where) {
  const int format = json_get<int>(job_file, "format", where);
  if (format > kFormat) fail("{}: written by a newer adaptdl; use the newer version", where);
  if (format == kFormat) {
    return {job_spec_from_json(json_get<Json>(job_file, "spec", where), where + ": spec"),
            grant_from_json(json_get<Json>(job_file, "grant", where), where + ": grant")};
  }
  Json spec = job_file;
  for (const char* granted : {"min_replicas", "max_replicas", "tensorboard"}) spec.erase(granted);
  return {job_spec_from_json(spec, where), grant_from_json(job_file, where)};
}

GrantedJob read_granted_job(const JobFolder& folder) {
  const std::string path = folder.job_file();
  return granted_job(parse_json(read_file(path, kMaxGrantedJob), path), path);
}

std::string granted_name(const Json& job_file, const std::string& where) {
  const auto grant = json_find<Json>(job_file, "grant", where);
  return json_get<std::string>(grant ? *grant : job_file, "name", where);
}

}  // namespace adaptdl::local
