#pragma once

// One exec of the fake cluster: a WebSocket (RFC 6455), and the process behind it.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace adaptdl::kube::fake {

class FakeExec {
 public:
  // Accepts the request whose head that is; borrows the socket. Throws Error if it offers no
  // v5.channel.k8s.io.
  FakeExec(int socket, const std::string& head);

  // Ends with the command, or with the client. `drop`: after some thousand bytes, either way.
  void run(const std::vector<std::string>& words, bool drop);
  void hang();  // until the client goes

 private:
  // What the client has sent: a message, nothing yet, or an Error once it has gone.
  std::optional<std::string> receive();
  bool parse(std::string& message);
  void send(char channel, std::string_view text);
  void frame(int opcode, bool last, std::string_view payload);
  void finish(const std::string& status);

  const int socket_;
  std::string input_, part_;
  bool closed_ = false;  // the client has said so
};

}  // namespace adaptdl::kube::fake
