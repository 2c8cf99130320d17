#include "core/kube/client.h"

#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/rng.h"
#include "core/kube/retry.h"
#include "core/kube/trace.h"

namespace adaptdl::kube {
namespace {

constexpr size_t kMaxAnswer = 256u << 20;
constexpr size_t kMaxWarnings = 100;

uint64_t random_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

// Connections that wait for their next request, and what else threads share.
struct Client::Pool {
  struct Idle {
    HttpClient client;
    std::string certificate;  // it was made with
  };
  std::mutex mutex;
  std::vector<Idle> idle;
  std::set<std::string> warned;
  RequestCounts requests;
  Rng rng{random_seed()};

  double jitter() {
    const std::lock_guard lock(mutex);
    return rng.uniform();
  }
};

// A connection for one request, given back at the end.
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
      pool_(std::make_unique<Pool>()) {}
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

// `begun` turns true when a part of the answer was used: then it is too late to begin again.
HttpResponse Client::send(HttpRequest request, Repeat repeat, const std::string& what,
                          const bool* begun) {
  const TimePoint start = Monotonic::now();
  const Cancellation* cancel = request.cancel != nullptr ? request.cancel : options_.cancel;
  request.max_body = kMaxAnswer;
  bool renewed = false;
  for (int attempt = 1;; ++attempt) {
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
    } catch (const HttpError& error) {
      outcome = {false, error.may_have_arrived(), {}};
      lost = std::current_exception();
      reason = error.what();
    }
    const bool too_late = repeat == Repeat::never || (begun != nullptr && *begun);
    const auto delay =
        retry_delay(outcome, repeat == Repeat::always, attempt, Seconds(seconds_since(start)),
                    options_.retry_budget, pool_->jitter());
    if (!delay || too_late) {
      if (lost) std::rethrow_exception(lost);
      throw ApiError(what, outcome.status);
    }
    log_debug("{}: {}; again in {:.1f} s", what, reason, delay->count());
    if (cancel == nullptr) {
      std::this_thread::sleep_for(*delay);
    } else if (cancel->wait_for(*delay)) {
      throw Cancelled(what);
    }
  }
}

// The server's own warnings, such as of a deprecated version, each once: 299 - "TEXT".
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

HttpResponse Client::pass(HttpRequest request) {
  const Identity identity = credentials_.current();
  HttpResponse response = send_once(request, identity);
  if (response.status != 401 || !credentials_.renew(identity)) return response;
  return send_once(request, credentials_.current());
}

}  // namespace adaptdl::kube
