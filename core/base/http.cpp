#include "core/base/http.h"

#include <algorithm>
#include <cmath>
#include <curl/curl.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"

namespace adaptdl {

namespace {

constexpr size_t kMaxHeaderBytes = 1u << 20;

// What the callbacks fill; exceptions must not pass through C, so a bound is noted, not thrown.
struct Answer {
  HttpResponse response;
  size_t header_bytes = 0, max_body = 0;
  bool too_large = false;
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

size_t on_body(char* data, size_t, size_t size, void* target) {
  auto& answer = *static_cast<Answer*>(target);
  if (size > answer.max_body - answer.response.body.size()) {
    answer.too_large = true;
    return CURL_WRITEFUNC_ERROR;
  }
  answer.response.body.append(data, size);
  return size;
}

size_t on_header(char* data, size_t, size_t size, void* target) {
  auto& answer = *static_cast<Answer*>(target);
  const std::string_view line(data, size);
  answer.header_bytes += size;
  if (answer.header_bytes > kMaxHeaderBytes) {
    answer.too_large = true;
    return CURL_WRITEFUNC_ERROR;
  }
  if (line.starts_with("HTTP/")) answer.response.headers.clear();  // after a redirect or a 100
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || line.starts_with("HTTP/")) return size;
  std::string name(trimmed(line.substr(0, colon)));
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  answer.response.headers.emplace_back(name, trimmed(line.substr(colon + 1)));
  return size;
}

// For messages: user, password and query may hold secrets.
std::string shown(const std::string& url) {
  std::string text = url.substr(0, url.find_first_of("?#"));
  const size_t host = text.find("://");
  if (host == std::string::npos) return text;
  const size_t end = std::min(text.find('/', host + 3), text.size());
  const size_t at = text.rfind('@', end);
  if (at != std::string::npos && at > host) text.erase(host + 3, at - host - 2);
  return text;
}

long milliseconds(Seconds seconds) {
  return static_cast<long>(std::clamp(std::ceil(seconds.count() * 1e3), 1.0, 1e9));
}

void check_line(const std::string& text, const char* what) {
  if (text.find_first_of("\r\n") != std::string::npos || text.find('\0') != std::string::npos) {
    fail("a {} of an HTTP request holds a line break", what);
  }
}

}  // namespace

struct HttpClient::Handle {
  CURL* curl = nullptr;
  Handle() {
    static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (ready != CURLE_OK) fail("cannot prepare libcurl: {}", curl_easy_strerror(ready));
    curl = curl_easy_init();
    ADAPTDL_CHECK(curl != nullptr);
  }
  ~Handle() { curl_easy_cleanup(curl); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
};

HttpClient::HttpClient() : handle_(std::make_unique<Handle>()) {}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

HttpResponse HttpClient::send(const HttpRequest& request) {
  const std::string what = request.method + " " + shown(request.url);
  CURL* curl = handle_->curl;
  curl_easy_reset(curl);  // connections stay
  char reason[CURL_ERROR_SIZE] = {};
  Answer answer;
  answer.max_body = request.max_body;
  check_line(request.method, "method");
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, milliseconds(request.timeout));
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(request.connect_timeout));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &answer);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "adaptdl");
  curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "");
  const bool reading = request.method == "GET" || request.method == "HEAD";
  if (request.method == "HEAD") {
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  } else if (!reading || !request.body.empty()) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.c_str());
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  if (reading && request.max_redirects > 0) {
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, static_cast<long>(request.max_redirects));
  }
  if (request.url.starts_with("https:") || request.max_redirects > 0) {
    curl_easy_setopt(curl, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    // A plain request that may be redirected does not fail here for lack of certificates.
    const bool needed = request.url.starts_with("https:");
    try {
      curl_easy_setopt(curl, CURLOPT_CAINFO, find_ca_certificates().c_str());
    } catch (const Error&) {
      if (needed) throw;
    }
  }

  curl_slist* lines = nullptr;
  const auto add = [&](const std::string& line) {
    curl_slist* longer = curl_slist_append(lines, line.c_str());
    ADAPTDL_CHECK(longer != nullptr);
    lines = longer;
  };
  CURLcode code = CURLE_OK;
  try {
    add("Expect:");  // no waiting for a 100 that many servers never send
    for (const auto& [name, value] : request.headers) {
      check_line(name, "header");
      check_line(value, "header");
      // With nothing after the colon curl would leave the header out.
      add(value.empty() ? name + ";" : name + ": " + value);
    }
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, lines);
    code = curl_easy_perform(curl);
  } catch (...) {
    curl_slist_free_all(lines);
    throw;
  }
  curl_slist_free_all(lines);
  if (answer.too_large) fail("{}: the answer is larger than {} bytes", what, request.max_body);
  if (code == CURLE_PEER_FAILED_VERIFICATION) {
    fail(
        "{}: the server's certificate is not trusted: {}; if it is right, name its authority's "
        "certificates in SSL_CERT_FILE",
        what, reason);
  }
  if (code != CURLE_OK) {
    fail("{}: {}", what, *reason != '\0' ? reason : curl_easy_strerror(code));
  }
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  answer.response.status = static_cast<int>(status);
  return std::move(answer.response);
}

std::string find_ca_certificates(const std::string& root) {
  if (const auto given = environment_variable("SSL_CERT_FILE")) {
    if (!path_exists(*given)) fail("SSL_CERT_FILE: there is no file {}", *given);
    return *given;
  }
  for (const char* path : {
           "etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Arch
           "etc/pki/tls/certs/ca-bundle.crt",                   // Red Hat, Fedora
           "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // newer Red Hat
           "etc/ssl/cert.pem",                                  // Alpine
           "etc/ssl/ca-bundle.pem",                             // SUSE
       }) {
    const std::string whole = join_path(root, path);
    if (path_exists(whole)) return whole;
  }
  fail(
      "no certificates of authorities found: install the package ca-certificates, or name a file "
      "of them in SSL_CERT_FILE");
}

}  // namespace adaptdl
