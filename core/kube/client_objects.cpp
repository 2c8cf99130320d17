// Client's requests about objects.

#include "core/base/error.h"
#include "core/kube/client.h"

namespace adaptdl::kube {
namespace {

constexpr const char* kJson = "application/json";

const char* propagation_text(DeleteOptions::Propagation propagation) {
  using Propagation = DeleteOptions::Propagation;
  switch (propagation) {
    case Propagation::background:
      return "Background";
    case Propagation::foreground:
      return "Foreground";
    case Propagation::orphan:
      return "Orphan";
    case Propagation::as_usual:
      break;
  }
  return nullptr;
}

Json delete_body(const DeleteOptions& options) {
  Json body{{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
  if (!options.uid.empty()) body["preconditions"]["uid"] = options.uid;
  if (!options.resource_version.empty()) {
    body["preconditions"]["resourceVersion"] = options.resource_version;
  }
  const char* propagation = propagation_text(options.propagation);
  if (propagation != nullptr) body["propagationPolicy"] = propagation;
  if (options.grace_period_s) body["gracePeriodSeconds"] = *options.grace_period_s;
  if (options.dry_run) body["dryRun"] = {"All"};
  return body;
}

void add_selectors(Query& query, const ListOptions& options) {
  if (!options.labels.empty()) query.emplace_back("labelSelector", options.labels);
  if (!options.fields.empty()) query.emplace_back("fieldSelector", options.fields);
}

std::string text_at(const Json& object, const char* outer, const char* inner) {
  const auto found = object.find(outer);
  if (found == object.end() || !found->is_object()) return "";
  const auto text = found->find(inner);
  return text != found->end() && text->is_string() ? text->get<std::string>() : "";
}

// Named, the answer to a second creation says that the first was done.
bool is_named(const Json& object) {
  const auto metadata = object.find("metadata");
  return metadata != object.end() && metadata->is_object() && metadata->contains("name");
}

Json parse_object(const HttpResponse& response, const std::string& what) {
  Json object = parse_json(response.body, what);
  if (!object.is_object()) fail("{}: the answer is no object", what);
  return object;
}

}  // namespace

Json Client::get(const Resource& object) {
  const std::string what = "GET " + object.describe();
  return parse_object(
      send({.url = object.path(), .headers = {{"Accept", kJson}}, .timeout = options_.timeout},
           Repeat::always, what),
      what);
}

std::optional<Json> Client::find(const Resource& object) {
  try {
    return get(object);
  } catch (const ApiError& error) {
    if (!error.not_found()) throw;
    return std::nullopt;
  }
}

ObjectList Client::list(const Resource& collection, const ListOptions& options) {
  const std::string what = "list " + collection.describe();
  // A page is kept for minutes; one that is gone every time means something else.
  constexpr int kMaxRestarts = 5;
  int restarts = 0;
  for (ObjectList result;;) {
    std::string next;
    try {
      do {
        Query query{{"limit", fmt::format("{}", options.page)}};
        if (!next.empty()) query.emplace_back("continue", next);
        add_selectors(query, options);
        HttpResponse response = send({.url = collection.path() + query_text(query),
                                      .headers = {{"Accept", kJson}},
                                      .timeout = options_.timeout},
                                     Repeat::always, what);
        Json page = parse_json(response.body, what, {.max_bytes = response.body.size()});
        response = {};  // its memory, before the objects take theirs
        if (!page.is_object()) fail("{}: the answer is no list", what);
        result.resource_version = text_at(page, "metadata", "resourceVersion");
        next = text_at(page, "metadata", "continue");
        Json& items = page["items"];
        if (!items.is_array() && !items.is_null()) fail("{}: items is no list", what);
        for (Json& item : items) {
          if (!item.is_object()) fail("{}: an item is no object", what);
          if (options.trim) options.trim(item);
          result.items.push_back(std::move(item));
        }
      } while (!next.empty());
      return result;
    } catch (const ApiError& error) {
      if (!error.gone() || next.empty() || ++restarts > kMaxRestarts) throw;
      result = {};
    }
  }
}

Query Client::write_query(bool dry_run, const std::string& manager) const {
  Query query{{"fieldManager", manager.empty() ? options_.field_manager : manager}};
  if (dry_run) query.emplace_back("dryRun", "All");
  return query;
}

Json Client::write(const char* method, const Resource& resource, Query query, const Json& body,
                   const char* type, Repeat repeat, bool only_once) {
  const std::string what = fmt::format("{} {}", method, resource.describe());
  const HttpResponse response = send({.method = method,
                                      .url = resource.path() + query_text(query),
                                      .headers = {{"Content-Type", type}, {"Accept", kJson}},
                                      .body = dump_json(body),
                                      .timeout = options_.timeout,
                                      .only_once = only_once},
                                     repeat, what);
  return parse_object(response, what);
}

Json Client::create(const Resource& resource, const Json& object, WriteOptions options) {
  return write("POST", resource, write_query(options.dry_run, ""), object, kJson,
               options.insist ? Repeat::if_refused : Repeat::never, !is_named(object));
}

Json Client::update(const Resource& object, const Json& value, WriteOptions options) {
  return write("PUT", object, write_query(options.dry_run, ""), value, kJson, Repeat::always,
               false);
}

Json Client::patch(const Resource& object, PatchKind kind, const Json& patch,
                   WriteOptions options) {
  const char* type = kind == PatchKind::json    ? "application/json-patch+json"
                     : kind == PatchKind::merge ? "application/merge-patch+json"
                                                : "application/strategic-merge-patch+json";
  const bool once = kind == PatchKind::json;
  return write("PATCH", object, write_query(options.dry_run, ""), patch, type,
               once ? Repeat::if_refused : Repeat::always, once);
}

Json Client::apply(const Resource& object, const Json& value, const ApplyOptions& options) {
  Query query = write_query(options.dry_run, options.field_manager);
  if (options.force) query.emplace_back("force", "true");
  return write("PATCH", object, query, value, "application/apply-patch+yaml", Repeat::always,
               false);
}

bool Client::remove(const Resource& object, const DeleteOptions& options) {
  try {
    write("DELETE", object, {}, delete_body(options), kJson, Repeat::always, false);
    return true;
  } catch (const ApiError& error) {
    if (!error.not_found()) throw;
    return false;
  }
}

void Client::remove_all(const Resource& collection, const ListOptions& which,
                        const DeleteOptions& options) {
  Query query;
  add_selectors(query, which);
  write("DELETE", collection, query, delete_body(options), kJson, Repeat::always, false);
}

}  // namespace adaptdl::kube
