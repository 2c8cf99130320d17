#include "core/cluster/local/runner/runner_query.h"

#include <sys/socket.h>

#include "core/base/error.h"
#include "core/base/poll.h"
#include "core/net/socket.h"

namespace adaptdl::local {
namespace {

constexpr size_t kMaxAnswer = 4u << 20;

}  // namespace

RunnerQuery::RunnerQuery(const std::string& socket, const Json& request, Seconds timeout)
    : deadline_(Monotonic::now()) {
  std::optional<Fd> connected;
  try {
    connected = try_connect_unix(socket, false);
  } catch (const Error&) {  // the job's program replaced the socket or changed its permissions
  }
  if (!connected) return;
  const std::string line = dump_json(request) + "\n";
  // A request fits into the socket's buffer.
  if (::send(connected->get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT) !=
      static_cast<ssize_t>(line.size())) {
    return;
  }
  set_nonblocking(connected->get());
  socket_ = std::move(*connected);
  deadline_ += std::chrono::duration_cast<Monotonic::duration>(timeout);
}

bool RunnerQuery::serve() {
  if (!socket_) return true;
  std::byte chunk[16384];
  while (const auto got = recv_some(socket_.get(), chunk)) {
    if (*got == 0 || received_.size() > kMaxAnswer) return true;
    received_.append(reinterpret_cast<const char*>(chunk), *got);
    const size_t end = received_.find('\n');
    if (end == received_.npos) continue;
    try {
      answer_ = parse_json(received_.substr(0, end), "answer of a runner");
    } catch (const Error&) {
    }
    return true;
  }
  return Monotonic::now() >= deadline_;
}

}  // namespace adaptdl::local
