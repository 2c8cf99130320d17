#include "core/kube/client.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/rng.h"
#include "core/formats/json_fields.h"
#include "core/kube/answer.h"
#include "core/kube/retry.h"
#include "core/kube/throttle.h"
#include "core/kube/trace.h"

namespace adaptdl::kube {
namespace {

constexpr size_t kMaxWarnings = 100;

constexpr const char* kJson = "application/json";
constexpr const char* kMetadata =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

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

// With a name, the answer to a second creation shows that the first one succeeded.
bool is_named(const Json& object) {
  return object_at(object, "metadata").contains("name");
}

Json parse_object(const HttpResponse& response, const std::string& what) {
  Json object = parse_answer(response.body, what, ObjectsAre::whole);
  if (!object.is_object()) fail("{}: the answer is not an object", what);
  return object;
}

}  // namespace

// Idle connections and other state that threads share.
struct Client::Pool {
  explicit Pool(const ClientOptions& options) : throttle(options.qps, options.burst) {}

  struct Idle {
    HttpClient client;
    std::string certificate;  // the client's certificate
  };
  std::mutex mutex;
  std::vector<Idle> idle;
  std::set<std::string> warned;
  RequestCounts requests;
  Throttle throttle;
  Rng rng{jitter_seed()};

  double jitter() {
    const std::lock_guard lock(mutex);
    return rng.uniform();
  }
};

// A connection for one request; the destructor returns it to the pool.
class Client::Lease {
 public:
  Lease(Client& owner, const Identity& identity) : owner_(owner), idle_(take(owner, identity)) {}
  ~Lease() {
    const std::lock_guard lock(owner_.pool_->mutex);
    owner_.pool_->idle.push_back(std::move(idle_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  HttpClient& client() { return idle_.client; }

 private:
  static Pool::Idle take(Client& owner, const Identity& identity) {
    {
      const std::lock_guard lock(owner.pool_->mutex);
      auto& idle = owner.pool_->idle;
      while (!idle.empty()) {
        Pool::Idle last = std::move(idle.back());
        idle.pop_back();
        if (last.certificate == identity.certificate) return last;
      }
    }
    HttpClientOptions options = owner.config_.connection;
    options.certificate = identity.certificate;
    options.key = identity.key;
    return {HttpClient(options), identity.certificate};
  }

  Client& owner_;
  Pool::Idle idle_;
};

Client::Client(Config config, ClientOptions options)
    : config_(std::move(config)),
      options_(std::move(options)),
      credentials_(config_),
      pool_(std::make_shared<Pool>(options_)) {}
Client::Client(const Client& other, std::function<bool()> may_change)
    : config_(other.config_),
      options_(other.options_),
      may_change_(std::move(may_change)),
      credentials_(config_),
      pool_(other.pool_) {}
Client::~Client() = default;

RequestCounts Client::requests() const {
  const std::lock_guard lock(pool_->mutex);
  return pool_->requests;
}

HttpResponse Client::send_once(const HttpRequest& request, const Identity& identity) {
  const auto count = [&](int status) {
    const std::lock_guard lock(pool_->mutex);
    ++pool_->requests[{request.method, status}];
  };
  try {
    HttpResponse response = send_traced(request, identity);
    count(response.status);
    return response;
  } catch (const Error&) {
    count(0);
    throw;
  }
}

HttpResponse Client::send_traced(const HttpRequest& request, const Identity& identity) {
  Lease lease(*this, identity);
  HttpRequest whole = request;
  whole.url = config_.server + request.url;
  whole.headers.insert(whole.headers.end(), identity.headers.begin(), identity.headers.end());
  if (whole.cancel == nullptr) whole.cancel = options_.cancel;
  if (!options_.trace) return lease.client().send(whole);
  options_.trace(request_trace(whole));
  const TimePoint start = Monotonic::now();
  try {
    HttpResponse response = lease.client().send(whole);
    options_.trace(response_trace(whole, response, Seconds(seconds_since(start))));
    return response;
  } catch (const Error& error) {
    options_.trace(error.what());
    throw;
  }
}

namespace {

void sleep_for(Seconds duration, const Cancellation* cancel, const std::string& what) {
  if (cancel == nullptr) {
    std::this_thread::sleep_for(duration);
  } else if (cancel->wait_for(duration)) {
    throw Cancelled(what);
  }
}

}  // namespace

Seconds Client::pause() const {
  return pool_->throttle.pause(Monotonic::now());
}

// Waits until the next request may be sent; `start`: since when its budget counts.
void Client::wait_turn(const Cancellation* cancel, const std::string& what, TimePoint start) {
  // After a pause another thread's request may have begun the next one.
  for (Seconds pause; (pause = pool_->throttle.pause(Monotonic::now())) > Seconds(0);) {
    if (seconds_since(start) + pause.count() > options_.retry_budget.count()) {
      Status status;
      status.code = 429;
      status.retry_after = pause;
      status.message =
          fmt::format("not sent, since the server is overloaded and asked for a pause of {:.0f} s",
                      std::ceil(pause.count()));
      throw ApiError(what, status);
    }
    // The waiting threads do not all go on at the same moment.
    sleep_for(pause + Seconds(pool_->jitter() * std::min(1.0, pause.count())), cancel, what);
  }
  const Seconds turn = pool_->throttle.reserve(Monotonic::now());
  if (turn > Seconds(0)) sleep_for(turn, cancel, what);
}

// `begun` becomes true when a part of the answer was used: then a retry is too late.
HttpResponse Client::send(HttpRequest request, Repeat repeat, const std::string& what,
                          const bool* begun) {
  const TimePoint start = Monotonic::now();
  const Cancellation* cancel = request.cancel != nullptr ? request.cancel : options_.cancel;
  request.max_body = options_.max_answer;
  bool renewed = false;
  for (int attempt = 1;; ++attempt) {
    wait_turn(cancel, what, start);
    if (may_change_ && request.method != "GET" && !may_change_()) throw Cancelled(what);
    const Identity identity = credentials_.current();
    Outcome outcome;
    std::exception_ptr lost;
    std::string reason;
    try {
      HttpResponse response = send_once(request, identity);
      warn(response);
      if (response.ok()) return response;
      if (response.status == 401 && !std::exchange(renewed, true) && credentials_.renew(identity)) {
        continue;
      }
      outcome = {true, true, status_of(response)};
      reason = fmt::format("{} {}", response.status, outcome.status.message);
    } catch (const HttpAnswerTooLarge&) {
      throw;  // it would be the next time, too
    } catch (const HttpError& error) {
      outcome = {false, error.may_have_arrived(), {}};
      lost = std::current_exception();
      reason = error.what();
    }
    // A request that is never repeated, such as an eviction, is refused for reasons of its own.
    if (outcome.answered && outcome.status.code == 429 && repeat != Repeat::never) {
      pool_->throttle.refused(outcome.status.retry_after, Monotonic::now());
    }
    const bool too_late = repeat == Repeat::never || (begun != nullptr && *begun);
    const auto delay =
        retry_delay(outcome, repeat == Repeat::always, attempt, Seconds(seconds_since(start)),
                    options_.retry_budget, pool_->jitter());
    if (!delay || too_late) {
      if (lost) std::rethrow_exception(lost);
      throw ApiError(what, outcome.status);
    }
    log_debug("{}: {}; retrying in {:.1f} s", what, reason, delay->count());
    sleep_for(*delay, cancel, what);
  }
}

// Logs the server's warnings, such as of a deprecated version, each once: 299 - "TEXT".
void Client::warn(const HttpResponse& response) {
  for (const auto& [name, value] : response.headers) {
    if (name != "warning") continue;
    const size_t begin = value.find('"'), end = value.rfind('"');
    if (begin == std::string::npos || end <= begin) continue;
    const std::string text = value.substr(begin + 1, end - begin - 1);
    {
      const std::lock_guard lock(pool_->mutex);
      if (pool_->warned.size() >= kMaxWarnings || !pool_->warned.insert(text).second) continue;
    }
    log_warning("{}: {}", config_.server, text);
  }
}

void Client::stream(const Resource& resource, const Query& query, Seconds timeout,
                    const std::function<void(std::string_view)>& on_bytes,
                    const Cancellation* cancel) {
  bool begun = false;
  HttpRequest request{.url = resource.path() + query_text(query),
                      .headers = {{"Accept", "application/json, */*"}},
                      .timeout = timeout,
                      .on_body =
                          [&](std::string_view piece) {
                            begun = true;
                            on_bytes(piece);
                          },
                      .cancel = cancel};
  send(std::move(request), Repeat::always, "GET " + resource.describe(), &begun);
}

HttpResponse Client::pass(const HttpRequest& request) {
  const Identity identity = credentials_.current();
  HttpResponse response = send_once(request, identity);
  if (response.status != 401 || !credentials_.renew(identity)) return response;
  return send_once(request, credentials_.current());
}

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

// Asks for fewer `objects` until the answer is small enough.
HttpResponse Client::list_page(const Resource& collection, const ListOptions& options,
                               const std::string& next, int& objects) {
  for (;; objects = std::max(1, objects / 4)) {
    Query query{{"limit", fmt::format("{}", objects)}};
    if (!next.empty()) query.emplace_back("continue", next);
    add_selectors(query, options);
    try {
      return send({.url = collection.path() + query_text(query),
                   .headers = {{"Accept", kJson}},
                   .timeout = options_.timeout},
                  Repeat::always, "list " + collection.describe());
    } catch (const HttpAnswerTooLarge&) {
      if (objects == 1) throw;
    }
  }
}

ObjectList Client::list(const Resource& collection, const ListOptions& options) {
  const std::string what = "list " + collection.describe();
  // The server keeps a page for minutes; if it is gone every time, there is another fault.
  constexpr int kMaxRestarts = 5;
  int restarts = 0, objects = options.page;
  for (ObjectList result;;) {
    std::string next;
    try {
      do {
        const HttpResponse response = list_page(collection, options, next, objects);
        const ListAnswer page = parse_list(response.body, what);
        const Json& metadata = object_at(page.list, "metadata");
        result.resource_version = text_at(metadata, "resourceVersion");
        next = text_at(metadata, "continue");
        for (const std::string_view text : page.items) {
          Json item = parse_answer(text, what, ObjectsAre::whole);
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

Json Client::write(const char* method, const Resource& resource, const Query& query,
                   const Json& body, const char* type, Repeat repeat, bool only_once,
                   const char* accept) {
  const std::string what = fmt::format("{} {}", method, resource.describe());
  const HttpResponse response = send({.method = method,
                                      .url = resource.path() + query_text(query),
                                      .headers = {{"Content-Type", type}, {"Accept", accept}},
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
               once ? Repeat::if_refused : Repeat::always, once,
               options.metadata_only ? kMetadata : kJson);
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
