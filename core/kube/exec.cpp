#include "core/kube/exec.h"

#include <array>
#include <cerrno>
#include <poll.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/kube/channels.h"

namespace adaptdl::kube {
namespace {

constexpr char kInput = 0, kOutput = 1, kErrors = 2, kStatus = 3, kResize = 4;
constexpr char kClose = static_cast<char>(255);
constexpr size_t kPiece = 32u << 10;
constexpr int kBurst = 16;         // messages
constexpr double kPings = 12;      // per period of silence
constexpr Seconds kFarewell{2.0};  // for the server's close, after the command's status

class Session {
 public:
  Session(Client& client, const Resource& pod, const ExecOptions& options,
          const Cancellation* cancel)
      : options_(options), cancel_(cancel), what_("exec in " + pod.describe()) {
    ADAPTDL_CHECK(!options.command.empty());
    Query query;
    for (const std::string& word : options.command) query.emplace_back("command", word);
    if (!options.container.empty()) query.emplace_back("container", options.container);
    query.emplace_back("stdin", options.input >= 0 ? "true" : "false");
    query.emplace_back("stdout", "true");
    query.emplace_back("stderr", options.terminal ? "false" : "true");
    query.emplace_back("tty", options.terminal ? "true" : "false");
    Resource target = pod;
    target.subresource = "exec";
    socket_ = open_channels(client, target, query, {"v5.channel.k8s.io", "v4.channel.k8s.io"});
    can_end_input_ = socket_->protocol() == "v5.channel.k8s.io";
    reading_ = options.input >= 0;
  }

  int run() {
    try {
      while (!closed_ && !(status_ && Monotonic::now() > farewell_)) {
        tell_size();
        wait();
        hear();
      }
    } catch (const HttpError&) {
      // The command and the connection may have ended while input was being sent.
      try {
        do hear();
        while (more_);
      } catch (const HttpError&) {
        // no more messages
      }
      if (!status_) throw;
    }
    if (!status_) throw HttpError(what_ + ": the connection closed before the command ended", true);
    return exit_code(what_, *status_);
  }

 private:
  void hear() {
    // At most a burst: constant output must not delay input and `cancel_`.
    for (int i = 0; i < kBurst; ++i) {
      const uint64_t heard = socket_->frames();
      const auto message = socket_->receive();
      if (socket_->frames() != heard) asked_.reset();  // by an answer that poll() has not seen, too
      more_ = message.has_value();
      if (!more_) return;
      take(*message);
    }
  }

  void wait() {
    const bool read = reading_ && !socket_->has_unsent();
    std::array<pollfd, 3> fds{{
        {socket_->fd(), static_cast<short>(POLLIN | (socket_->has_unsent() ? POLLOUT : 0)), 0},
        {read ? options_.input : -1, POLLIN, 0},
        {cancel_ != nullptr ? cancel_->fd() : -1, POLLIN, 0},
    }};
    if (::poll(fds.data(), fds.size(), more_ ? 0 : 1000) < 0 && errno != EINTR)
      fail_errno(errno, "poll");
    if (fds[2].revents != 0) throw Cancelled(what_);
    if (fds[0].revents != 0) asked_.reset();
    socket_->flush();
    if (fds[1].revents != 0) read_input();
    ask();
  }

  // Silence counts from a ping, but not while this process did not listen: a slow reader of the
  // output may block it, or a signal may stop it.
  void ask() {
    if (asked_) {
      if (seconds_since(*asked_) <= options_.silence.count()) return;
      throw HttpError(fmt::format("{}: the server has not answered for {:.0f} s", what_,
                                  options_.silence.count()),
                      true);
    }
    if (seconds_since(pinged_) < options_.silence.count() / kPings) return;
    asked_ = pinged_ = Monotonic::now();
    socket_->ping();
  }

  void read_input() {
    std::array<char, kPiece + 1> piece;
    piece[0] = kInput;
    const ssize_t got = ::read(options_.input, piece.data() + 1, kPiece);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got < 0) fail_errno(errno, what_ + ": cannot read the command's input");
    if (got > 0) return socket_->send({piece.data(), static_cast<size_t>(got) + 1});
    reading_ = false;
    if (can_end_input_) {
      const char end[2] = {kClose, kInput};
      socket_->send({end, 2});
    } else if (!options_.input_is_counted) {
      fail("{}: the server is older than Kubernetes 1.30 and cannot end a command's input", what_);
    }
  }

  void take(const WebSocketMessage& message) {
    if (message.type == WebSocketMessage::Type::close) {
      closed_ = true;
      return;
    }
    if (message.data.empty()) return;
    const std::string_view data = std::string_view(message.data).substr(1);
    switch (message.data[0]) {
      case kOutput:
        if (options_.output && !data.empty()) options_.output(data);
        break;
      case kErrors:
        if (options_.errors && !data.empty()) options_.errors(data);
        break;
      case kStatus:
        if (data.empty()) break;
        status_ = parse_json(data, what_);
        reading_ = false;
        farewell_ = Monotonic::now() + std::chrono::duration_cast<Monotonic::duration>(kFarewell);
        break;
      default:
        break;  // closed channels
    }
  }

  void tell_size() {
    if (!options_.terminal || !options_.size || socket_->has_unsent()) return;
    const TerminalSize size = options_.size();
    if (size == size_) return;
    size_ = size;
    socket_->send(std::string(1, kResize) +
                  dump_json({{"Width", size.columns}, {"Height", size.rows}}));
  }

  const ExecOptions& options_;
  const Cancellation* cancel_;
  const std::string what_;
  std::unique_ptr<WebSocket> socket_;
  bool can_end_input_ = false, reading_ = false, closed_ = false;
  bool more_ = false;  // messages may be in memory, where poll(2) does not see them
  TerminalSize size_{0, 0};
  TimePoint pinged_ = Monotonic::now(), farewell_{};
  std::optional<TimePoint> asked_;  // time of the ping without an answer
  std::optional<Json> status_;
};

}  // namespace

int exec(Client& client, const Resource& pod, const ExecOptions& options,
         const Cancellation* cancel) {
  return Session(client, pod, options, cancel).run();
}

int exit_code(const std::string& what, const Json& json) {
  Status status = status_from(json, 500);
  if (status.success) return 0;
  for (const Status::Cause& cause : status.causes) {
    if (cause.reason != "ExitCode") continue;
    const auto code = try_parse<int>(cause.message);
    if (code && *code > 0 && *code < 256) return *code;
  }
  if (status.message.empty()) status.message = "the server could not run the command";
  throw ApiError(what, status);
}

}  // namespace adaptdl::kube
