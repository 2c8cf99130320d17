#include "core/net/stream.h"

#include <cerrno>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "core/base/error.h"
#include "core/base/poll.h"

namespace adaptdl {

namespace {

IoState state_of(ssize_t result, size_t& moved) {
  if (result < 0) return errno == EAGAIN ? IoState::later : IoState::closed;
  moved = static_cast<size_t>(result);
  return IoState::done;
}

}  // namespace

Stream::Stream(Fd socket, const std::optional<TlsKey>& key, TlsSide side)
    : socket_(std::move(socket)) {
  if (key) tls_ = std::make_unique<TlsSession>(*key, side, socket_.get());
}

Stream::Stream(Fd socket, const TlsAuthorities& authorities)
    : socket_(std::move(socket)), tls_(std::make_unique<TlsSession>(authorities, socket_.get())) {}

void Stream::shake_hands(TimePoint deadline) {
  for (;;) {
    switch (shake_hands()) {
      case IoState::done:
        return;
      case IoState::later:
        if (!wait_ready(fd(), wants(), deadline)) fail("no answer in time");
        break;
      case IoState::closed:
        fail("{}", problem().empty() ? "it has closed the connection" : problem());
    }
  }
}

IoState Stream::shake_hands() {
  return tls_ ? tls_->shake_hands() : IoState::done;
}

short Stream::wants() const {
  return tls_ ? tls_->wants() : POLLIN;
}

IoState Stream::send(std::string_view first, std::string_view second, size_t& moved) {
  if (tls_) return tls_->send(first, second, moved);
  iovec parts[] = {{const_cast<char*>(first.data()), first.size()},
                   {const_cast<char*>(second.data()), second.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = second.empty() ? 1 : 2;
  ssize_t sent;
  do {
    sent = sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return state_of(sent, moved);
}

IoState Stream::recv(std::span<std::byte> data, size_t& moved) {
  if (tls_) return tls_->recv(data, moved);
  ssize_t got;
  do {
    got = ::recv(fd(), data.data(), data.size(), MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  return got == 0 ? IoState::closed : state_of(got, moved);
}

std::string Stream::problem() const {
  return tls_ ? tls_->problem() : "";
}

}  // namespace adaptdl
