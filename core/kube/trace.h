#pragma once

// What is told of a request and its answer to somebody who looks for a fault. Pure.

#include <string>
#include <string_view>

#include "core/base/clock.h"
#include "core/net/http.h"

namespace adaptdl::kube {

// Lines without secrets: the values of Authorization and of parameters such as token are left out,
// as are bodies of secrets, of tokens and of what is not JSON; other bodies are cut short. `path`
// is the URL's without its query.
std::string request_trace(const HttpRequest& request);
std::string response_trace(const HttpRequest& request, const HttpResponse& response,
                           Seconds duration);

}  // namespace adaptdl::kube
