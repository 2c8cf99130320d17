#pragma once

// The API server's refusals.

#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/formats/json.h"
#include "core/net/http_message.h"

namespace adaptdl::kube {

// The used parts of metav1.Status; "" and 0 for missing fields.
struct Status {
  struct Cause {
    std::string reason, message, field;
  };
  int code = 0;
  bool success = false;
  std::string reason, message;
  std::string kind, name;  // of the object in question
  std::vector<Cause> causes;
  Seconds retry_after{0.0};
};

// Parses a Status. Any other answer (such as a proxy's page) becomes one with its truncated text as
// message. Never throws.
Status parse_status(std::string_view body, int http_status);
Status status_from(const Json& json, int http_status);
Status status_of(const HttpResponse& response);

// Thrown if the server refuses a request. The message is `what`, the server's message and reason,
// each cause with its field, and advice for 401 and 403.
class ApiError : public Error {
 public:
  ApiError(const std::string& what, Status status);

  const Status& status() const { return status_; }
  int code() const { return status_.code; }
  const std::string& reason() const { return status_.reason; }

  bool not_found() const { return code() == 404; }
  bool already_exists() const { return reason() == "AlreadyExists"; }
  bool conflict() const { return code() == 409 && !already_exists(); }  // another client changed it
  bool gone() const { return code() == 410; }  // that resourceVersion or page no longer exists
  bool forbidden() const { return code() == 403; }
  bool unauthorized() const { return code() == 401; }
  bool invalid() const { return code() == 422; }  // status().causes name the fields
  bool too_many_requests() const { return code() == 429; }

 private:
  Status status_;
};

}  // namespace adaptdl::kube
