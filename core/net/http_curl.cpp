#include "core/net/http_curl.h"

#include <algorithm>
#include <cmath>
#include <sys/socket.h>

#include "core/base/files.h"
#include "core/base/system.h"
#include "core/base/text.h"
#include "core/net/addresses.h"
#include "core/net/http_message.h"

namespace adaptdl {
namespace {

bool is_secure(const std::string& url) {
  return url.starts_with("https:") || url.starts_with("wss:");
}

curl_blob borrowed(const std::string& text) {
  return {const_cast<char*>(text.data()), text.size(), CURL_BLOB_NOCOPY};
}

// The URL with another host; the parts of "SCHEME://HOST:PORT/..." (without user and password).
struct UrlParts {
  std::string scheme, host, port, rest;  // port with its colon, or ""
};
UrlParts parts_of(const std::string& url) {
  UrlParts parts;
  const size_t begin = url.find("://") + 3;
  const size_t end = std::min(url.find_first_of("/?#", begin), url.size());
  parts.scheme = url.substr(0, begin);
  const std::string authority = url.substr(begin, end - begin);
  const size_t colon = authority.find(':', authority.starts_with('[') ? authority.find(']') : 0);
  parts.host = authority.substr(0, colon);
  if (colon != std::string::npos) parts.port = authority.substr(colon);
  parts.rest = url.substr(end);
  return parts;
}

// NO_PROXY with this machine added, as Go programs have it, such as docker and kubectl: the
// environment's proxy cannot reach it, and must not see what is sent to a forwarded port. It comes
// first, since libcurl reads no further than a blank.
std::string unproxied_hosts() {
  auto given = environment_variable("no_proxy");
  if (!given) given = environment_variable("NO_PROXY");
  if (given == "*") return *given;
  return "localhost,127.0.0.0/8,::1," + given.value_or("");
}

void set_up_tls(CURL* curl, const HttpClientOptions& options, bool needed) {
  curl_easy_setopt(curl, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  if (!options.verify) {
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
  } else if (!options.authorities.empty()) {
    const curl_blob blob = borrowed(options.authorities);
    curl_easy_setopt(curl, CURLOPT_CAINFO_BLOB, &blob);
  } else {
    // A plain HTTP request that may be redirected must not fail here for lack of certificates.
    try {
      curl_easy_setopt(curl, CURLOPT_CAINFO, find_ca_certificates().c_str());
    } catch (const Error&) {
      if (needed) throw;
    }
  }
  if (options.certificate.empty()) return;
  const curl_blob certificate = borrowed(options.certificate), key = borrowed(options.key);
  curl_easy_setopt(curl, CURLOPT_SSLCERTTYPE, "PEM");
  curl_easy_setopt(curl, CURLOPT_SSLKEYTYPE, "PEM");
  curl_easy_setopt(curl, CURLOPT_SSLCERT_BLOB, &certificate);
  curl_easy_setopt(curl, CURLOPT_SSLKEY_BLOB, &key);
  curl_easy_setopt(curl, CURLOPT_KEYPASSWD, "");  // never asked for at the terminal
}

// As libcurl, but programs that another thread starts do not inherit the connection.
curl_socket_t open_socket(void*, curlsocktype, curl_sockaddr* address) {
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

void append(CurlList& list, const std::string& line) {
  curl_slist* longer = curl_slist_append(list.get(), line.c_str());
  ADAPTDL_CHECK(longer != nullptr);
  (void)list.release();  // now a part of `longer`
  list.reset(longer);
}

}  // namespace

CurlHandle make_curl() {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (ready != CURLE_OK) fail("cannot prepare libcurl: {}", curl_easy_strerror(ready));
  CurlHandle curl(curl_easy_init());
  ADAPTDL_CHECK(curl != nullptr);
  return curl;
}

CurlLists set_up_transfer(CURL* curl, const HttpClientOptions& options, const std::string& url,
                          HttpHeaders headers, bool may_redirect) {
  CurlLists lists;
  std::string unproxied = unproxied_hosts();
  if (options.server_name.empty()) {
    curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  } else {
    // libcurl requests (SNI) and verifies the name in the URL: so put the wanted name there, and
    // keep the URL's host for the connection and the header Host.
    const UrlParts parts = parts_of(url);
    const std::string name = url_host(options.server_name);
    curl_easy_setopt(curl, CURLOPT_URL, (parts.scheme + name + parts.port + parts.rest).c_str());
    append(lists.connect_to, "::" + parts.host + (parts.port.empty() ? ":" : parts.port));
    curl_easy_setopt(curl, CURLOPT_CONNECT_TO, lists.connect_to.get());
    headers.emplace_back("Host", parts.host + parts.port);
    // libcurl looks for the URL's name there.
    std::string host = lower_case(parts.host);
    if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
    if (is_loopback(host)) unproxied = "*";
  }
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, open_socket);
  curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(curl, CURLOPT_TCP_KEEPIDLE, 30L);
  curl_easy_setopt(curl, CURLOPT_TCP_KEEPINTVL, 10L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "adaptdl");
  if (options.proxy.empty()) {
    curl_easy_setopt(curl, CURLOPT_NOPROXY, unproxied.c_str());
  } else {
    curl_easy_setopt(curl, CURLOPT_PROXY, options.proxy.c_str());
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "");  // NO_PROXY is for the environment's proxies
    if (options.proxy.starts_with("https:")) {
      curl_easy_setopt(curl, CURLOPT_PROXY_CAINFO, find_ca_certificates().c_str());
    }
  }
  if (is_secure(url) || may_redirect) set_up_tls(curl, options, is_secure(url));
  append(lists.headers, "Expect:");  // do not wait for a 100 that many servers never send
  for (const auto& [name, value] : headers) {
    check_header_text(name, "header");
    check_header_text(value, "header");
    // With nothing after the colon curl would omit the header.
    append(lists.headers, value.empty() ? name + ";" : name + ": " + value);
  }
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, lists.headers.get());
  return lists;
}

void read_header_line(std::string_view line, HttpHeaders& headers) {
  if (line.starts_with("HTTP/")) return headers.clear();  // after a redirect or a 100
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  std::string name(trimmed(line.substr(0, colon)));
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  headers.emplace_back(name, trimmed(line.substr(colon + 1)));
}

void check_header_text(const std::string& text, const char* what) {
  if (text.find_first_of("\r\n") != std::string::npos || text.find('\0') != std::string::npos) {
    fail("a {} of an HTTP request contains a line break", what);
  }
}

long curl_milliseconds(Seconds seconds) {
  return static_cast<long>(std::clamp(std::ceil(seconds.count() * 1e3), 1.0, 1e9));
}

std::string shown_url(const std::string& url) {
  std::string text = url.substr(0, url.find_first_of("?#"));
  const size_t host = text.find("://");
  if (host == std::string::npos) return text;
  const size_t end = std::min(text.find('/', host + 3), text.size());
  const size_t at = text.rfind('@', end);
  if (at != std::string::npos && at > host) text.erase(host + 3, at - host - 2);
  return text;
}

void throw_transfer_error(CURL* curl, CURLcode code, const HttpClientOptions& options,
                          const std::string& what, const char* reason) {
  long sent = 0;
  curl_easy_getinfo(curl, CURLINFO_REQUEST_SIZE, &sent);
  std::string text = *reason != '\0' ? reason : curl_easy_strerror(code);
  if (code == CURLE_PEER_FAILED_VERIFICATION) {
    throw HttpCertificateError(
        fmt::format("{}: the server's certificate is not trusted: {}; {}", what, text,
                    options.authorities.empty()
                        ? "if you trust it, set SSL_CERT_FILE to a file with its CA certificate"
                        : "it does not match the CA certificates configured for this server"));
  }
  throw HttpError(what + ": " + text, sent > 0);
}

}  // namespace adaptdl
