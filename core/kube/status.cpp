#include "core/kube/status.h"

#include <algorithm>
#include <utility>

#include "core/base/number.h"
#include "core/formats/json_fields.h"

namespace adaptdl::kube {
namespace {

constexpr size_t kMaxText = 500;

int64_t number_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

// For proxies and servers that answer in plain text.
std::string reason_of(int code) {
  switch (code) {
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "NotFound";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 429:
      return "TooManyRequests";
    default:
      return "";
  }
}

std::string sentence(const std::string& what, const Status& status) {
  std::string text = what.empty() ? status.message : what + ": " + status.message;
  // The message of an invalid object already contains its causes.
  for (const Status::Cause& cause : status.causes) {
    if (status.message.find(cause.message) != std::string::npos) continue;
    text += cause.field.empty() ? "; " + cause.message
                                : fmt::format("; {}: {}", cause.field, cause.message);
  }
  text += status.reason.empty() ? fmt::format(" ({})", status.code)
                                : fmt::format(" ({} {})", status.code, status.reason);
  if (status.code == 401) text += "; log in again, or renew the credentials in the kubeconfig";
  if (status.code == 403) text += "; ask the cluster's administrator for this permission";
  return text;
}

}  // namespace

Status status_from(const Json& json, int http_status) {
  Status status;
  status.code = http_status;
  if (!json.is_object()) return status;
  if (const int64_t code = number_of(json, "code"); code >= 100 && code < 600) {
    status.code = static_cast<int>(code);
  }
  status.success = text_at(json, "status") == "Success";
  status.reason = text_at(json, "reason");
  status.message = text_at(json, "message");
  const Json& details = object_at(json, "details");
  status.kind = text_at(details, "kind");
  status.name = text_at(details, "name");
  const int64_t seconds = number_of(details, "retryAfterSeconds");
  if (seconds > 0) status.retry_after = Seconds(static_cast<double>(seconds));
  for (const Json& cause : list_at(details, "causes")) {
    if (!cause.is_object()) continue;
    status.causes.push_back(
        {text_at(cause, "reason"), text_at(cause, "message"), text_at(cause, "field")});
  }
  return status;
}

Status parse_status(std::string_view body, int http_status) {
  Status status;
  status.code = http_status;
  bool is_status = false;
  try {
    const Json json = parse_json(body, "status", {.max_bytes = 1u << 20, .max_depth = 32});
    is_status = json.is_object() && text_at(json, "kind") == "Status";
    if (is_status) status = status_from(json, http_status);
  } catch (const Error&) {
    // text
  }
  if (!is_status) {
    status.message = body.substr(0, kMaxText);
    while (status.message.ends_with('\n')) status.message.pop_back();
  }
  if (status.reason.empty()) status.reason = reason_of(status.code);
  if (status.message.empty()) status.message = "the server gave no reason";
  return status;
}

Status status_of(const HttpResponse& response) {
  Status status = parse_status(response.body, response.status);
  const auto header = response.header("retry-after");
  const auto seconds = header ? try_parse<int64_t>(*header) : std::nullopt;
  if (seconds && *seconds >= 0) {
    status.retry_after = std::max(status.retry_after, Seconds(static_cast<double>(*seconds)));
  }
  return status;
}

ApiError::ApiError(const std::string& what, Status status)
    : Error(sentence(what, status),
            status.code == 401 || status.code == 403 ? ExitCode::auth : ExitCode::error),
      status_(std::move(status)) {}

}  // namespace adaptdl::kube
