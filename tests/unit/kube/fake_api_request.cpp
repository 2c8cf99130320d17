#include "tests/unit/kube/fake_api_request.h"

#include "core/base/crypto.h"

namespace adaptdl::kube {
namespace fake {

std::string decoded(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      const auto bytes = from_hex(text.substr(i + 1, 2), "the query");
      result += static_cast<char>(bytes[0]);
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

void refuse(int code, const std::string& reason, const std::string& message) {
  throw Refused{status_response(code, reason, message)};
}
void bad(const std::string& message) {
  refuse(400, "BadRequest", message);
}

HttpResponse json_response(int status, const Json& json) {
  return {status, {{"Content-Type", "application/json"}}, dump_json(json)};
}

std::string parameter(const HttpServerRequest& request, std::string_view name) {
  const auto value = request.parameter(name);
  return value ? decoded(*value) : "";
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace fake

HttpResponse status_response(int code, const std::string& reason, const std::string& message,
                             HttpHeaders headers) {
  HttpResponse response = fake::json_response(code, {{"kind", "Status"},
                                                     {"apiVersion", "v1"},
                                                     {"status", "Failure"},
                                                     {"code", code},
                                                     {"reason", reason},
                                                     {"message", message}});
  response.headers.insert(response.headers.end(), headers.begin(), headers.end());
  return response;
}

}  // namespace adaptdl::kube
