#include "runtime/standalone/http_exchange.h"

#include <cerrno>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/base/poll.h"
#include "core/base/text.h"
#include "core/net/stream.h"
#include "runtime/standalone/resolve.h"

namespace adaptdl::standalone {
namespace {

// The value of a header, without blanks around it; nothing if there is none. `lines` are those of
// the head after the first.
std::optional<std::string_view> header(std::string_view lines, std::string_view name) {
  while (!lines.empty()) {
    const size_t end = std::min(lines.find("\r\n"), lines.size());
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 2, lines.size()));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || lower_case(line.substr(0, colon)) != name) continue;
    std::string_view value = line.substr(colon + 1);
    while (value.starts_with(' ') || value.starts_with('\t')) value.remove_prefix(1);
    while (value.ends_with(' ') || value.ends_with('\t')) value.remove_suffix(1);
    return value;
  }
  return std::nullopt;
}

// Waits for the socket in short turns: nothing wakes poll() when `cancel` comes.
void await(int socket, short events, TimePoint deadline, const Cancellation* cancel) {
  for (;;) {
    const TimePoint turn = Monotonic::now() + std::chrono::milliseconds(100);
    if (wait_ready(socket, events, std::min(turn, deadline))) return;
    if (cancel && cancel->cancelled()) fail("cancelled");
    if (Monotonic::now() >= deadline) fail("timed out");
  }
}

Fd connected(const HttpBase& base, TimePoint deadline, const Cancellation* cancel) {
  std::string problem;
  for (const Address& address : resolve(base.host, base.port)) {
    Fd socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) fail_errno(errno, "cannot create a socket");
    int error = 0;
    if (::connect(socket.get(), address.get(), address.length) != 0) {
      error = errno;
      if (error == EINPROGRESS) {
        await(socket.get(), POLLOUT, deadline, cancel);
        socklen_t size = sizeof error;
        getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      }
    }
    if (error == 0) return socket;
    problem = std::generic_category().message(error);
  }
  fail("{}", problem);
}

// Repeats an operation of the stream until it is done; false if the server has closed it.
template <typename Operation>
bool finish(const Stream& stream, short events, TimePoint deadline, const Cancellation* cancel,
            Operation&& operation) {
  for (;;) {
    switch (operation()) {
      case IoState::done:
        return true;
      case IoState::later:
        await(stream.fd(), events != 0 ? events : stream.wants(), deadline, cancel);
        break;
      case IoState::closed:
        if (!stream.problem().empty()) fail("{}", stream.problem());
        return false;
    }
  }
}

HttpAnswer exchange(const HttpBase& base, std::string_view request, TimePoint deadline,
                    const Cancellation* cancel) {
  Fd socket = connected(base, deadline, cancel);
  Stream stream =
      base.authorities ? Stream(std::move(socket), *base.authorities) : Stream(std::move(socket));
  size_t moved = 0;
  bool open = finish(stream, 0, deadline, cancel, [&] { return stream.shake_hands(); });
  while (open && !request.empty()) {
    open = finish(stream, POLLOUT, deadline, cancel, [&] { return stream.send(request, moved); });
    if (open) request.remove_prefix(moved);
  }
  if (!open) fail("the server closed the connection");
  std::string received;
  std::byte chunk[4096];
  while (finish(stream, POLLIN, deadline, cancel, [&] { return stream.recv(chunk, moved); })) {
    received.append(reinterpret_cast<const char*>(chunk), moved);
    if (received.size() > kMostHttp) fail("the answer is longer than {} bytes", kMostHttp);
  }
  auto answer = parse_http_answer(received);
  if (!answer) fail("the answer is not complete, or not of HTTP");
  return *std::move(answer);
}

}  // namespace

HttpBase parse_http_base(std::string_view url, std::string_view what,
                         const std::optional<TlsAuthorities>& authorities) {
  const std::string_view scheme = authorities ? "https://" : "http://";
  const auto wrong = [&](const char* why) { fail("{}: {}: {}", what, url, why); };
  if (!authorities && url.starts_with("https://")) {
    wrong("for https set ADAPTDL_SUPERVISOR_HTTPS_URL and ADAPTDL_SUPERVISOR_CA, or use http");
  }
  if (!url.starts_with(scheme) || url.find_first_of(" \t\r\n") != std::string_view::npos) {
    wrong(authorities ? "not an https URL" : "not an http URL");
  }
  std::string_view rest = url.substr(scheme.size());
  HttpBase base;
  base.authorities = authorities;
  if (authorities) base.port = 443;
  const size_t slash = std::min(rest.find('/'), rest.size());
  base.path = rest.substr(slash);
  while (base.path.ends_with('/')) base.path.pop_back();
  std::string_view place = rest.substr(0, slash);
  const size_t bracket = place.starts_with('[') ? place.find(']') : 0;
  if (bracket == std::string_view::npos) wrong("an IPv6 address ends with a bracket");
  const size_t colon = place.find(':', bracket);
  base.host = place.substr(0, colon);
  if (base.host.starts_with('[')) base.host = base.host.substr(1, bracket - 1);
  if (base.host.empty()) wrong("it names no host");
  if (colon != std::string_view::npos) {
    const auto port = try_parse<int>(place.substr(colon + 1));
    if (!port || *port < 1 || *port > 65535) wrong("the port is no number from 1 to 65535");
    base.port = *port;
  }
  return base;
}

std::optional<HttpAnswer> parse_http_answer(std::string_view bytes) {
  // HTTP/1.1 200 OK
  if (!bytes.starts_with("HTTP/1.")) return std::nullopt;
  const size_t end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view head = bytes.substr(0, end);
  const size_t line_end = std::min(head.find("\r\n"), head.size());
  if (line_end < 12 || bytes[8] != ' ') return std::nullopt;
  const auto status = try_parse<int>(head.substr(9, 3));
  if (!status || *status < 100) return std::nullopt;
  const std::string_view lines = head.substr(std::min(line_end + 2, head.size()));
  std::string_view body = bytes.substr(end + 4);
  if (header(lines, "transfer-encoding")) return std::nullopt;
  if (const auto length = header(lines, "content-length")) {
    const auto size = try_parse<uint64_t>(*length);
    if (!size || *size > body.size()) return std::nullopt;
    body = body.substr(0, *size);
  }
  return HttpAnswer{*status, std::string(body)};
}

HttpAnswer http_exchange(const HttpBase& base, const std::string& method, const std::string& path,
                         const std::string& body, TimePoint deadline, const Cancellation* cancel) {
  const bool six = base.host.find(':') != std::string::npos;
  const std::string host =
      fmt::format("{0}{1}{2}:{3}", six ? "[" : "", base.host, six ? "]" : "", base.port);
  std::string request = fmt::format("{} {}{} HTTP/1.0\r\nHost: {}\r\nAccept: application/json\r\n",
                                    method, base.path, path, host);
  if (!body.empty()) {
    request += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
  }
  request += "\r\n" + body;
  try {
    return exchange(base, request, deadline, cancel);
  } catch (const Error& error) {
    // Without the base's path: it may contain the job's token.
    fail("{} {}://{}/...{}: {}", method, base.authorities ? "https" : "http", host, path,
         error.what());
  }
}

}  // namespace adaptdl::standalone
