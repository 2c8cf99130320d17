#include "core/oci/transport.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "core/base/log.h"
#include "core/base/number.h"
#include "core/formats/json.h"
#include "core/oci/reference.h"
#include "core/oci/url.h"

namespace adaptdl::oci {
namespace {

constexpr Seconds kPauses[] = {Seconds(1.0), Seconds(3.0)};
constexpr double kLongestPause = 120.0;  // s; a longer Retry-After ends the attempts
constexpr int kMaxRedirects = 5;
constexpr size_t kMaxAnswer = 16u << 20;
// Long without any data, because a registry may take long to check a large blob.
constexpr Seconds kStalled{300.0};

bool is_redirect(const HttpResponse& answer) {
  return (answer.status == 301 || answer.status == 302 || answer.status == 303 ||
          answer.status == 307 || answer.status == 308) &&
         answer.header("location");
}

std::string without_query(const std::string& url) {
  return url.substr(0, url.find('?'));
}

// Retry-After in seconds; for a date, which is rare, the usual pause is enough.
std::optional<double> retry_after(const HttpResponse& answer) {
  const auto seconds = try_parse<double>(answer.header("retry-after").value_or(""));
  return seconds && std::isfinite(*seconds) && *seconds >= 0 ? seconds : std::nullopt;
}

}  // namespace

bool is_passing(int status) {
  return status == 408 || status == 429 || status >= 500;
}

std::string registry_problem(const HttpResponse& answer) {
  const std::string status = fmt::format("status {}", answer.status);
  if (answer.body.empty()) return status;
  try {
    const Json json = parse_json(answer.body, "answer");
    const Json errors = json_get_or<Json>(json, "errors", "answer", Json::array());
    if (!errors.is_array() || errors.empty()) return status;
    const auto code = json_get_or<std::string>(errors[0], "code", "answer", "");
    const auto message = json_get_or<std::string>(errors[0], "message", "answer", "");
    const std::string both = code + (code.empty() || message.empty() ? "" : ": ") + message;
    return both.empty() ? status : fmt::format("{} ({})", both.substr(0, 400), status);
  } catch (const Error&) {  // the page of a proxy
    return status;
  }
}

Transport::Transport(std::string registry, Credential credential, RegistryOptions options)
    : registry_(std::move(registry)),
      options_(std::move(options)),
      client_(options_.proxy.http),
      auth_(registry_, std::move(credential), [this](const HttpRequest& request) {
        return with_retries(true, [&] { return send_once(request); });
      }) {
  if (!options_.pause) {
    options_.pause = [cancel = options_.cancel](Seconds seconds) {
      if (cancel == nullptr) {
        std::this_thread::sleep_for(seconds);
      } else if (cancel->wait_for(seconds)) {
        throw Cancelled("the registry");
      }
    };
  }
}

HttpResponse Transport::send_once(const HttpRequest& request) {
  const TimePoint begun = Monotonic::now();
  HttpRequest whole = request;
  whole.cancel = options_.cancel;
  const auto say = [&](const std::string& result) {
    if (!options_.trace) return;
    options_.trace(fmt::format("{} {}: {}, {}", request.method, without_query(request.url), result,
                               format_duration(seconds_since(begun))));
  };
  try {
    HttpResponse answer = client_.send(whole);
    say(fmt::format("{}", answer.status));
    return answer;
  } catch (const HttpError&) {
    say("no answer");
    throw;
  }
}

HttpResponse Transport::with_retries(bool retry, const std::function<HttpResponse()>& send) {
  for (size_t tried = 0;; ++tried) {
    const bool last = !retry || tried == std::size(kPauses);
    Seconds pause = last ? Seconds(0) : kPauses[tried];
    std::string why;
    try {
      HttpResponse answer = send();
      if (last || !is_passing(answer.status)) return answer;
      const double wish = retry_after(answer).value_or(0.0);
      if (wish > kLongestPause) return answer;
      pause = std::max(pause, Seconds(wish));
      why = registry_problem(answer);
    } catch (const HttpError& error) {
      if (last) throw;
      why = error.what();
    }
    log_debug("{}: {}; retrying in {}", registry_, why, format_duration(pause.count()));
    options_.pause(pause);
  }
}

HttpHeaders Transport::proxy_headers() const {
  return options_.proxy.headers ? options_.proxy.headers() : HttpHeaders();
}

HttpResponse Transport::ping(const std::string& base) {
  HttpRequest request;
  request.url = base + "/v2/";
  request.headers = proxy_headers();
  return send_once(request);
}

void Transport::connect() {
  if (!base_.empty()) return;
  const auto accept = [&](const std::string& base, const HttpResponse& answer) {
    if (answer.status == 401) auth_.challenge(answer, url_origin(base));
    base_ = base;
  };
  const auto ping_well = [&](const std::string& base) {
    const HttpResponse answer = with_retries(true, [&] { return ping(base); });
    if (!answer.ok() && answer.status != 401 && answer.status != 403 && answer.status != 404) {
      fail("{}: does not answer like a registry: {}", registry_, registry_problem(answer));
    }
    accept(base, answer);
  };
  if (!options_.proxy.url.empty()) return ping_well(options_.proxy.url);
  const std::string host = registry_host(registry_);
  if (options_.plain_http) return ping_well("http://" + host);
  if (!on_this_machine(host)) return ping_well("https://" + host);
  // A registry of this machine: prefer TLS.
  try {
    accept("https://" + host, ping("https://" + host));
  } catch (const HttpCertificateError&) {
    throw;  // it does speak TLS, but is perhaps another one
  } catch (const HttpError& secure) {
    HttpResponse answer;
    try {
      answer = with_retries(true, [&] { return ping("http://" + host); });
    } catch (const HttpError& plain) {
      fail("{}: no registry answers there over HTTPS ({}) or HTTP ({})", registry_, secure.what(),
           plain.what());
    }
    if (!answer.ok() && answer.status != 401) throw;  // it does speak TLS: report the first error
    accept("http://" + host, answer);
  }
}

std::string Transport::url(const std::string& path) {
  connect();
  return base_ + path;
}

std::string Transport::location(const HttpResponse& answer, const std::string& asked) {
  const auto given = answer.header("location");
  if (!given) fail("{}: its answer has no Location header", registry_);
  std::string whole = resolve_location(asked, *given);
  const std::string& proxy = options_.proxy.url;
  // A registry behind a proxy may not know its external URL.
  if (!proxy.empty() && !whole.starts_with(proxy + "/v2/")) {
    const size_t path = whole.find("/v2/", whole.find("://") + 3);
    if (path != std::string::npos) whole = proxy + whole.substr(path);
  }
  try {
    return keep_secure(asked, whole);
  } catch (const Error& error) {
    fail("{}: {}", registry_, error.what());
  }
}

Transport::Answer Transport::send_following(const RegistryRequest& request,
                                            const std::string& authorisation) {
  HttpRequest one;
  one.method = request.method;
  one.url = request.url;
  one.body = request.body;
  one.body_file = request.file;
  one.on_body = request.on_body;
  one.on_sent = request.on_sent;
  one.max_body = kMaxAnswer;
  one.timeout = Seconds(0);
  one.stall_timeout = kStalled;
  const std::string home = url_origin(base_);
  for (int redirects = 0;; ++redirects) {
    one.headers = request.headers;
    const bool own = url_origin(one.url) == home;
    if (own) {
      const HttpHeaders more = proxy_headers();
      one.headers.insert(one.headers.end(), more.begin(), more.end());
      if (!authorisation.empty()) one.headers.emplace_back("Authorization", authorisation);
    }
    HttpResponse answer = send_once(one);
    const bool reading = one.method == "GET" || one.method == "HEAD";
    if (!reading || !is_redirect(answer) || redirects == kMaxRedirects) return {answer, own};
    const std::string next = resolve_location(one.url, *answer.header("location"));
    if (one.url.starts_with("https:") && !next.starts_with("https:")) {
      fail("{}: it redirects from https to {}, where others could change the data", registry_,
           url_origin(next));
    }
    one.url = next;
  }
}

HttpResponse Transport::send_authorised(const RegistryRequest& request) {
  Answer last = send_following(request, auth_.header(request.scopes));
  // A challenge from another host must not decide where the registry's credentials go.
  if (last.response.status == 401 && last.own) {
    // The token expired, or the scope needs one: try once more with a new token.
    auth_.challenge(last.response, url_origin(base_));
    auth_.forget(request.scopes);
    const std::string authorisation = auth_.header(request.scopes);
    if (!authorisation.empty()) {
      if (request.before_try) request.before_try();
      last = send_following(request, authorisation);
    }
  }
  const int status = last.response.status;
  const bool refused = status == 401 || (status == 403 && request.method != "HEAD");
  if (!refused || !last.own) return last.response;
  throw Error(
      fmt::format("{}: {} {} is refused: {}; {}", registry_, request.method,
                  without_query(request.url), registry_problem(last.response), what_to_do(status)),
      ExitCode::auth);
}

std::string Transport::what_to_do(int refusal) const {
  if (refusal == 403 && !options_.proxy.url.empty()) {
    return "the user needs the permission to use the registry through this address";
  }
  if (!auth_.has_credential()) return auth_.no_credential();
  return fmt::format(
      "log in with an account that may do this: `docker login {0}` or `podman login {0}`",
      registry_);
}

HttpResponse Transport::send(const RegistryRequest& request) {
  RegistryRequest whole = request;
  if (whole.url.starts_with('/')) whole.url = url(whole.url);
  connect();
  return with_retries(whole.retry, [&] {
    if (whole.before_try) whole.before_try();
    return send_authorised(whole);
  });
}

}  // namespace adaptdl::oci
