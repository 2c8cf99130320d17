#include "tests/unit/kube/fake_exec.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <openssl/sha.h>
#include <poll.h>
#include <signal.h>
#include <span>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/poll.h"
#include "core/base/process.h"
#include "core/formats/base64.h"
#include "core/formats/json.h"
#include "core/net/socket.h"

namespace adaptdl::kube::fake {
namespace {

constexpr size_t kFragment = 3000, kDrop = 4000, kAhead = 256u << 10;
constexpr int kBinary = 2, kClose = 8, kPing = 9, kPong = 10;

std::string header(const std::string& head, const std::string& name) {
  const size_t at = head.find("\r\n" + name + ": ");
  if (at == std::string::npos) return "";
  const size_t begin = at + name.size() + 4;
  return head.substr(begin, head.find("\r\n", begin) - begin);
}

struct Pipe {
  Fd reader, writer;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail_errno(errno, "pipe");
    reader = Fd(ends[0]);
    writer = Fd(ends[1]);
  }
};

}  // namespace

FakeExec::FakeExec(int socket, const std::string& head) : socket_(socket) {
  const std::string protocol = "v5.channel.k8s.io";
  if (header(head, "Sec-WebSocket-Protocol").find(protocol) == std::string::npos) {
    fail("the client does not offer {}", protocol);
  }
  const std::string key =
      header(head, "Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  std::array<unsigned char, SHA_DIGEST_LENGTH> digest;
  SHA1(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  send_all(socket_,
           fmt::format("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: "
                       "Upgrade\r\nSec-WebSocket-Protocol: {}\r\nSec-WebSocket-Accept: {}\r\n\r\n",
                       protocol,
                       to_base64({reinterpret_cast<const char*>(digest.data()), digest.size()})));
}

void FakeExec::frame(int opcode, bool last, std::string_view payload) {
  std::string whole(1, static_cast<char>(opcode | (last ? 0x80 : 0)));
  if (payload.size() < 126) {
    whole += static_cast<char>(payload.size());
  } else {
    whole += static_cast<char>(126);
    whole += static_cast<char>(payload.size() >> 8);
    whole += static_cast<char>(payload.size() & 255);
  }
  whole += payload;
  if (!send_all(socket_, whole)) fail("the client has gone");
}

void FakeExec::send(char channel, std::string_view text) {
  const std::string whole = channel + std::string(text);
  frame(kPing, true, "?");
  for (size_t at = 0; at < whole.size(); at += kFragment) {
    frame(at == 0 ? kBinary : 0, at + kFragment >= whole.size(), whole.substr(at, kFragment));
  }
}

// One frame, if it is there whole; true if a message ends with it.
bool FakeExec::parse(std::string& message) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(input_[at]); };
  while (input_.size() >= 2) {
    const int opcode = byte(0) & 15;
    if ((byte(1) & 128) == 0) fail("a frame without a mask");
    size_t size = byte(1) & 127, at = 2;
    if (size > 125) {
      const size_t width = size == 126 ? 2 : 8;
      if (input_.size() < 2 + width) return false;
      size = 0;
      for (; at < 2 + width; ++at) size = size << 8 | byte(at);
    }
    if (input_.size() < at + 4 + size) return false;
    std::string payload = input_.substr(at + 4, size);
    for (size_t i = 0; i < size; ++i)
      payload[i] = static_cast<char>(payload[i] ^ input_[at + i % 4]);
    const bool last = (byte(0) & 128) != 0;
    input_.erase(0, at + 4 + size);
    if (opcode == kClose) closed_ = true;
    if (opcode == kPing) frame(kPong, true, payload);
    if (opcode >= kClose) continue;
    part_ += payload;
    if (!last) continue;
    message = std::exchange(part_, "");
    return true;
  }
  return false;
}

std::optional<std::string> FakeExec::receive() {
  std::string message;
  if (parse(message)) return message;
  pollfd wait{socket_, POLLIN, 0};
  if (::poll(&wait, 1, 0) <= 0) return std::nullopt;
  std::array<std::byte, 65536> piece;
  const size_t got = recv_some(socket_, piece).value_or(0);
  if (got == 0) fail("the client has gone");
  input_.append(reinterpret_cast<const char*>(piece.data()), got);
  if (parse(message)) return message;
  return std::nullopt;
}

void FakeExec::finish(const std::string& status) {
  send(3, status);
  frame(kClose, true, std::string_view("\x03\xe8", 2));
  while (!closed_) {
    pollfd wait{socket_, POLLIN, 0};
    if (::poll(&wait, 1, 5000) <= 0) return;
    receive();
  }
}

void FakeExec::hang() {
  for (;;) {
    pollfd wait{socket_, POLLIN, 0};
    ::poll(&wait, 1, -1);
    receive();
  }
}

void FakeExec::run(const std::vector<std::string>& words, bool drop) {
  sigset_t broken_pipe;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
  Pipe in, out, errors;
  Child child;
  try {
    child = spawn(
        {.argv = words,
         .descriptors = {{in.reader.get(), 0}, {out.writer.get(), 1}, {errors.writer.get(), 2}}});
  } catch (const Error& error) {
    const bool missing = std::string(error.what()).find("such file") != std::string::npos;
    return finish(dump_json(
        {{"status", "Failure"},
         {"code", 500},
         {"reason", "InternalError"},
         {"message",
          fmt::format("OCI runtime exec failed: unable to start container process: "
                      "exec: \"{}\": {}",
                      words[0],
                      missing ? "executable file not found in $PATH" : "permission denied")}}));
  }
  in.reader.reset();
  out.writer.reset();
  errors.writer.reset();
  set_nonblocking(in.writer.get());
  std::string pending;
  size_t passed = 0;
  bool input_ended = false;
  while (out.reader || errors.reader) {
    // Messages that came with others wait in input_, where poll() does not see them.
    while (pending.size() < kAhead) {
      const auto message = receive();
      if (!message) break;
      if (*message == std::string("\xff\0", 2)) input_ended = true;
      if (!message->empty() && (*message)[0] == 0) {
        if (input_ended) fail("input behind its end");
        pending += message->substr(1);
        passed += message->size();
      }
    }
    if (drop && passed > kDrop) return;
    if (!pending.empty() && in.writer) {
      const ssize_t wrote = ::write(in.writer.get(), pending.data(), pending.size());
      if (wrote > 0) pending.erase(0, static_cast<size_t>(wrote));
      if (wrote < 0 && errno == EPIPE) in.writer.reset();
    }
    if (!in.writer) pending.clear();
    if (pending.empty() && input_ended) in.writer.reset();
    const bool room = pending.size() < kAhead;  // else the client waits, unless it goes
    std::array<pollfd, 4> fds{{{socket_, static_cast<short>(room ? POLLIN : POLLRDHUP), 0},
                               {pending.empty() ? -1 : in.writer.get(), POLLOUT, 0},
                               {out.reader ? out.reader.get() : -1, POLLIN, 0},
                               {errors.reader ? errors.reader.get() : -1, POLLIN, 0}}};
    ::poll(fds.data(), fds.size(), -1);
    if (!room && fds[0].revents != 0) return;
    for (const size_t which : {size_t{2}, size_t{3}}) {
      if (fds[which].revents == 0) continue;
      Fd& from = which == 2 ? out.reader : errors.reader;
      std::array<char, 10000> piece;
      const ssize_t got = ::read(from.get(), piece.data(), piece.size());
      if (got <= 0) {
        from.reset();
        continue;
      }
      passed += static_cast<size_t>(got);
      send(which == 2 ? 1 : 2, {piece.data(), static_cast<size_t>(got)});
      if (drop && passed > kDrop) return;
    }
  }
  const int code = child.wait().shell_code();
  if (code == 0) return finish(R"({"status":"Success"})");
  const Json causes = Json::array({{{"reason", "ExitCode"}, {"message", fmt::format("{}", code)}}});
  finish(dump_json(
      {{"status", "Failure"}, {"reason", "NonZeroExitCode"}, {"details", {{"causes", causes}}}}));
}

}  // namespace adaptdl::kube::fake
