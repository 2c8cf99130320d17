#include "core/net/socket.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/poll.h"
#include "tests/unit/base/expect_error.h"

namespace adaptdl {

namespace {

TimePoint in(double seconds) {
  return Monotonic::now() + std::chrono::duration_cast<Monotonic::duration>(Seconds(seconds));
}

std::string receive(int fd, size_t size) {
  std::string text(size, '\0');
  CHECK(recv_exactly(fd, std::as_writable_bytes(std::span(text)), in(10)));
  return text;
}

void exchange(const std::string& path) {
  const Fd listener = listen_unix(path);
  struct stat info {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  const Fd client = connect_unix(path);
  const std::optional<Fd> server = accept_same_user(listener.get());
  REQUIRE(server);
  CHECK(peer_of(server->get()).pid == getpid());
  CHECK(send_all(client.get(), "ping"));
  CHECK(receive(server->get(), 4) == "ping");
  CHECK(send_all(server->get(), "pong"));
  CHECK(receive(client.get(), 4) == "pong");
  CHECK_ERROR(listen_unix(path), "another process is listening there");
}

}  // namespace

TEST_CASE("a named socket, also where its path is long") {
  const TemporaryDirectory folder;
  exchange(folder.file("s"));
  const std::string deep = folder.file(std::string(100, 'a') + "/" + std::string(100, 'b'));
  make_directories(deep);
  exchange(join_path(deep, "socket"));
  CHECK_ERROR(listen_unix(folder.file(std::string(120, 'c'))), "too long");
}

TEST_CASE("a connection of another user is closed, and the next one is taken") {
  if (geteuid() != 0) return;  // who is not root cannot be another user
  const TemporaryDirectory folder;
  const std::string path = folder.file("s");
  const Fd listener = listen_unix(path);
  // As if the file's permissions let everybody in.
  REQUIRE(chmod(folder.path().c_str(), 0711) == 0);
  REQUIRE(chmod(path.c_str(), 0666) == 0);
  const pid_t other = fork();
  REQUIRE(other >= 0);
  if (other == 0) {
    constexpr uid_t kNobody = 65534;
    // The folders above may be closed to it.
    if (chdir(folder.path().c_str()) != 0) _exit(1);
    if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(1);
    const std::optional<Fd> socket = try_connect_unix("s");
    if (!socket) _exit(2);
    std::byte byte;
    _exit(wait_ready(socket->get(), POLLIN, in(20)) && recv_some(socket->get(), {&byte, 1}) == 0
              ? 0
              : 3);
  }
  REQUIRE(wait_ready(listener.get(), POLLIN, in(20)));
  const Fd ours = connect_unix(path);
  const std::optional<Fd> accepted = accept_same_user(listener.get());
  REQUIRE(accepted);
  CHECK(peer_of(accepted->get()).pid == getpid());
  int status = -1;
  CHECK(waitpid(other, &status, 0) == other);
  CHECK(status == 0);
  set_nonblocking(listener.get());
  CHECK_FALSE(accept_same_user(listener.get()));
}

TEST_CASE("without a free descriptor a connection waits") {
  const TemporaryDirectory folder;
  const Fd listener = listen_unix(folder.file("s"));
  set_nonblocking(listener.get());
  const Fd client = connect_unix(folder.file("s"));
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  bool accepted = true, threw = false;
  try {
    accepted = accept_same_user(listener.get()).has_value();
  } catch (const Error&) {
    threw = true;
  }
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK_FALSE(threw);
  CHECK_FALSE(accepted);
  CHECK(accept_same_user(listener.get()));
}

TEST_CASE("a socket left by the dead is replaced; anything else is not") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("s");
  CHECK_FALSE(try_connect_unix(path));
  CHECK_ERROR(connect_unix(path), "no process is listening there");
  { const Fd dead = listen_unix(path); }
  CHECK(path_exists(path));
  CHECK_FALSE(try_connect_unix(path));
  const Fd alive = listen_unix(path);
  CHECK(try_connect_unix(path));
  write_file_atomic(folder.file("file"), "x");
  CHECK_ERROR(listen_unix(folder.file("file")), "exists and is not a socket");
  CHECK(read_file(folder.file("file"), 9) == "x");
}

TEST_CASE("large transfers through small buffers, blocking or not") {
  for (const bool nonblocking : {false, true}) {
    auto [a, b] = socket_pair();
    if (nonblocking) set_nonblocking(a.get());
    const std::string large(3 << 20, 'x');
    std::thread sender([&, fd = a.get()] { CHECK(send_all(fd, large)); });
    CHECK(receive(b.get(), large.size()) == large);
    sender.join();
  }
}

TEST_CASE("a peer that is gone ends sends and receives") {
  auto [a, b] = socket_pair();
  CHECK(send_all(b.get(), "ab"));
  b.reset();
  std::byte bytes[4];
  CHECK_FALSE(recv_exactly(a.get(), bytes));
  CHECK(recv_some(a.get(), bytes) == size_t{0});
  CHECK_FALSE(send_all(a.get(), "x"));
}

TEST_CASE("deadlines hold") {
  auto [a, b] = socket_pair();
  std::byte byte;
  const TimePoint start = Monotonic::now();
  CHECK_FALSE(recv_exactly(a.get(), std::span(&byte, 1), in(0.05)));
  CHECK_FALSE(send_all(a.get(), std::string(8 << 20, 'x'), in(0.05)));
  CHECK(seconds_since(start) >= 0.09);
  CHECK(seconds_since(start) < 20.0);
  set_nonblocking(a.get());
  CHECK_FALSE(recv_some(a.get(), std::span(&byte, 1)));
}

TEST_CASE("a listener that does not block says that nobody waits") {
  const TemporaryDirectory folder;
  const Fd listener = listen_unix(folder.file("s"));
  set_nonblocking(listener.get());
  CHECK_FALSE(accept_same_user(listener.get()));
}

}  // namespace adaptdl
