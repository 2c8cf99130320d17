#include "tests/unit/kube/fake_api.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/number.h"
#include "tests/unit/kube/fake_api_request.h"

namespace adaptdl::kube {

using namespace fake;

namespace {

constexpr size_t kEventsPerWatch = 3;

void check_parameters(const HttpServerRequest& request) {
  static const std::map<std::string, std::set<std::string>> known_parameters{
      {"GET",
       {"limit", "continue", "labelSelector", "fieldSelector", "watch", "allowWatchBookmarks",
        "resourceVersion", "timeoutSeconds"}},
      {"POST", {"fieldManager", "dryRun"}},
      {"PUT", {"fieldManager", "dryRun"}},
      {"PATCH", {"fieldManager", "dryRun", "force"}},
      {"DELETE", {"labelSelector"}}};
  const auto known = known_parameters.find(request.method);
  if (known == known_parameters.end()) refuse(405, "MethodNotAllowed", request.method);
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
    if (pair.empty() || pair.find_first_of("! ()") != std::string::npos) {
      bad("only selectors by equality and existence: " + pair);
    }
    const Json& metadata = object.at("metadata");
    if (!metadata.contains("labels")) return false;
    const Json& there = metadata["labels"];
    if (!there.contains(pair.substr(0, equals))) return false;
    if (equals != std::string::npos && there[pair.substr(0, equals)] != pair.substr(equals + 1)) {
      return false;
    }
  }
  return true;
}

bool is_selected(const Json& object, const std::string& field) {
  constexpr std::string_view kName = "metadata.name=";
  if (field.empty()) return true;
  if (!field.starts_with(kName)) bad("only a field selector by name: " + field);
  return object.at("metadata").at("name") == field.substr(kName.size());
}

}  // namespace

FakeApi::FakeApi(std::vector<Kind> more)
    : kinds_{{kPods, "Pod", true, {"spec"}},
             {kNodes, "Node", false, {"spec"}},
             {kConfigMaps, "ConfigMap", true, {"data", "binaryData", "immutable"}},
             {kSecrets, "Secret", true, {"data", "stringData", "type", "immutable"}},
             {kLeases, "Lease", true, {"spec"}}} {
  kinds_.insert(kinds_.end(), more.begin(), more.end());
  server_.emplace(HttpServerOptions{}, [this](const HttpServerRequest& request,
                                              const HttpReply& reply) { handle(request, reply); });
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
      if (!is_selected(value.object, parameter(request, "fieldSelector"))) continue;
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

FakeApi::Stored& FakeApi::stored(const Target& target) {
  const auto found = objects_.find({target.kind->resource.plural, target.name_space, target.name});
  if (found == objects_.end()) {
    refuse(404, "NotFound",
           fmt::format("{} \"{}\" not found", target.kind->resource.plural, target.name));
  }
  return found->second;
}

void FakeApi::changed(const Kind& kind, const std::string& type, const Json& object) {
  changes_[kind.resource.plural].push_back({version_, type, object});
}

void FakeApi::watch(const HttpServerRequest& request, const Target& target,
                    const HttpReply& reply) {
  const std::string version = parameter(request, "resourceVersion");
  if (version.empty()) bad("a watch from nowhere");
  if (!parameter(request, "fieldSelector").empty()) bad("field selectors are for lists alone");
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
