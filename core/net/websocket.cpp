#include "core/net/websocket.h"

#include <array>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/net/http_curl.h"

namespace adaptdl {
namespace {

constexpr size_t kMaxMessage = 16u << 20;

size_t on_websocket_header(char* data, size_t, size_t size, void* target) {
  read_header_line({data, size}, *static_cast<HttpHeaders*>(target));
  return size;
}

}  // namespace

struct WebSocket::Handle {
  explicit Handle(const WebSocketOptions& given)
      : connection(given.connection),
        what("WebSocket " + shown_url(given.url)),
        curl(make_curl()) {}

  const HttpClientOptions connection;
  const std::string what;
  CurlLists lists;
  char reason[CURL_ERROR_SIZE] = {};
  curl_socket_t socket = CURL_SOCKET_BAD;
  CurlHandle curl;

  [[noreturn]] void throw_error(CURLcode code) {
    throw_transfer_error(curl.get(), code, connection, what, reason);
  }
};

WebSocket::WebSocket(const WebSocketOptions& options) : handle_(std::make_unique<Handle>(options)) {
  CURL* curl = handle_->curl.get();
  HttpHeaders headers = options.headers, answered;
  if (!options.protocols.empty()) {
    headers.emplace_back("Sec-WebSocket-Protocol",
                         fmt::format("{}", fmt::join(options.protocols, ", ")));
  }
  ADAPTDL_CHECK(options.url.starts_with("http"));
  handle_->lists = set_up_transfer(curl, handle_->connection, "ws" + options.url.substr(4),
                                   std::move(headers), false);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "ws,wss");
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, handle_->reason);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, curl_milliseconds(options.connect_timeout));
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_websocket_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &answered);
  curl_easy_setopt(curl, CURLOPT_CONNECT_ONLY, 2L);
  // libcurl would answer a ping in the middle of sending a message, and fail.
  curl_easy_setopt(curl, CURLOPT_WS_OPTIONS, static_cast<long>(CURLWS_NOAUTOPONG));
  const CURLcode code = curl_easy_perform(curl);
  if (code == CURLE_HTTP_RETURNED_ERROR) {
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    throw WebSocketRefused(fmt::format("{}: the server answered {}", handle_->what, status),
                           static_cast<int>(status));
  }
  if (code != CURLE_OK) handle_->throw_error(code);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, nullptr);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, nullptr);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, 0L);
  curl_easy_getinfo(curl, CURLINFO_ACTIVESOCKET, &handle_->socket);
  protocol_ = find_header(answered, "sec-websocket-protocol").value_or("");
}

WebSocket::~WebSocket() = default;

int WebSocket::fd() const {
  return handle_->socket;
}

std::optional<WebSocketMessage> WebSocket::receive() {
  std::array<char, 16384> piece;
  while (!ended_) {
    size_t size = 0;
    const curl_ws_frame* frame = nullptr;
    const CURLcode code =
        curl_ws_recv(handle_->curl.get(), piece.data(), piece.size(), &size, &frame);
    if (code == CURLE_AGAIN) return std::nullopt;
    if (code == CURLE_GOT_NOTHING) {
      ended_ = true;
      return WebSocketMessage{WebSocketMessage::Type::close, "", 1006};
    }
    if (code != CURLE_OK) handle_->throw_error(code);
    ++frames_;  // or a part of one
    if ((frame->flags & CURLWS_PING) != 0) {
      queue(CURLWS_PONG, {piece.data(), size});
      continue;
    }
    if ((frame->flags & CURLWS_PONG) != 0) continue;
    if (part_.size() + size > kMaxMessage) {
      throw HttpError(handle_->what + ": a message is larger than 16 MiB", true);
    }
    part_.append(piece.data(), size);
    if (frame->bytesleft > 0 || (frame->flags & CURLWS_CONT) != 0) continue;
    WebSocketMessage message{WebSocketMessage::Type::data, {}, 0};
    if ((frame->flags & CURLWS_CLOSE) != 0) {
      ended_ = true;
      message.type = WebSocketMessage::Type::close;
      message.code = 1005;  // it gave none
      if (part_.size() >= 2) {
        message.code =
            static_cast<unsigned char>(part_[0]) * 256 + static_cast<unsigned char>(part_[1]);
        part_.erase(0, 2);
      }
    }
    message.data = std::exchange(part_, {});
    return message;
  }
  return std::nullopt;
}

void WebSocket::queue(unsigned flags, std::string_view data) {
  unsent_.push_back({flags, std::string(data)});
  flush();
}

void WebSocket::send(std::string_view data) {
  queue(CURLWS_BINARY, data);
}
void WebSocket::ping() {
  queue(CURLWS_PING, "");
}
void WebSocket::close() {
  queue(CURLWS_CLOSE, std::string_view("\x03\xe8", 2));  // 1000
}

void WebSocket::flush() {
  while (!unsent_.empty()) {
    Frame& frame = unsent_.front();
    size_t sent = 0;
    const CURLcode code = curl_ws_send(handle_->curl.get(), frame.data.data() + frame.sent,
                                       frame.data.size() - frame.sent, &sent, 0, frame.flags);
    frame.sent += sent;
    if (code == CURLE_AGAIN) return;
    if (code != CURLE_OK) handle_->throw_error(code);
    if (frame.sent < frame.data.size()) return;
    unsent_.pop_front();
  }
}

}  // namespace adaptdl
