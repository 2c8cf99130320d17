// What the fake API server does when somebody writes.

#include <algorithm>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "tests/unit/kube/fake_api_request.h"

namespace adaptdl::kube {

using namespace fake;

namespace {

// Leaves of what was applied, as JSON pointers; lists are leaves.
void leaves(const Json& value, const std::string& at, std::set<std::string>& result) {
  if (!value.is_object() || value.empty()) {
    result.insert(at);
    return;
  }
  for (const auto& [key, member] : value.items()) {
    std::string escaped;
    for (const char c : key) escaped += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    leaves(member, at + "/" + escaped, result);
  }
}

// A strategic merge patch, of lists that are merged by `name`.
void merge_by_name(Json& value, const Json& patch) {
  for (const auto& [key, change] : patch.items()) {
    Json& member = value[key];
    if (change.is_object() && member.is_object()) {
      merge_by_name(member, change);
    } else if (change.is_array() && member.is_array()) {
      for (const Json& item : change) {
        const auto known = std::find_if(member.begin(), member.end(), [&](const Json& old) {
          return old.at("name") == item.at("name");
        });
        if (known == member.end()) {
          member.push_back(item);
        } else {
          merge_by_name(*known, item);
        }
      }
    } else {
      member = change;
    }
  }
}

bool dry(const HttpServerRequest& request) {
  return !parameter(request, "dryRun").empty();
}

}  // namespace

Json FakeApi::body_of(const HttpServerRequest& request, const Target& target,
                      const char* type) const {
  if (request.header("content-type") != type) {
    refuse(415, "UnsupportedMediaType", "expected " + std::string(type));
  }
  Json object = parse_json(request.body, "the body");
  const Kind& kind = *target.kind;
  const std::string version = kind.resource.group.empty()
                                  ? kind.resource.version
                                  : kind.resource.group + "/" + kind.resource.version;
  if (object.value("kind", "") != kind.kind || object.value("apiVersion", "") != version) {
    bad(fmt::format("the object is no {} of {}", kind.kind, version));
  }
  for (const auto& [key, value] : object.items()) {
    if (key == "kind" || key == "apiVersion" || key == "metadata" || key == "status") continue;
    if (!kind.fields.contains(key)) bad("unknown field " + key);
  }
  const Json metadata = object.value("metadata", Json::object());
  if (!target.name.empty() && metadata.value("name", "") != target.name) bad("name of another");
  if (metadata.value("namespace", target.name_space) != target.name_space) {
    bad("namespace of another");
  }
  return object;
}

// Gives it the next version, unless nothing changes or the run is dry.
HttpResponse FakeApi::store(const Target& target, Stored value, const HttpServerRequest& request,
                            int status) {
  const Key key{target.kind->resource.plural, target.name_space,
                value.object["metadata"]["name"].get<std::string>()};
  const auto found = objects_.find(key);
  if (dry(request)) return json_response(status, value.object);
  if (found != objects_.end() && found->second.object == value.object) {
    found->second.managers = value.managers;
    return json_response(status, value.object);
  }
  value.object["metadata"]["resourceVersion"] = fmt::format("{}", ++version_);
  const bool is_new = found == objects_.end();
  const Json object = value.object;
  objects_[key] = std::move(value);
  changed(*target.kind, is_new ? "ADDED" : "MODIFIED", object);
  return json_response(status, object);
}

HttpResponse FakeApi::create(const HttpServerRequest& request, const Target& target) {
  Json object = body_of(request, target, "application/json");
  Json& metadata = object["metadata"];
  if (metadata.contains("resourceVersion")) bad("resourceVersion should not be set");
  if (target.kind->namespaced == target.name_space.empty()) bad("no namespace, or one too many");
  if (!metadata.contains("name")) {
    if (!metadata.contains("generateName")) bad("neither name nor generateName");
    metadata["name"] =
        fmt::format("{}{:05}", metadata["generateName"].get<std::string>(), ++version_);
  }
  if (target.kind->namespaced) metadata["namespace"] = target.name_space;
  const std::string name = metadata["name"];
  if (objects_.contains({target.kind->resource.plural, target.name_space, name})) {
    refuse(409, "AlreadyExists",
           fmt::format("{} \"{}\" already exists", target.kind->resource.plural, name));
  }
  metadata["uid"] = fmt::format("uid-{}", ++version_);
  metadata["creationTimestamp"] = rfc3339(std::chrono::system_clock::now(), 0);
  object.erase("status");
  return store(target, {object, {}}, request, 201);
}

HttpResponse FakeApi::replace(const HttpServerRequest& request, const Target& target) {
  Json object = body_of(request, target, "application/json");
  Stored value = stored(target);
  const Json& old = value.object;
  if (object["metadata"].value("resourceVersion", Json("")) != old["metadata"]["resourceVersion"]) {
    refuse(409, "Conflict",
           "the object has been modified; apply your changes to the latest version");
  }
  const bool status = target.subresource == "status";
  Json result = status ? old : object;
  if (status) result["status"] = object["status"];
  if (!status && old.contains("status")) result["status"] = old["status"];
  value.object = result;
  return store(target, value, request);
}

HttpResponse FakeApi::patch(const HttpServerRequest& request, const Target& target) {
  const std::string type = request.header("content-type").value_or("");
  if (type == "application/apply-patch+yaml") return apply(request, target);
  Stored value = stored(target);
  const Json patch = parse_json(request.body, "the patch");
  Json result = value.object;
  if (type == "application/json-patch+json") {
    try {
      result = result.patch(patch);
    } catch (const Json::exception& error) {
      refuse(422, "Invalid", error.what());
    }
  } else if (type == "application/merge-patch+json" ||
             (type == "application/strategic-merge-patch+json" &&
              (target.kind->resource.group.find('.') == std::string::npos ||
               target.kind->resource.group.ends_with(".k8s.io")))) {
    const Json old = result["metadata"]["resourceVersion"];
    if (type == "application/merge-patch+json") {
      result.merge_patch(patch);
    } else {
      merge_by_name(result, patch);
    }
    if (result["metadata"]["resourceVersion"] != old) {
      refuse(409, "Conflict", "the object has been modified");
    }
  } else {
    refuse(415, "UnsupportedMediaType", type);
  }
  // Of the object and its status each request changes one.
  const bool status = target.subresource == "status";
  Json kept = value.object;
  if (status) {
    kept["status"] = result["status"];
    result = kept;
  } else {
    result.erase("status");
    if (kept.contains("status")) result["status"] = kept["status"];
  }
  value.object = result;
  return store(target, value, request);
}

HttpResponse FakeApi::apply(const HttpServerRequest& request, const Target& target) {
  const std::string manager = parameter(request, "fieldManager");
  if (manager.empty()) bad("fieldManager is required for apply patch");
  Json wanted = body_of(request, target, "application/apply-patch+yaml");
  wanted["metadata"].erase("namespace");
  const bool is_new =
      !objects_.contains({target.kind->resource.plural, target.name_space, target.name});
  if (is_new) {
    Json object = wanted;
    if (target.kind->namespaced) object["metadata"]["namespace"] = target.name_space;
    object["metadata"]["uid"] = fmt::format("uid-{}", ++version_);
    Stored value{object, {}};
    leaves(wanted, "", value.managers[manager]);
    return store(target, value, request, 201);
  }
  Stored value = stored(target);
  std::set<std::string> owned;
  leaves(wanted, "", owned);
  for (auto& [other, fields] : value.managers) {
    if (other == manager) continue;
    for (const std::string& leaf : owned) {
      const Json::json_pointer at(leaf);
      if (!fields.contains(leaf) || value.object.value(at, Json()) == wanted.at(at)) continue;
      if (parameter(request, "force") != "true") {
        refuse(409, "Conflict",
               fmt::format("Apply failed with 1 conflict: conflict with \"{}\": {}", other, leaf));
      }
      fields.erase(leaf);
    }
  }
  for (const std::string& leaf : value.managers[manager]) {
    const bool shared = std::any_of(value.managers.begin(), value.managers.end(), [&](auto& other) {
      return other.first != manager && other.second.contains(leaf);
    });
    const Json::json_pointer at(leaf);
    if (owned.contains(leaf) || shared || !value.object.contains(at)) continue;
    value.object[at.parent_pointer()].erase(at.back());
  }
  value.object.merge_patch(wanted);
  value.managers[manager] = owned;
  return store(target, value, request);
}

HttpResponse FakeApi::remove(const HttpServerRequest& request, const Target& target) {
  const Json options = request.body.empty() ? Json::object() : parse_json(request.body, "the body");
  Stored& value = stored(target);
  const Json conditions = options.value("preconditions", Json::object());
  for (const char* key : {"uid", "resourceVersion"}) {
    if (conditions.contains(key) && conditions[key] != value.object["metadata"][key]) {
      refuse(409, "Conflict", "Precondition failed");
    }
  }
  Json object = value.object;
  if (options.contains("dryRun")) return json_response(200, object);
  object["metadata"]["resourceVersion"] = fmt::format("{}", ++version_);
  if (!object["metadata"].value("finalizers", Json::array()).empty()) {
    object["metadata"]["deletionTimestamp"] = rfc3339(std::chrono::system_clock::now(), 0);
    value.object = object;
    changed(*target.kind, "MODIFIED", object);
  } else {
    objects_.erase({target.kind->resource.plural, target.name_space, target.name});
    changed(*target.kind, "DELETED", object);
  }
  return json_response(200, object);
}

}  // namespace adaptdl::kube
