#pragma once

// Trace lines of requests and answers, for debugging. Pure.

#include <string>
#include <string_view>

#include "core/base/clock.h"
#include "core/net/http.h"

namespace adaptdl::kube {

// Lines without secrets: they omit the values of Authorization and of parameters such as token, and
// bodies with Secrets, tokens or anything but JSON; other bodies are truncated. `path` is the URL's
// without its query.
std::string request_trace(const HttpRequest& request);
std::string response_trace(const HttpRequest& request, const HttpResponse& response,
                           Seconds duration);

}  // namespace adaptdl::kube
