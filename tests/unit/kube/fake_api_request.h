#pragma once

// Inside the fake API server.

#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/kube/fake_api.h"

namespace adaptdl::kube::fake {

// What a request is refused with.
struct Refused {
  HttpResponse response;
};
[[noreturn]] void refuse(int code, const std::string& reason, const std::string& message);
[[noreturn]] void bad(const std::string& message);

HttpResponse json_response(int status, const Json& json);
std::string decoded(std::string_view text);  // of %XX
// A parameter's value, decoded; "" if it is missing.
std::string parameter(const HttpServerRequest& request, std::string_view name);
std::vector<std::string> split(const std::string& text, char at);

}  // namespace adaptdl::kube::fake
