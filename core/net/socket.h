#pragma once

// Stream sockets inside one machine: named ones that only their owner may talk to, pairs for a
// child, and whole sends and receives. Thread-safe as the system calls are.

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

// Listens at `path` (mode 0600; any length of path). A socket that a dead process left there is
// replaced; one that answers is an Error, as is a file of another kind. The caller unlinks `path`.
Fd listen_unix(const std::string& path);

// Connects to the listener at `path`. An Error says if nobody listens there.
Fd connect_unix(const std::string& path);

// As connect_unix, but nothing when there is no socket or nobody listens. A listener that is
// stopped lets connections wait, until so many do that the next one blocks; unless `may_block`,
// that one finds nobody.
std::optional<Fd> try_connect_unix(const std::string& path, bool may_block = true);

// The next connection, blocking. Nothing if none waits and the listener does not block, or if no
// descriptor is free. One of another user (SO_PEERCRED; root is let in) is closed and skipped.
std::optional<Fd> accept_same_user(int listener);

// The user and process at the other end when it connected.
struct Peer {
  uid_t uid;
  pid_t pid;
};
Peer peer_of(int socket);

// Two connected stream sockets, close-on-exec.
std::pair<Fd, Fd> socket_pair();

// Sends everything; waits while a buffer is full, on non-blocking sockets too. False when the
// peer is gone (no SIGPIPE) or the deadline passed. Throws Error for anything else.
bool send_all(int socket, std::string_view bytes, std::optional<TimePoint> deadline = {});

// Fills `bytes` whole. False when the stream ended or broke before, or the deadline passed.
bool recv_exactly(int socket, std::span<std::byte> bytes, std::optional<TimePoint> deadline = {});

// Reads what is there: number of bytes; 0 at the end of the stream (a reset counts as one);
// nothing when a non-blocking socket has none.
std::optional<size_t> recv_some(int socket, std::span<std::byte> bytes);

}  // namespace adaptdl
