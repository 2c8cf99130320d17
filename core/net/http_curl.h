#pragma once

// Internal to http.cpp and websocket.cpp: their common use of libcurl.

#include <curl/curl.h>
#include <memory>
#include <string>

#include "core/net/http.h"

namespace adaptdl {

struct CurlDeleter {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
};
using CurlHandle = std::unique_ptr<CURL, CurlDeleter>;
CurlHandle make_curl();

struct CurlListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using CurlList = std::unique_ptr<curl_slist, CurlListDeleter>;

// What libcurl borrows for a transfer.
struct CurlLists {
  CurlList headers, connect_to;
};

// Sets the URL, the headers, and how to reach and verify the server. `options` and the returned
// lists must live as long as the transfer. Throws Error for a line break in a header, and if CA
// certificates are needed but missing.
[[nodiscard]] CurlLists set_up_transfer(CURL* curl, const HttpClientOptions& options,
                                        const std::string& url, HttpHeaders headers,
                                        bool may_redirect);

// "HTTP/1.1 200 OK" begins new `headers`; any other line is added, its name in lower case.
void read_header_line(std::string_view line, HttpHeaders& headers);

void check_header_text(const std::string& text, const char* what);
long curl_milliseconds(Seconds seconds);

// The URL for messages: without user, password and query, which may be secret.
std::string shown_url(const std::string& url);

// Throws the HttpError for a transfer that did not end well. `reason` is CURLOPT_ERRORBUFFER's.
[[noreturn]] void throw_transfer_error(CURL* curl, CURLcode code, const HttpClientOptions& options,
                                       const std::string& what, const char* reason);

}  // namespace adaptdl
