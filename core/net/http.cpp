#include "core/net/http.h"

#include <algorithm>
#include <exception>
#include <optional>

#include "core/base/files.h"
#include "core/base/system.h"
#include "core/net/http_curl.h"

namespace adaptdl {

namespace {

constexpr size_t kMaxHeaderBytes = 1u << 20;

// The callbacks fill this. Exceptions must not pass through C, so the one that ends the transfer is
// stored.
struct Answer {
  CURL* curl;
  const HttpRequest& request;
  HttpResponse response{};
  size_t header_bytes = 0;
  bool too_large = false;
  uint64_t sent = 0;  // of request.body_file
  std::exception_ptr thrown = {};
};

int status_of(CURL* curl) {
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  return static_cast<int>(status);
}

size_t on_body(char* data, size_t, size_t size, void* target) {
  auto& answer = *static_cast<Answer*>(target);
  const int status = status_of(answer.curl);
  if (answer.request.on_body && status >= 200 && status < 300) {
    try {
      answer.request.on_body({data, size});
      return size;
    } catch (...) {
      answer.thrown = std::current_exception();
      return CURL_WRITEFUNC_ERROR;
    }
  }
  if (size > answer.request.max_body - answer.response.body.size()) {
    answer.too_large = true;
    return CURL_WRITEFUNC_ERROR;
  }
  answer.response.body.append(data, size);
  return size;
}

size_t on_header(char* data, size_t, size_t size, void* target) {
  auto& answer = *static_cast<Answer*>(target);
  answer.header_bytes += size;
  if (answer.header_bytes > kMaxHeaderBytes) {
    answer.too_large = true;
    return CURL_WRITEFUNC_ERROR;
  }
  read_header_line({data, size}, answer.response.headers);
  return size;
}

// The next piece of request.body_file.
size_t on_read(char* data, size_t, size_t room, void* source) {
  auto& answer = *static_cast<Answer*>(source);
  const HttpFilePart& file = answer.request.body_file;
  const auto size = static_cast<size_t>(std::min<uint64_t>(room, file.size - answer.sent));
  try {
    read_exactly_at(file.fd, {reinterpret_cast<std::byte*>(data), size}, file.offset + answer.sent,
                    "the uploaded file");
    answer.sent += size;
    if (answer.request.on_sent) answer.request.on_sent(answer.sent);
    return size;
  } catch (...) {
    answer.thrown = std::current_exception();
    return CURL_READFUNC_ABORT;
  }
}

// libcurl repeats a request that a kept connection lost.
int on_seek(void* source, curl_off_t offset, int origin) {
  auto& answer = *static_cast<Answer*>(source);
  if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  answer.sent = static_cast<uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

struct MultiDeleter {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};

}  // namespace

struct HttpClient::Handle {
  explicit Handle(HttpClientOptions given) : options(std::move(given)), curl(make_curl()) {
    multi.reset(curl_multi_init());
    ADAPTDL_CHECK(multi != nullptr);
  }

  // Like curl_easy_perform, which cannot be interrupted; nothing if cancelled.
  std::optional<CURLcode> perform(const Cancellation* cancel);

  const HttpClientOptions options;
  std::unique_ptr<CURLM, MultiDeleter> multi;  // keeps the connections
  CurlHandle curl;
};

std::optional<CURLcode> HttpClient::Handle::perform(const Cancellation* cancel) {
  struct Attached {
    Attached(CURLM* to, CURL* what) : multi(to), curl(what) {
      ADAPTDL_CHECK(curl_multi_add_handle(multi, curl) == CURLM_OK);
    }
    ~Attached() { curl_multi_remove_handle(multi, curl); }
    CURLM* multi;
    CURL* curl;
  } const attached(multi.get(), curl.get());

  for (int running = 1;;) {
    if (cancel != nullptr && cancel->cancelled()) return std::nullopt;
    const CURLMcode code = curl_multi_perform(multi.get(), &running);
    if (code != CURLM_OK) fail("libcurl: {}", curl_multi_strerror(code));
    if (running == 0) break;
    curl_waitfd extra{cancel != nullptr ? cancel->fd() : -1, CURL_WAIT_POLLIN, 0};
    curl_multi_poll(multi.get(), &extra, cancel != nullptr ? 1 : 0, 1000, nullptr);
  }
  int left = 0;
  const CURLMsg* message = curl_multi_info_read(multi.get(), &left);
  ADAPTDL_CHECK(message != nullptr && message->msg == CURLMSG_DONE);
  return message->data.result;
}

HttpClient::HttpClient(HttpClientOptions options)
    : handle_(std::make_unique<Handle>(std::move(options))) {}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

HttpResponse HttpClient::send(const HttpRequest& request) {
  const std::string what = request.method + " " + shown_url(request.url);
  CURL* curl = handle_->curl.get();
  curl_easy_reset(curl);  // connections stay
  char reason[CURL_ERROR_SIZE] = {};
  Answer answer{curl, request};
  check_header_text(request.method, "method");
  const bool reading = request.method == "GET" || request.method == "HEAD";
  const bool may_redirect = reading && request.max_redirects > 0;
  const CurlLists lists =
      set_up_transfer(curl, handle_->options, request.url, request.headers, may_redirect);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
  if (request.timeout.count() > 0) {
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, curl_milliseconds(request.timeout));
  }
  if (request.stall_timeout.count() > 0) {
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME,
                     std::max(1L, curl_milliseconds(request.stall_timeout) / 1000));
  }
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, curl_milliseconds(request.connect_timeout));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &answer);
  curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "");
  if (const HttpSignature* by = request.signature) {
    curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, ("aws:amz:" + by->region + ":s3").c_str());
    curl_easy_setopt(curl, CURLOPT_USERNAME, by->key_id.c_str());
    curl_easy_setopt(curl, CURLOPT_PASSWORD, by->secret.c_str());
  }
  if (request.only_once) curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
  if (request.method == "HEAD") {
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  } else if (request.body_file.fd >= 0) {
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body_file.size));
    curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_read);
    curl_easy_setopt(curl, CURLOPT_READDATA, &answer);
    curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, on_seek);
    curl_easy_setopt(curl, CURLOPT_SEEKDATA, &answer);
    curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  } else if (!reading || !request.body.empty()) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.c_str());
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  if (may_redirect) {
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, static_cast<long>(request.max_redirects));
  }

  const std::optional<CURLcode> code = handle_->perform(request.cancel);
  if (answer.thrown) std::rethrow_exception(answer.thrown);
  if (!code) throw Cancelled(what);
  if (answer.too_large) {
    throw HttpAnswerTooLarge(
        fmt::format("{}: the answer is larger than {} bytes", what, request.max_body));
  }
  if (*code != CURLE_OK) throw_transfer_error(curl, *code, handle_->options, what, reason);
  answer.response.status = status_of(curl);
  return std::move(answer.response);
}

std::string find_ca_certificates(const std::string& root) {
  if (const auto given = environment_variable("SSL_CERT_FILE")) {
    if (!path_exists(*given)) fail("SSL_CERT_FILE: {}: not found", *given);
    return *given;
  }
  for (const char* path : {
           "etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Arch
           "etc/pki/tls/certs/ca-bundle.crt",                   // Red Hat, Fedora
           "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // newer Red Hat
           "etc/ssl/cert.pem",                                  // Alpine
           "etc/ssl/ca-bundle.pem",                             // SUSE
       }) {
    std::string whole = join_path(root, path);
    if (path_exists(whole)) return whole;
  }
  fail(
      "no CA certificates found: install the package ca-certificates, or set SSL_CERT_FILE to a "
      "file of CA certificates");
}

}  // namespace adaptdl
