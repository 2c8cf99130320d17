#include "core/sched/supervisor.h"

#include <algorithm>
#include <atomic>
#include <compare>
#include <map>
#include <utility>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/number.h"
#include "core/formats/json.h"

namespace adaptdl {
namespace {

constexpr double kUsualTimeout = 30, kLongestTimeout = 300;  // seconds

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

HttpResponse empty_response(int status) {
  return {status, {}, ""};
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

}  // namespace

struct Supervisor::Impl {
  Impl(SupervisorBackend& the_jobs, const HttpServerOptions& options)
      : jobs(the_jobs),
        server(options, [this](const HttpServerRequest& request, const HttpReply& reply) {
          handle(request, reply);
        }) {}

  void handle(const HttpServerRequest& request, const HttpReply& reply);
  void discover(const HttpServerRequest& request, const Poll& poll, const HttpReply& reply);
  void take_hints(const std::string& body, const Caller& caller, const HttpReply& reply);
  std::optional<HttpResponse> look(const Poll& poll);
  void look_at_all();

  SupervisorBackend& jobs;
  std::atomic<bool> look_is_due = false;
  // From here on: used only by the server's thread.
  std::map<Poll, std::map<uint64_t, HttpReply>> waiting;
  uint64_t last_waiting = 0;
  HttpServer server;  // last: its thread ends before the other members are destroyed
};

void Supervisor::Impl::handle(const HttpServerRequest& request, const HttpReply& reply) {
  std::vector<std::string> words = words_of(request.path);
  Caller caller;
  if (words.size() >= 2 && words[0] == "j") {
    caller.token = words[1];
    words.erase(words.begin(), words.begin() + 2);
  }
  const bool reads = request.method == "GET" || request.method == "HEAD";
  const std::string what = words.empty() ? "" : words[0];
  if (what == "healthz" && words.size() == 1) {
    return reply.send(reads ? empty_response(200) : refuse_method("GET, HEAD"));
  }
  if (what == "discover" && words.size() == 4) {
    if (!reads) return reply.send(refuse_method("GET, HEAD"));
    const auto group = try_parse<int64_t>(words[3]);
    if (!group) return reply.send(text_response(400, "The generation must be an integer."));
    caller.job_namespace = words[1];
    caller.name = words[2];
    return discover(request, {caller, *group}, reply);
  }
  if (what == "hints" && words.size() == 3) {
    if (request.method != "PUT") return reply.send(refuse_method("PUT"));
    caller.job_namespace = words[1];
    caller.name = words[2];
    return take_hints(request.body, caller, reply);
  }
  reply.send(text_response(404,
                           "Not found. The paths are /healthz, /discover/NAMESPACE/NAME/GROUP and "
                           "/hints/NAMESPACE/NAME."));
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
  if (auto answer = look(poll)) return reply.send(std::move(*answer));
  const uint64_t number = ++last_waiting;
  waiting[poll].emplace(number, reply);
  reply.hold(Seconds(timeout), empty_response(408), [this, poll, number] {
    const auto found = waiting.find(poll);
    if (found == waiting.end()) return;
    found->second.erase(number);
    if (found->second.empty()) waiting.erase(found);
  });
}

// The answer to a poll; empty while it must wait. An error here must not end the program that asks,
// as a 500 answer would.
std::optional<HttpResponse> Supervisor::Impl::look(const Poll& poll) {
  const Caller& caller = poll.caller;
  try {
    const auto job = jobs.find(caller.job_namespace, caller.name);
    if (!job) return std::nullopt;
    if (auto refusal = refuse_caller(*job, caller)) return refusal;
    const auto addresses = jobs.addresses(caller.job_namespace, caller.name, poll.group);
    if (!addresses) return std::nullopt;
    return HttpResponse{
        200, {{"Content-Type", "application/json; charset=utf-8"}}, dump_json(*addresses)};
  } catch (const Error& error) {
    log_warning("cannot find the addresses of {}: {}", caller.job(), error.what());
    return std::nullopt;
  }
}

void Supervisor::Impl::look_at_all() {
  look_is_due = false;  // first: a change during the checks causes another check
  for (auto it = waiting.begin(); it != waiting.end();) {
    const auto answer = look(it->first);
    if (!answer) {
      ++it;
      continue;
    }
    for (const auto& [number, reply] : it->second) reply.send(*answer);
    it = waiting.erase(it);
  }
}

void Supervisor::Impl::take_hints(const std::string& body, const Caller& caller,
                                  const HttpReply& reply) {
  const auto job = jobs.find(caller.job_namespace, caller.name);
  if (!job) {
    return reply.send(text_response(404, fmt::format("Job {} not found.", caller.job())));
  }
  if (auto refusal = refuse_caller(*job, caller)) return reply.send(std::move(*refusal));
  SchedulingHints hints;
  try {
    std::vector<std::string> ignored;
    hints = parse_hints(body, "hints of " + caller.job(), ignored);
  } catch (const Error& error) {
    return reply.send(text_response(400, error.what()));
  }
  reply.send(empty_response(200));
  // Runs after the answer, which is posted to the same thread.
  server.post([this, caller, hints = std::move(hints)] {
    try {
      jobs.hints(caller.job_namespace, caller.name, hints);
    } catch (const Error& error) {
      log_warning("lost the hints of {}: {}", caller.job(), error.what());
    }
  });
}

Supervisor::Supervisor(SupervisorBackend& jobs, const HttpServerOptions& options)
    : impl_(std::make_unique<Impl>(jobs, options)) {}

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
