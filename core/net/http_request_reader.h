#pragma once

// Parses requests from the bytes of one connection, in pieces of any size. Uses no sockets and no
// clock. Not thread-safe.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/net/http_server.h"

namespace adaptdl {

class HttpRequestReader {
 public:
  // As HttpAdmission; may be empty.
  using Admit = std::function<std::optional<HttpResponse>(HttpServerRequest head)>;

  // Limits in bytes, as in HttpServerOptions.
  HttpRequestReader(size_t max_head, size_t max_body, Admit admit = {});
  ~HttpRequestReader();
  HttpRequestReader(const HttpRequestReader&) = delete;
  HttpRequestReader& operator=(const HttpRequestReader&) = delete;

  enum class State {
    empty,    // no byte of the next request has arrived
    partial,  // a part of it has arrived
    whole,    // all of it has arrived: take() it. Following bytes stay unparsed until then.
    refused,  // the input is not an allowed request: send refusal() and close
  };
  State add(std::string_view bytes);
  State state() const { return state_; }

  struct Taken {
    HttpServerRequest request;
    bool keep_alive = false;  // the client wants to keep the connection
  };
  // Requires: whole. Parses the following bytes at once: check state().
  Taken take();

  // Requires: refused.
  const HttpResponse& refusal() const { return refusal_; }

  // True once for a request whose client waits for "100 Continue" before it sends the body.
  bool take_expectation();

  size_t waiting_bytes() const { return input_.size(); }  // unread so far

 private:
  struct Parser;
  void read();
  void parse();
  void refuse(HttpResponse refusal);
  void refuse(int status, std::string_view sentence);
  void check_head();
  HttpServerRequest head() const;

  size_t max_head_, max_body_;
  Admit admit_;
  State state_ = State::empty;
  std::unique_ptr<Parser> parser_;  // of the current request
  bool head_checked_ = false, expectation_ = false;
  std::string input_;
  HttpResponse refusal_;
};

}  // namespace adaptdl
