#include "core/sched/supervisor.h"

#include <algorithm>
#include <atomic>
#include <compare>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/number.h"
#include "core/formats/json.h"
#include "core/sched/hint_limiter.h"
#include "core/sched/quota.h"

namespace adaptdl {
namespace {

constexpr double kUsualTimeout = 30, kLongestTimeout = 300;  // seconds
constexpr double kUnknownTimeout = 5;                        // for a job that is not known

// The shares of the server's connections that held requests may use: one job, all unknown jobs, and
// unknown jobs from one address.
constexpr double kJobShare = 0.25, kUnknownShare = 0.1, kAddressShare = 0.01;

constexpr size_t kMaxHead = 8u << 10;  // bytes
constexpr Seconds kHintInterval{1.0};  // between two looks at kept hints
constexpr Seconds kWarningPause{60.0};

// The words of a path, without empty ones: a client whose base URL ends with '/' requests
// //discover.
std::vector<std::string> words_of(std::string_view path) {
  std::vector<std::string> words;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    if (end > 0) words.emplace_back(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return words;
}

// Takes a time that does not depend on the tokens or their lengths.
bool same_token(std::string_view a, std::string_view b) {
  return equal_constant_time(sha256(bytes_of(a)), sha256(bytes_of(b)));
}

// The job of a request, and the caller's token.
struct Caller {
  std::string job_namespace, name;
  std::optional<std::string> token;

  auto operator<=>(const Caller&) const = default;
  std::string job() const { return job_namespace + "/" + name; }
};

struct Poll {
  Caller caller;
  int64_t group = 0;

  auto operator<=>(const Poll&) const = default;
};

// What a request asks for.
struct Target {
  enum class Kind { health, discover, hints, leads } kind = Kind::health;
  Poll poll;     // without a group if `hints`, without a job if `health`
  int rank = 0;  // of `leads`
};

HttpResponse empty_response(int status) {
  return {status, {}, ""};
}

size_t share(double part, int connections) {
  return static_cast<size_t>(std::max(1.0, part * connections));
}

HttpResponse refuse_method(const char* allowed) {
  HttpResponse response = text_response(405, fmt::format("Only {} is allowed here.", allowed));
  response.headers.emplace_back("Allow", allowed);
  return response;
}

// The answer to a caller that may not access this job; empty if it may.
std::optional<HttpResponse> refuse_caller(const SupervisedJob& job, const Caller& caller) {
  if (!job.token) return std::nullopt;
  if (!caller.token) {
    return text_response(401, fmt::format("Only programs of {} may ask: the path must start with "
                                          "/j/ and the job's token.",
                                          caller.job()));
  }
  if (same_token(*job.token, *caller.token)) return std::nullopt;
  return text_response(403, fmt::format("Wrong token for {}.", caller.job()));
}

// The target of a request, or the answer to one without.
std::variant<Target, HttpResponse> target_of(const HttpServerRequest& request) {
  std::vector<std::string> words = words_of(request.path);
  Target target;
  Caller& caller = target.poll.caller;
  if (words.size() >= 2 && words[0] == "j") {
    caller.token = words[1];
    words.erase(words.begin(), words.begin() + 2);
  }
  const bool reads = request.method == "GET" || request.method == "HEAD";
  const std::string what = words.empty() ? "" : words[0];
  if (what == "healthz" && words.size() == 1) {
    if (!reads) return refuse_method("GET, HEAD");
    return target;
  }
  if (what == "discover" && words.size() == 4) {
    if (!reads) return refuse_method("GET, HEAD");
    const auto group = try_parse<int64_t>(words[3]);
    if (!group) return text_response(400, "The generation must be an integer.");
    target.kind = Target::Kind::discover;
    target.poll.group = *group;
  } else if (what == "hints" && words.size() == 3) {
    if (request.method != "PUT") return refuse_method("PUT");
    target.kind = Target::Kind::hints;
  } else if (what == "leads" && words.size() == 5) {
    if (request.method != "PUT") return refuse_method("PUT");
    const auto group = try_parse<int64_t>(words[3]);
    const auto rank = try_parse<int>(words[4]);
    if (!group || !rank || *rank < 0) {
      return text_response(400, "The generation and the rank must be integers.");
    }
    target.kind = Target::Kind::leads;
    target.poll.group = *group;
    target.rank = *rank;
  } else {
    return text_response(404,
                         "Not found. The paths are /healthz, /discover/NAMESPACE/NAME/GROUP, "
                         "/hints/NAMESPACE/NAME and /leads/NAMESPACE/NAME/GROUP/RANK.");
  }
  caller.job_namespace = words[1];
  caller.name = words[2];
  return target;
}

}  // namespace

struct Supervisor::Impl {
  Impl(SupervisorBackend& the_jobs, HttpServerOptions options)
      : jobs(the_jobs),
        job_holds(share(kJobShare, options.max_connections)),
        unknown_holds(share(kUnknownShare, options.max_connections)),
        address_holds(share(kAddressShare, options.max_connections)),
        server(limited(std::move(options)),
               [this](const HttpServerRequest& request, const HttpReply& reply) {
                 handle(request, reply);
               }) {}

  struct Held {
    HttpReply reply;
    std::vector<Quota::Share> shares;
  };
  struct Look {
    std::optional<HttpResponse> answer;  // empty while the poll must wait
    bool known = false;                  // the job
  };

  HttpServerOptions limited(HttpServerOptions options);
  std::optional<HttpResponse> admit(const HttpServerRequest& head);
  void handle(const HttpServerRequest& request, const HttpReply& reply);
  void discover(const HttpServerRequest& request, const Poll& poll, const HttpReply& reply);
  void refuse_to_hold(const Caller& caller, const std::string& client, const HttpReply& reply);
  std::optional<HttpResponse> refuse_news(const Caller& caller);
  void take_hints(const std::string& body, const Caller& caller, const HttpReply& reply);
  void take_leader(const Target& target, const HttpReply& reply);
  void apply_hints(const SentHints& sent);
  void apply_kept_hints();
  Look look(const Poll& poll);
  void look_at_all();

  SupervisorBackend& jobs;
  std::atomic<bool> look_is_due = false;
  // From here on: used only by the server's thread.
  Quota job_holds, unknown_holds, address_holds;  // before what has shares of them
  std::map<Poll, std::map<uint64_t, Held>> waiting;
  uint64_t last_waiting = 0;
  std::optional<TimePoint> warned;  // when a request was not held
  HintLimiter limiter;
  bool looks_at_hints = false;  // apply_kept_hints() is due
  HttpServer server;            // last: its thread ends before the other members are destroyed
};

HttpServerOptions Supervisor::Impl::limited(HttpServerOptions options) {
  options.max_head = std::min(options.max_head, kMaxHead);
  options.max_body = std::min(options.max_body, kMaxHintsBytes);
  options.admit = [this](const HttpServerRequest& head) { return admit(head); };
  return options;
}

std::optional<HttpResponse> Supervisor::Impl::admit(const HttpServerRequest& head) {
  auto target = target_of(head);
  if (auto* refusal = std::get_if<HttpResponse>(&target)) return std::move(*refusal);
  const auto& found = std::get<Target>(target);
  if (found.kind != Target::Kind::hints) return text_response(400, "Only hints have a body.");
  return refuse_news(found.poll.caller);
}

void Supervisor::Impl::handle(const HttpServerRequest& request, const HttpReply& reply) {
  auto target = target_of(request);
  if (auto* refusal = std::get_if<HttpResponse>(&target)) return reply.send(std::move(*refusal));
  const auto& found = std::get<Target>(target);
  switch (found.kind) {
    case Target::Kind::health:
      return reply.send(empty_response(200));
    case Target::Kind::discover:
      return discover(request, found.poll, reply);
    case Target::Kind::hints:
      return take_hints(request.body, found.poll.caller, reply);
    case Target::Kind::leads:
      return take_leader(found, reply);
  }
}

void Supervisor::Impl::discover(const HttpServerRequest& request, const Poll& poll,
                                const HttpReply& reply) {
  double timeout = kUsualTimeout;
  if (const auto given = request.parameter("timeout")) {
    try {
      timeout = std::min(parse_double(*given, "timeout", 0), kLongestTimeout);
    } catch (const Error& error) {
      return reply.send(text_response(400, error.what()));
    }
  }
  Look found = look(poll);
  if (found.answer) return reply.send(std::move(*found.answer));
  std::vector<Quota::Share> shares;
  if (found.known) {
    shares = {job_holds.take(poll.caller.job())};
  } else {
    timeout = std::min(timeout, kUnknownTimeout);
    shares = {address_holds.take(request.client), unknown_holds.take("")};
  }
  if (std::find(shares.begin(), shares.end(), nullptr) != shares.end()) {
    return refuse_to_hold(poll.caller, request.client, reply);
  }
  const uint64_t number = ++last_waiting;
  waiting[poll].emplace(number, Held{reply, std::move(shares)});
  reply.hold(Seconds(timeout), empty_response(408), [this, poll, number] {
    const auto found = waiting.find(poll);
    if (found == waiting.end()) return;
    found->second.erase(number);
    if (found->second.empty()) waiting.erase(found);
  });
}

void Supervisor::Impl::refuse_to_hold(const Caller& caller, const std::string& client,
                                      const HttpReply& reply) {
  if (!warned || seconds_since(*warned) > kWarningPause.count()) {
    warned = Monotonic::now();
    log_warning("supervisor: too many requests wait for {} or from {}; further ones must ask again",
                caller.job(), client);
  }
  reply.send({408, {{"Retry-After", "1"}}, ""});
}

// An error here must not end the program that asks, as a 500 answer would.
Supervisor::Impl::Look Supervisor::Impl::look(const Poll& poll) {
  const Caller& caller = poll.caller;
  Look result;
  try {
    const auto job = jobs.find(caller.job_namespace, caller.name);
    if (!job) return result;
    if (auto refusal = refuse_caller(*job, caller)) return {std::move(refusal), true};
    result.known = true;
    const auto addresses = jobs.addresses(caller.job_namespace, caller.name, poll.group);
    if (!addresses) return result;
    result.answer = HttpResponse{
        200, {{"Content-Type", "application/json; charset=utf-8"}}, dump_json(*addresses)};
  } catch (const Error& error) {
    log_warning("cannot find the addresses of {}: {}", caller.job(), error.what());
  }
  return result;
}

void Supervisor::Impl::look_at_all() {
  look_is_due = false;  // first: a change during the checks causes another check
  for (auto it = waiting.begin(); it != waiting.end();) {
    const auto answer = look(it->first).answer;
    if (!answer) {
      ++it;
      continue;
    }
    for (const auto& [number, held] : it->second) held.reply.send(*answer);
    it = waiting.erase(it);
  }
}

// The answer to a caller that may not tell of this job; empty if it may.
std::optional<HttpResponse> Supervisor::Impl::refuse_news(const Caller& caller) {
  const auto job = jobs.find(caller.job_namespace, caller.name);
  if (!job) return text_response(404, fmt::format("Job {} not found.", caller.job()));
  return refuse_caller(*job, caller);
}

void Supervisor::Impl::take_hints(const std::string& body, const Caller& caller,
                                  const HttpReply& reply) {
  if (auto refusal = refuse_news(caller)) return reply.send(std::move(*refusal));
  SchedulingHints hints;
  try {
    std::vector<std::string> ignored;
    hints = parse_hints(body, "hints of " + caller.job(), ignored);
  } catch (const Error& error) {
    return reply.send(text_response(400, error.what()));
  }
  reply.send(empty_response(200));
  const auto now = limiter.put({caller.job_namespace, caller.name, caller.token, std::move(hints)},
                               Monotonic::now());
  // Runs after the answer, which is posted to the same thread.
  if (now) server.post([this, sent = *now] { apply_hints(sent); });
  if (std::exchange(looks_at_hints, true)) return;
  server.post_after(kHintInterval, [this] { apply_kept_hints(); });
}

void Supervisor::Impl::take_leader(const Target& target, const HttpReply& reply) {
  const Caller& caller = target.poll.caller;
  if (auto refusal = refuse_news(caller)) return reply.send(std::move(*refusal));
  reply.send(empty_response(200));
  try {
    jobs.leads(caller.job_namespace, caller.name, target.poll.group, target.rank);
  } catch (const Error& error) {
    log_warning("lost what leads {}: {}", caller.job(), error.what());
  }
}

void Supervisor::Impl::apply_hints(const SentHints& sent) {
  const Caller caller{sent.job_namespace, sent.name, sent.token};
  try {
    // The job that sent them may be gone, and another one have its name.
    if (!refuse_news(caller)) jobs.hints(sent.job_namespace, sent.name, sent.hints);
  } catch (const std::exception& error) {
    log_warning("lost the hints of {}: {}", caller.job(), error.what());
  }
}

void Supervisor::Impl::apply_kept_hints() {
  for (const SentHints& sent : limiter.take(Monotonic::now())) apply_hints(sent);
  looks_at_hints = !limiter.idle();
  if (looks_at_hints) server.post_after(kHintInterval, [this] { apply_kept_hints(); });
}

Supervisor::Supervisor(SupervisorBackend& jobs, HttpServerOptions options)
    : impl_(std::make_unique<Impl>(jobs, std::move(options))) {}

Supervisor::~Supervisor() = default;

uint16_t Supervisor::port() const {
  return impl_->server.port();
}

void Supervisor::changed() {
  if (impl_->look_is_due.exchange(true)) return;
  impl_->server.post([impl = impl_.get()] { impl->look_at_all(); });
}

void Supervisor::set_tls(const HttpTls& tls) {
  impl_->server.set_tls(tls);
}

void Supervisor::stop(Seconds grace) {
  impl_->server.stop(grace);
}

}  // namespace adaptdl
