#pragma once

// Stream sockets inside one machine: named sockets for processes of one user, pairs for a child,
// and complete sends and receives. Thread-safe as the system calls are.

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/fd.h"

namespace adaptdl {

// Listens at `path` (mode 0600; any length of path). Replaces a socket that a dead process left
// there. Throws Error if a process listens there, or if the file is not a socket. The caller
// unlinks `path`.
Fd listen_unix(const std::string& path);

// Connects to the listener at `path`. Throws Error if no process listens there.
Fd connect_unix(const std::string& path);

// As connect_unix, but returns nothing if the socket does not exist or no process listens. If the
// listener does not accept, connections wait in its queue; when that is full, connecting blocks, or
// returns nothing unless `may_block`.
std::optional<Fd> try_connect_unix(const std::string& path, bool may_block = true);

// The next connection, blocking. Nothing if none waits and the listener is non-blocking, or if no
// descriptor is free. Connections of other users except root (SO_PEERCRED) are closed and skipped.
std::optional<Fd> accept_same_user(int listener);

// The user and process at the other end when it connected.
struct Peer {
  uid_t uid;
  pid_t pid;
};
Peer peer_of(int socket);

// Two connected stream sockets, close-on-exec.
std::pair<Fd, Fd> socket_pair();

// TCP: sends what was not acknowledged again at least every 2 s, so that a connection goes on soon
// after a network was cut, and not only when it is given up. Linux 6.15 and newer; else no effect.
void resend_often(int socket);

// Sends everything; waits while a buffer is full, also on non-blocking sockets. False if the peer
// is gone (no SIGPIPE) or the deadline has passed. Throws Error for other failures.
bool send_all(int socket, std::string_view bytes, std::optional<TimePoint> deadline = {});

// Fills all of `bytes`. False if the stream ends or breaks before, or the deadline passes.
bool recv_exactly(int socket, std::span<std::byte> bytes, std::optional<TimePoint> deadline = {});

// Reads the available bytes and returns their number: 0 at the end of the stream (or after a
// reset); nothing if a non-blocking socket has none.
std::optional<size_t> recv_some(int socket, std::span<std::byte> bytes);

}  // namespace adaptdl
