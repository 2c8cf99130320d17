#pragma once

// Requests to an API server. https://kubernetes.io/docs/reference/using-api/api-concepts
//
// A client is thread-safe: requests of several threads run in parallel, each on its own connection,
// which is kept for later requests. A request throws ApiError if the server refuses it, HttpError
// if there is no answer, and Cancelled. The client retries requests (retry.h) within a time budget,
// except creations and JSON patches that may have arrived, because the server could do them twice.
// Its requests wait for its rate limit, and while the server asks for a pause (throttle.h); one
// that would have to wait beyond its budget fails at once with ApiError 429. pass() does not wait.
// After a 401 it renews the credentials once. Objects in answers are as of parse_answer().

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
  Seconds timeout{30.0};       // for one attempt
  Seconds retry_budget{30.0};  // no attempt starts later than this; 0: no retries
  // Attempts a second in the long run and at once; 0: no limit. A process that works for many users
  // sets it, so that it leaves room for other clients of the server.
  double qps = 0;
  int burst = 1;
  size_t max_answer = 32u << 20;  // bytes; an object has 1.5 MB at most, pages shrink to fit
  std::string field_manager = "adaptdl";  // the fieldManager of changes; apply() may set another
  std::function<void(const std::string&)> trace = {};  // called for each attempt, without secrets
  const Cancellation* cancel = nullptr;                // cancels every request; outlives the client
};

struct ListOptions {
  std::string labels, fields;            // selectors: "a=b,c!=d", "spec.nodeName=n1"
  int page = 500;                        // objects per answer at most, >= 1
  std::function<void(Json&)> trim = {};  // called for each object before the next page is read
};
struct ObjectList {
  std::string resource_version;  // of the list, to watch from
  std::vector<Json> items;       // as in the server's answer: without apiVersion and kind
};

struct WriteOptions {
  bool dry_run = false;  // the server validates and answers, but stores nothing
  // create(): retry after a 429. False for evictions, where a 429 means that a PodDisruptionBudget
  // forbids one now.
  bool insist = true;
  // patch(): the answer need hold only the object's metadata, which a large object costs less.
  bool metadata_only = false;
};
enum class PatchKind { json, merge, strategic };  // custom resources do not support strategic ones
struct ApplyOptions {
  std::string field_manager;  // "": the client's
  bool force = false;         // takes over fields of other managers; else they are a conflict
  bool dry_run = false;
};
struct DeleteOptions {
  enum class Propagation { as_usual, background, foreground, orphan };
  std::string uid, resource_version;  // preconditions; a mismatch is a conflict; "": any
  Propagation propagation = Propagation::as_usual;
  std::optional<int> grace_period_s;  // 0: at once
  bool dry_run = false;
};

// Number of attempts by method and the answer's status; status 0: no answer.
using RequestCounts = std::map<std::pair<std::string, int>, uint64_t>;

class Client {
 public:
  explicit Client(Config config, ClientOptions options = {});
  // Shares the other one's limits, connections and counts. Sends a request that changes something,
  // also for another attempt, only while `may_change`, which any thread may call, returns true;
  // else throws Cancelled.
  Client(const Client& other, std::function<bool()> may_change);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Config& config() const { return config_; }
  const ClientOptions& options() const { return options_; }
  Credentials& credentials() { return credentials_; }
  RequestCounts requests() const;  // so far; a watch counts when it ends
  Seconds pause() const;           // the rest of the server's pause (throttle.h)

  Json get(const Resource& object);
  std::optional<Json> find(const Resource& object);  // nothing if not found

  // Lists a whole collection page by page, smaller ones where objects are large; starts again if
  // the server no longer has a page.
  ObjectList list(const Resource& collection, const ListOptions& options = {});

  // `object` has apiVersion, kind and metadata.name or generateName. Returns the stored object.
  // `resource` names the collection, or an object and its subresource ("eviction", "binding").
  Json create(const Resource& resource, const Json& object, WriteOptions options = {});
  // Replaces the object. With metadata.resourceVersion, a change by somebody else since then is a
  // conflict.
  Json update(const Resource& object, const Json& value, WriteOptions options = {});
  Json patch(const Resource& object, PatchKind kind, const Json& patch, WriteOptions options = {});
  // Server-side apply: creates the object, or sets these fields and removes those that the manager
  // applied before but no longer does.
  Json apply(const Resource& object, const Json& value, const ApplyOptions& options = {});
  // False if not found. True as soon as the server accepts: with finalizers or a grace period the
  // object exists a while longer.
  bool remove(const Resource& object, const DeleteOptions& options = {});
  // Deletes all objects that match, in one request.
  void remove_all(const Resource& collection, const ListOptions& which,
                  const DeleteOptions& options = {});

  // GET of an answer that may be endless: calls `on_bytes` with each piece and returns at the end.
  // `timeout` is for the whole request. Retries only before the first byte.
  void stream(const Resource& resource, const Query& query, Seconds timeout,
              const std::function<void(std::string_view)>& on_bytes,
              const Cancellation* cancel = nullptr);

  // Sends any request with the credentials. Its url is a path with a query, such as
  // service_proxy_path(). Does not retry, and returns answers of any status.
  HttpResponse pass(const HttpRequest& request);

 private:
  class Lease;
  struct Pool;
  enum class Repeat { never, if_refused, always };

  HttpResponse send(HttpRequest request, Repeat repeat, const std::string& what,
                    const bool* begun = nullptr);
  void wait_turn(const Cancellation* cancel, const std::string& what, TimePoint start);
  HttpResponse list_page(const Resource& collection, const ListOptions& options,
                         const std::string& next, int& objects);
  HttpResponse send_once(const HttpRequest& request, const Identity& identity);
  HttpResponse send_traced(const HttpRequest& request, const Identity& identity);
  Json write(const char* method, const Resource& resource, const Query& query, const Json& body,
             const char* type, Repeat repeat, bool only_once,
             const char* accept = "application/json");
  Query write_query(bool dry_run, const std::string& manager) const;
  void warn(const HttpResponse& response);

  const Config config_;
  const ClientOptions options_;
  const std::function<bool()> may_change_ = {};  // empty: always
  Credentials credentials_;
  std::shared_ptr<Pool> pool_;
};

}  // namespace adaptdl::kube
