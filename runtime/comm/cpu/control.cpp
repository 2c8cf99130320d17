#include "runtime/comm/cpu/control.h"

#include <cerrno>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/error.h"

namespace adaptdl::comm {

namespace {
constexpr uint64_t kWakeId = UINT64_MAX;
}

ControlLinks::ControlLinks(uint64_t generation, std::vector<Stream> streams)
    : generation_(generation) {
  for (Stream& stream : streams) links_.push_back({std::move(stream), {}, false});
  epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  stop_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_ || !stop_) fail_errno(errno, "cannot watch the links to other members");
  const auto watch = [&](int fd, uint64_t id) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP;
    event.data.u64 = id;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      fail_errno(errno, "cannot watch the link to a member");
    }
  };
  watch(stop_.get(), kWakeId);
  for (size_t rank = 0; rank < links_.size(); ++rank) {
    if (links_[rank].stream) watch(links_[rank].stream.fd(), rank);
  }
}

ControlLinks::~ControlLinks() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void ControlLinks::start(Events events) {
  events_ = std::move(events);
  thread_ = std::thread([this] { run(); });
}

void ControlLinks::tell_all(const ControlMessage& message) noexcept {
  try {
    const std::string bytes = encode(message);
    std::lock_guard lock(sending_);
    for (Link& link : links_) {
      if (!link.stream) continue;
      size_t sent = 0;
      link.stream.send(bytes, sent);
      if (sent < bytes.size()) shutdown(link.stream.fd(), SHUT_RDWR);
    }
  } catch (...) {  // out of memory: the closed links report it
  }
}

void ControlLinks::run() {
  pthread_setname_np(pthread_self(), "comm-watch");
  events_.started();
  for (;;) {
    epoll_event events[32];
    const int count = epoll_wait(epoll_.get(), events, 32, -1);
    for (int i = 0; i < count; ++i) {
      if (events[i].data.u64 == kWakeId) {
        events_.stopping();
        return;
      }
      const size_t rank = events[i].data.u64;
      if (!read_link(rank)) {
        epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, links_[rank].stream.fd(), nullptr);
        if (!links_[rank].left) events_.lost(static_cast<int>(rank));
      }
    }
  }
}

bool ControlLinks::read_link(size_t rank) {
  Link& link = links_[rank];
  for (;;) {
    uint8_t bytes[1024];
    size_t got = 0;
    const IoState state = link.stream.recv(std::as_writable_bytes(std::span(bytes)), got);
    if (state == IoState::later) return true;
    if (state == IoState::closed) return false;
    if (!link.parser.feed(Bytes(bytes, got))) return false;
    while (const auto message = link.parser.next()) {
      if (message->generation != generation_) return false;
      if (message->kind == ControlKind::leave) {
        link.left = true;
        events_.left(static_cast<int>(rank), message->value);
      } else {
        events_.aborted(static_cast<int>(rank), message->text);
      }
    }
  }
}

}  // namespace adaptdl::comm
