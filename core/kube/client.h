#pragma once

// Requests to an API server. https://kubernetes.io/docs/reference/using-api/api-concepts
//
// A client is thread-safe: requests of several threads run beside each other, each on a connection
// of its own, which is kept for the next. Each throws ApiError if it is refused, HttpError if there
// is no answer, Cancelled. What may be sent again is (retry.h), within a budget of time; creations
// and JSON patches that may have arrived are not, since they could be done twice. After a 401 the
// credentials are renewed once.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/formats/json.h"
#include "core/kube/config.h"
#include "core/kube/credentials.h"
#include "core/kube/resource.h"
#include "core/kube/status.h"
#include "core/net/http.h"

namespace adaptdl::kube {

struct ClientOptions {
  Seconds timeout{30.0};                  // for one attempt
  Seconds retry_budget{30.0};             // no attempt begins later than this; 0: no second one
  std::string field_manager = "adaptdl";  // whose changes these are; apply() may say another
  std::function<void(const std::string&)> trace = {};  // told of each attempt, without secrets
  const Cancellation* cancel = nullptr;                // ends every request; outlives the client
};

struct ListOptions {
  std::string labels, fields;            // selectors: "a=b,c!=d", "spec.nodeName=n1"
  int page = 500;                        // objects in one answer, >= 1
  std::function<void(Json&)> trim = {};  // called for each object before the next page is read
};
struct ObjectList {
  std::string resource_version;  // of the whole, to watch from
  std::vector<Json> items;       // as the server gives them: without apiVersion and kind
};

struct WriteOptions {
  bool dry_run = false;  // checked and answered as if, but nothing is stored
  // create(): a 429 is repeated. False for evictions, where it means that a budget forbids one now.
  bool insist = true;
};
enum class PatchKind { json, merge, strategic };  // custom resources take no strategic ones
struct ApplyOptions {
  std::string field_manager;  // "": the client's
  bool force = false;         // takes fields over from other managers; else those are a conflict
  bool dry_run = false;
};
struct DeleteOptions {
  enum class Propagation { as_usual, background, foreground, orphan };
  std::string uid, resource_version;  // preconditions, else a conflict; "": any
  Propagation propagation = Propagation::as_usual;
  std::optional<int> grace_period_s;  // 0: at once
  bool dry_run = false;
};

// How many attempts there were, by method and by the answer's status; 0: there was none.
using RequestCounts = std::map<std::pair<std::string, int>, uint64_t>;

class Client {
 public:
  explicit Client(Config config, ClientOptions options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Config& config() const { return config_; }
  const ClientOptions& options() const { return options_; }
  Credentials& credentials() { return credentials_; }
  RequestCounts requests() const;  // so far; a watch counts when it ends

  Json get(const Resource& object);
  std::optional<Json> find(const Resource& object);  // nothing if there is none

  // All of a collection, page by page; from the start again if a page is no longer kept.
  ObjectList list(const Resource& collection, const ListOptions& options = {});

  // `object` has apiVersion, kind and metadata.name or generateName. The answer is what is stored.
  // `resource` names the collection, or an object and its subresource ("eviction", "binding").
  Json create(const Resource& resource, const Json& object, WriteOptions options = {});
  // Replaces; with metadata.resourceVersion only if nobody changed it since, else a conflict.
  Json update(const Resource& object, const Json& value, WriteOptions options = {});
  Json patch(const Resource& object, PatchKind kind, const Json& patch, WriteOptions options = {});
  // Server-side apply: creates it, or makes these fields so and drops those that the manager
  // applied before and no longer does.
  Json apply(const Resource& object, const Json& value, const ApplyOptions& options = {});
  // False if there is none. True as soon as the server has agreed: with finalizers or a grace
  // period it is there a while longer.
  bool remove(const Resource& object, const DeleteOptions& options = {});
  // All that match, in one request.
  void remove_all(const Resource& collection, const ListOptions& which,
                  const DeleteOptions& options = {});

  // GET with an answer that comes bit by bit, and may have no end: `on_bytes` gets it. Returns at
  // its end. `timeout` is for all of it. Repeated only before the first byte.
  void stream(const Resource& resource, const Query& query, Seconds timeout,
              const std::function<void(std::string_view)>& on_bytes,
              const Cancellation* cancel = nullptr);

  // Any request, whose url is a path with its query, such as service_proxy_path(): with the
  // credentials, not repeated, and every answer is one.
  HttpResponse pass(HttpRequest request);

 private:
  class Lease;
  struct Pool;
  enum class Repeat { never, if_refused, always };

  HttpResponse send(HttpRequest request, Repeat repeat, const std::string& what,
                    const bool* begun = nullptr);
  HttpResponse send_once(const HttpRequest& request, const Identity& identity);
  HttpResponse send_traced(const HttpRequest& request, const Identity& identity);
  Json write(const char* method, const Resource& resource, Query query, const Json& body,
             const char* type, Repeat repeat, bool only_once);
  Query write_query(bool dry_run, const std::string& manager) const;
  void warn(const HttpResponse& response);

  const Config config_;
  const ClientOptions options_;
  Credentials credentials_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace adaptdl::kube
