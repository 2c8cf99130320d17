#pragma once

// Sockets between members: creation, input and output with a deadline and cancellation, and
// descriptions. All sockets are non-blocking and close-on-exec.

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/clock.h"
#include "core/base/fd.h"
#include "core/net/stream.h"
#include "runtime/comm/connect.h"
#include "runtime/comm/cpu/endpoint.h"

namespace adaptdl::comm {

// How long to wait, and what can cancel the wait.
struct Patience {
  TimePoint deadline;
  const AbortSignal* abort = nullptr;  // may be null

  // Waits until `fd` has one of `events` or an error. Throws Aborted if aborted; false at the
  // deadline.
  bool wait(int fd, short events) const;
  void check() const;  // throws Aborted when aborted
  int cancel() const;  // a descriptor that is readable then; -1: none
};

enum class Outcome { done, closed, late };

// Sends or receives everything. closed: the peer is gone (end of stream, reset), or what it sends
// is not what arrives. Throws Aborted if cancelled.
Outcome send_whole(Stream& stream, std::string_view bytes, const Patience& patience);
Outcome receive_whole(Stream& stream, std::span<uint8_t> bytes, const Patience& patience);

// One message of fixed size with a file descriptor (Unix sockets only). receive_fd: nothing if the
// peer is gone, is late, or sent no descriptor.
Outcome send_fd(Stream& stream, std::string_view bytes, int fd, const Patience& patience);
std::optional<Fd> receive_fd(Stream& stream, std::span<uint8_t> bytes, const Patience& patience);

Fd listen_abstract(const std::string& name);  // a listening socket

// A connected socket, or the reason for the failure.
struct Dialled {
  Fd socket;
  std::string problem;
};
Dialled dial_abstract(const std::string& name, const Patience& patience);
Dialled dial_tcp(const TcpAddress& address, const Patience& patience);

// A peer that has not answered for so long is gone.
inline constexpr std::chrono::milliseconds kSilence{10'000};

// For TCP: sends small messages without delay, and detects a vanished host in about kSilence. The
// peer must not leave data waiting for so long.
void tune_tcp(int fd);

// After tune_tcp(): a peer may be as late as it likes to take data. The kernel ends a connection
// also if the peer's window is closed for too long, though it answers: look at unanswered()
// instead.
void tolerate_late_peer(int fd);

// Whether nothing has come for `silence` while the kernel has sent again what it has, or asked
// whether there is room now. False if it cannot be told (of what is not TCP).
bool unanswered(int fd, std::chrono::milliseconds silence);

std::string local_address(int socket);  // numeric, of a TCP socket

// "unix", or "tcp LOCAL:PORT -> REMOTE:PORT via INTERFACE".
std::string describe_socket(int fd);

}  // namespace adaptdl::comm
