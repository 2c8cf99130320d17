#include "tests/unit/kube/fake_api.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/hmac.h"
#include "core/base/number.h"
#include "core/kube/time.h"

namespace adaptdl::kube {
namespace {

constexpr size_t kEventsPerWatch = 3;

// What a request is refused with.
struct Refused {
  HttpResponse response;
};
[[noreturn]] void refuse(int code, const std::string& reason, const std::string& message) {
  throw Refused{status_response(code, reason, message)};
}
[[noreturn]] void bad(const std::string& message) {
  refuse(400, "BadRequest", message);
}

HttpResponse json_response(int status, const Json& json) {
  return {status, {{"Content-Type", "application/json"}}, dump_json(json)};
}

std::string decoded(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      const auto bytes = from_hex(text.substr(i + 1, 2), "the query");
      result += static_cast<char>(bytes[0]);
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::string parameter(const HttpServerRequest& request, std::string_view name) {
  const auto value = request.parameter(name);
  return value ? decoded(*value) : "";
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

void check_parameters(const HttpServerRequest& request) {
  static const std::map<std::string, std::set<std::string>> kKnown{
      {"GET",
       {"limit", "continue", "labelSelector", "watch", "allowWatchBookmarks", "resourceVersion",
        "timeoutSeconds"}},
      {"POST", {"fieldManager", "dryRun"}},
      {"PUT", {"fieldManager", "dryRun"}},
      {"PATCH", {"fieldManager", "dryRun", "force"}},
      {"DELETE", {"labelSelector"}}};
  const auto known = kKnown.find(request.method);
  if (known == kKnown.end()) refuse(405, "MethodNotAllowed", request.method);
  if (request.query.empty()) return;
  for (const std::string& pair : split(request.query, '&')) {
    const std::string name = pair.substr(0, pair.find('='));
    if (!known->second.contains(name)) bad("unknown parameter " + name);
  }
  const std::string dry = parameter(request, "dryRun");
  if (!dry.empty() && dry != "All") bad("dryRun must be All");
}

bool matches(const Json& object, const std::string& labels) {
  if (labels.empty()) return true;
  for (const std::string& pair : split(labels, ',')) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos || pair.find('!') != std::string::npos) {
      bad("only selectors by equality: " + pair);
    }
    const Json& metadata = object.at("metadata");
    if (!metadata.contains("labels")) return false;
    if (metadata["labels"].value(pair.substr(0, equals), "") != pair.substr(equals + 1)) {
      return false;
    }
  }
  return true;
}

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

bool dry(const HttpServerRequest& request) {
  return !parameter(request, "dryRun").empty();
}

}  // namespace

HttpResponse status_response(int code, const std::string& reason, const std::string& message,
                             HttpHeaders headers) {
  HttpResponse response = json_response(code, {{"kind", "Status"},
                                               {"apiVersion", "v1"},
                                               {"status", "Failure"},
                                               {"code", code},
                                               {"reason", reason},
                                               {"message", message}});
  response.headers.insert(response.headers.end(), headers.begin(), headers.end());
  return response;
}

FakeApi::FakeApi(std::vector<Kind> more)
    : kinds_{{kPods, "Pod", true, {"spec"}},
             {kNodes, "Node", false, {"spec"}},
             {kConfigMaps, "ConfigMap", true, {"data", "binaryData", "immutable"}},
             {kSecrets, "Secret", true, {"data", "stringData", "type", "immutable"}},
             {kLeases, "Lease", true, {"spec"}}} {
  kinds_.insert(kinds_.end(), more.begin(), more.end());
  server_.emplace(HttpServerOptions{},
                  [this](HttpServerRequest request, HttpReply reply) { handle(request, reply); });
}

Config FakeApi::config() const {
  Config config;
  config.source = "the fake";
  config.server = fmt::format("http://127.0.0.1:{}", server_->port());
  config.name_space = "default";
  return config;
}

void FakeApi::set_fault(Fault fault) {
  const std::lock_guard lock(mutex_);
  fault_ = std::move(fault);
}

int FakeApi::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

int FakeApi::watches() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(waiting_.size());
}

void FakeApi::handle(const HttpServerRequest& request, const HttpReply& reply) {
  const std::lock_guard lock(mutex_);
  ++requests_;
  try {
    if (fault_) {
      if (auto response = fault_(request)) return reply.send(std::move(*response));
    }
    check_parameters(request);
    const Target target = target_of(request.path);
    if (parameter(request, "watch") == "1") return watch(request, target, reply);
    reply.send(answer(request, target));
    flush();
  } catch (const Refused& refused) {
    reply.send(refused.response);
  } catch (const Error& error) {
    reply.send(status_response(400, "BadRequest", error.what()));
  } catch (const Json::exception& error) {
    reply.send(status_response(400, "BadRequest", error.what()));
  }
}

FakeApi::Target FakeApi::target_of(const std::string& path) const {
  for (const Kind& kind : kinds_) {
    const std::string group = kind.resource.group.empty()
                                  ? "/api/" + kind.resource.version
                                  : "/apis/" + kind.resource.group + "/" + kind.resource.version;
    if (!path.starts_with(group + "/")) continue;
    std::vector<std::string> parts = split(path.substr(group.size() + 1), '/');
    Target target{&kind, "", "", ""};
    if (parts[0] == "namespaces" && parts.size() > 2) {
      target.name_space = decoded(parts[1]);
      parts.erase(parts.begin(), parts.begin() + 2);
    }
    if (parts[0] != kind.resource.plural || parts.size() > 3) continue;
    if (parts.size() > 1) target.name = decoded(parts[1]);
    if (parts.size() > 2) target.subresource = parts[2];
    if (!target.subresource.empty() && target.subresource != "status") break;
    if (!target.name.empty() && kind.namespaced == target.name_space.empty()) break;
    return target;
  }
  refuse(404, "NotFound", "the server could not find the requested resource");
}

HttpResponse FakeApi::answer(const HttpServerRequest& request, const Target& target) {
  const bool one = !target.name.empty();
  if (request.method == "GET") {
    return one ? json_response(200, stored(target).object) : list(request, target);
  }
  if (request.method == "POST" && !one) return create(request, target);
  if (request.method == "PUT" && one) return replace(request, target);
  if (request.method == "PATCH" && one) return patch(request, target);
  if (request.method == "DELETE" && one) return remove(request, target);
  refuse(405, "MethodNotAllowed", "not here");
}

HttpResponse FakeApi::list(const HttpServerRequest& request, const Target& target) {
  const std::string limit = parameter(request, "limit"), token = parameter(request, "continue");
  std::vector<Json> items;
  if (!token.empty()) {
    const auto page = pages_.find(token);
    if (page == pages_.end()) refuse(410, "Expired", "The provided continue parameter is too old");
    items = std::move(page->second);
    pages_.erase(page);
  } else {
    for (const auto& [key, value] : objects_) {
      if (key[0] != target.kind->resource.plural) continue;
      if (!target.name_space.empty() && key[1] != target.name_space) continue;
      if (!matches(value.object, parameter(request, "labelSelector"))) continue;
      items.push_back(value.object);
      items.back().erase("kind");
      items.back().erase("apiVersion");
    }
  }
  Json metadata{{"resourceVersion", fmt::format("{}", version_)}};
  const size_t size = limit.empty() ? items.size() : parse_unsigned(limit, "limit", 1);
  if (items.size() > size) {
    const std::string next = fmt::format("next {}", ++version_);
    pages_[next] = {items.begin() + static_cast<ptrdiff_t>(size), items.end()};
    items.resize(size);
    metadata["continue"] = next;
  }
  return json_response(200, {{"kind", target.kind->kind + "List"},
                             {"metadata", metadata},
                             {"items", items.empty() ? Json() : Json(items)}});
}

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

FakeApi::Stored& FakeApi::stored(const Target& target) {
  const auto found = objects_.find({target.kind->resource.plural, target.name_space, target.name});
  if (found == objects_.end()) {
    refuse(404, "NotFound",
           fmt::format("{} \"{}\" not found", target.kind->resource.plural, target.name));
  }
  return found->second;
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
  metadata["creationTimestamp"] = format_time(std::chrono::system_clock::now());
  object.erase("status");
  return store(target, {object, {}}, request, 201);
}

HttpResponse FakeApi::replace(const HttpServerRequest& request, const Target& target) {
  Json object = body_of(request, target, "application/json");
  Stored value = stored(target);
  const Json& old = value.object;
  if (object["metadata"].value("resourceVersion", "") != old["metadata"]["resourceVersion"]) {
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
              target.kind->resource.group.find('.') == std::string::npos)) {
    const Json old = result["metadata"]["resourceVersion"];
    result.merge_patch(patch);
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
    object["metadata"]["deletionTimestamp"] = format_time(std::chrono::system_clock::now());
    value.object = object;
    changed(*target.kind, "MODIFIED", object);
  } else {
    objects_.erase({target.kind->resource.plural, target.name_space, target.name});
    changed(*target.kind, "DELETED", object);
  }
  return json_response(200, object);
}

void FakeApi::changed(const Kind& kind, const std::string& type, const Json& object) {
  changes_[kind.resource.plural].push_back({version_, type, object});
}

void FakeApi::watch(const HttpServerRequest& request, const Target& target,
                    const HttpReply& reply) {
  const std::string version = parameter(request, "resourceVersion");
  if (version.empty()) bad("a watch from nowhere");
  if (parameter(request, "allowWatchBookmarks") != "true") bad("bookmarks are for all");
  Waiting waiting{target.kind, target.name_space, parameter(request, "labelSelector"),
                  parse_int(version, "resourceVersion"), reply};
  if (auto response = events(waiting)) return reply.send(std::move(*response));
  const double patience = parse_double(parameter(request, "timeoutSeconds"), "timeoutSeconds", 1);
  const Json bookmark{
      {"type", "BOOKMARK"},
      {"object", {{"kind", target.kind->kind}, {"metadata", {{"resourceVersion", version}}}}}};
  reply.hold(Seconds(patience), json_response(200, bookmark), [] {});
  waiting_.push_back(std::move(waiting));
}

// What has happened since, at most a few events; nothing if nothing has.
std::optional<HttpResponse> FakeApi::events(const Waiting& waiting) {
  if (waiting.version < oldest_) {
    HttpResponse gone = status_response(410, "Expired", "too old resource version");
    if (!gone_as_event_) return gone;
    return HttpResponse{
        200, {}, dump_json({{"type", "ERROR"}, {"object", Json::parse(gone.body)}}) + "\n"};
  }
  std::string lines;
  size_t count = 0;
  for (const Change& change : changes_[waiting.kind->resource.plural]) {
    if (change.version <= waiting.version || count == kEventsPerWatch) continue;
    const Json& metadata = change.object["metadata"];
    if (!waiting.name_space.empty() && metadata["namespace"] != waiting.name_space) continue;
    if (!matches(change.object, waiting.labels)) continue;
    lines += dump_json({{"type", change.type}, {"object", change.object}}) + "\n";
    ++count;
  }
  if (count == 0) return std::nullopt;
  return HttpResponse{200, {{"Content-Type", "application/json"}}, lines};
}

void FakeApi::flush() {
  std::erase_if(waiting_, [&](Waiting& waiting) {
    auto response = events(waiting);
    if (response) waiting.reply.send(std::move(*response));
    return response.has_value();
  });
}

Json FakeApi::put(const Resource& collection, Json object) {
  const std::lock_guard lock(mutex_);
  const Target target = target_of(
      collection.in(collection.name_space, object["metadata"]["name"].get<std::string>()).path());
  const Key key{collection.plural, target.name_space, target.name};
  Stored value = objects_.contains(key) ? objects_[key] : Stored{};
  if (!value.object.is_null()) {
    object["metadata"]["uid"] = value.object["metadata"]["uid"];
  } else {
    object["metadata"]["uid"] = fmt::format("uid-{}", ++version_);
  }
  if (!target.name_space.empty()) object["metadata"]["namespace"] = target.name_space;
  value.object = std::move(object);
  const HttpResponse response = store(target, value, {});
  flush();
  return Json::parse(response.body);
}

void FakeApi::erase(const Resource& object) {
  const std::lock_guard lock(mutex_);
  remove({}, target_of(object.path()));
  flush();
}

void FakeApi::compact(bool as_event) {
  const std::lock_guard lock(mutex_);
  oldest_ = ++version_;
  gone_as_event_ = as_event;
  changes_.clear();
  pages_.clear();
  flush();
}

}  // namespace adaptdl::kube
