#include "tests/unit/kube/fake_streams.h"

#include <boost/asio/connect.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <poll.h>

#include "core/base/number.h"

namespace adaptdl::kube {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = asio::ip::tcp;
using Socket = beast::websocket::stream<Tcp::socket>;

constexpr size_t kMuch = 6u << 20, kMuchPiece = 32u << 10;

void send(Socket& socket, char channel, const std::string& text) {
  const std::string whole = channel + text;
  socket.ping({});
  // In fragments.
  for (size_t at = 0; at < whole.size(); at += 1000) {
    const std::string piece = whole.substr(at, 1000);
    socket.write_some(at + piece.size() == whole.size(), asio::buffer(piece));
  }
}

std::string receive(Socket& socket) {
  beast::flat_buffer buffer;
  socket.read(buffer);
  return beast::buffers_to_string(buffer.data());
}

void finish(Socket& socket, const std::string& status) {
  send(socket, 3, status);
  socket.close(beast::websocket::close_code::normal);
}

void cat(Socket& socket, size_t at_most) {
  size_t count = 0;
  while (count < at_most) {
    const std::string message = receive(socket);
    if (message == std::string("\xff\0", 2)) break;
    if (message.empty() || message[0] != 0) continue;
    count += message.size() - 1;
    send(socket, 1, message.substr(1));
  }
  finish(socket, R"({"status":"Success"})");
}

void exec(Socket& socket, const std::string& query) {
  const auto has = [&](const std::string& text) { return query.find(text) != std::string::npos; };
  if (has("command=cat")) {
    const size_t at = query.find("command=cat&command=");
    cat(socket, at == std::string::npos ? SIZE_MAX : parse_unsigned(query.substr(at + 20, 1), "N"));
  } else if (has("command=fail")) {
    send(socket, 1, "out");
    send(socket, 2, "err");
    finish(socket, R"({"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[
      {"reason":"ExitCode","message":"7"}]}})");
  } else if (has("command=missing")) {
    finish(socket,
           R"({"status":"Failure","code":500,"reason":"InternalError","message":"no such"})");
  } else if (has("command=hang")) {
    receive(socket);  // ends with the client
  } else if (has("command=mute")) {
    pollfd gone{socket.next_layer().native_handle(), POLLRDHUP, 0};
    ::poll(&gone, 1, -1);
  } else if (has("command=flood")) {
    for (;;) send(socket, 1, std::string(900, 'x'));  // ends with the client
  }
}

void forward(Socket& socket, bool broken) {
  send(socket, 0, "\x90\x1f");
  send(socket, 1, "\x90\x1f");
  if (broken) send(socket, 1, "nobody listens");
  for (;;) {
    const std::string message = receive(socket);
    if (message.empty() || message[0] != 0) continue;
    if (message.find("much") != std::string::npos) {
      for (size_t i = 0; i < kMuch; i += kMuchPiece) send(socket, 0, std::string(kMuchPiece, 'm'));
      break;
    }
    send(socket, 0, message.substr(1));
    if (message.find("bye") != std::string::npos) break;
  }
  socket.close(beast::websocket::close_code::normal);
}

}  // namespace

FakeStreams::FakeStreams(std::string protocol)
    : protocol_(std::move(protocol)),
      acceptor_(io_, Tcp::endpoint(asio::ip::address_v4::loopback(), 0)),
      thread_([this] { accept(); }) {}

FakeStreams::~FakeStreams() {
  over_ = true;
  {
    asio::io_context io;
    Tcp::socket last(io);  // wakes accept()
    boost::system::error_code ignored;
    last.connect(acceptor_.local_endpoint(), ignored);
  }
  thread_.join();
  for (std::thread& thread : threads_) thread.join();
}

Config FakeStreams::config() const {
  Config config;
  config.server = fmt::format("http://127.0.0.1:{}", acceptor_.local_endpoint().port());
  return config;
}

void FakeStreams::accept() {
  for (;;) {
    Tcp::socket socket(io_);
    acceptor_.accept(socket);
    if (over_) return;
    threads_.emplace_back([this, taken = std::move(socket)]() mutable { serve(std::move(taken)); });
  }
}

void FakeStreams::serve(Tcp::socket socket) {
  try {
    beast::flat_buffer buffer;
    http::request<http::string_body> request;
    http::read(socket, buffer, request);
    const std::string target(request.target());
    if (target.find("/secret/") != std::string::npos) {
      http::response<http::string_body> response(http::status::forbidden, 11);
      response.body() = R"({"kind":"Status","code":403,"reason":"Forbidden","message":"not you"})";
      response.keep_alive(false);
      response.prepare_payload();
      http::write(socket, response);
      return;
    }
    Socket stream(std::move(socket));
    stream.binary(true);
    stream.set_option(
        beast::websocket::stream_base::decorator([&](beast::websocket::response_type& response) {
          if (!protocol_.empty()) response.set(http::field::sec_websocket_protocol, protocol_);
        }));
    stream.accept(request);
    if (target.find("/portforward") != std::string::npos) {
      forward(stream, target.ends_with("ports=1"));
    } else {
      exec(stream, target);
    }
  } catch (const std::exception&) {
    // the client has gone
  }
}

}  // namespace adaptdl::kube
