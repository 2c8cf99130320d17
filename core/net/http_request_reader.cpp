#include "core/net/http_request_reader.h"

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "core/base/error.h"
#include "core/base/text.h"

namespace adaptdl {
namespace http = boost::beast::http;

namespace {

std::string_view view(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

// The rest of a chunked body is never shorter than its end, "0\r\n\r\n". With fewer bytes, Boost
// 1.74's parser aborts in an assertion.
constexpr size_t kLeastOfChunks = 5;

// The path and query, also of "http://host/path" (the form for proxies); nothing if there is no
// path.
std::optional<std::string_view> path_and_query(std::string_view target) {
  const size_t scheme = target.find("://");
  if (scheme != std::string_view::npos && !target.starts_with('/')) {
    const size_t path = target.find('/', scheme + 3);
    return path == std::string_view::npos ? "/" : target.substr(path);
  }
  if (!target.starts_with('/')) return std::nullopt;
  return target;
}

}  // namespace

struct HttpRequestReader::Parser : http::request_parser<http::string_body> {
  HttpHeaders headers;  // taken before Beast puts a chunked body's trailers among them
};

HttpRequestReader::HttpRequestReader(size_t max_head, size_t max_body, Admit admit)
    : max_head_(max_head), max_body_(max_body), admit_(std::move(admit)) {}

HttpRequestReader::~HttpRequestReader() = default;

HttpRequestReader::State HttpRequestReader::add(std::string_view bytes) {
  if (state_ == State::refused) return state_;
  input_ += bytes;
  if (state_ != State::whole) read();
  return state_;
}

void HttpRequestReader::read() {
  // Line ends between requests are allowed (RFC 9112, 2.2).
  if (!parser_) input_.erase(0, std::min(input_.find_first_not_of("\r\n"), input_.size()));
  if (input_.empty()) return;
  if (!parser_) {
    parser_ = std::make_unique<Parser>();
    parser_->eager(false);  // stops after the head, to check it before the body
    parser_->header_limit(static_cast<uint32_t>(max_head_));
    parser_->body_limit(max_body_);
    head_checked_ = expectation_ = false;
    state_ = State::partial;
  }
  parse();
}

void HttpRequestReader::parse() {
  while (!input_.empty() && !parser_->is_done()) {
    if (head_checked_ && parser_->chunked() && input_.size() < kLeastOfChunks) break;
    boost::system::error_code error;
    const size_t used = parser_->put(boost::asio::buffer(input_), error);
    input_.erase(0, used);
    if (error == http::error::header_limit) {
      return refuse(431, fmt::format("The request's head is longer than {} bytes.", max_head_));
    }
    if (error == http::error::body_limit) {
      return refuse(413, fmt::format("The request's body is longer than {} bytes.", max_body_));
    }
    if (error == http::error::bad_version) {
      return refuse(505, "This server speaks HTTP/1.1.");
    }
    if (error && error != http::error::need_more) {
      return refuse(400, fmt::format("This is not an HTTP request: {}.", error.message()));
    }
    if (!head_checked_ && parser_->is_header_done()) check_head();
    if (state_ == State::refused) return;
    if (error || used == 0) break;
  }
  if (parser_->is_done()) {
    state_ = State::whole;
  } else if (input_.size() > max_head_) {
    // Only a head, a chunk's head or a trailer leaves unparsed bytes.
    refuse(431, fmt::format("A part of the request's head is longer than {} bytes.", max_head_));
  }
}

void HttpRequestReader::check_head() {
  head_checked_ = true;
  const auto& head = parser_->get();
  if (head.version() == 11 && head.count(http::field::host) != 1) {
    return refuse(400, "The request must have one Host header.");
  }
  if (!path_and_query(view(head.target()))) {
    return refuse(400, "The request's target must be a path.");
  }
  for (const auto& field : head) {
    parser_->headers.emplace_back(lower_case(view(field.name_string())), view(field.value()));
  }
  if (admit_ && !parser_->is_done()) {
    HttpServerRequest request = this->head();
    request.headers = parser_->headers;
    if (auto refusal = admit_(std::move(request))) return refuse(std::move(*refusal));
  }
  expectation_ = head.version() == 11 && !parser_->is_done() &&
                 lower_case(view(head[http::field::expect])) == "100-continue";
}

// The request's first line.
HttpServerRequest HttpRequestReader::head() const {
  const auto& head = parser_->get();
  HttpServerRequest request;
  request.method = std::string(view(head.method_string()));
  const std::string_view target = path_and_query(view(head.target())).value();
  const size_t query = target.find('?');
  request.path = target.substr(0, query);
  if (query != std::string_view::npos) request.query = target.substr(query + 1);
  return request;
}

void HttpRequestReader::refuse(int status, std::string_view sentence) {
  refuse(text_response(status, sentence));
}

void HttpRequestReader::refuse(HttpResponse refusal) {
  state_ = State::refused;
  refusal_ = std::move(refusal);
  parser_.reset();
  input_ = std::string();
}

bool HttpRequestReader::take_expectation() {
  const bool waits = expectation_ && state_ == State::partial;
  if (head_checked_) expectation_ = false;
  return waits;
}

HttpRequestReader::Taken HttpRequestReader::take() {
  ADAPTDL_CHECK(state_ == State::whole);
  Taken taken;
  taken.request = head();
  taken.request.headers = std::move(parser_->headers);
  taken.keep_alive = parser_->keep_alive();
  taken.request.body = std::move(parser_->get().body());
  parser_.reset();
  state_ = State::empty;
  read();
  if (input_.empty()) input_ = std::string();  // a held request keeps no memory for bytes
  return taken;
}

}  // namespace adaptdl
