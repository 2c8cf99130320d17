#pragma once

// Objects in a bucket of a store that speaks Amazon's S3: whole objects in and out, as files or
// short texts. Requests address the bucket by path (ENDPOINT/BUCKET/KEY), as all such stores allow.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/cancellation.h"
#include "core/base/error.h"
#include "core/net/http.h"

namespace adaptdl {

inline constexpr uint64_t kMostS3Bytes = uint64_t{5} << 30;  // of one object that is sent at once

struct S3Place {
  std::string bucket;
  std::string prefix;  // without slashes at its ends

  std::string text() const { return "s3://" + bucket + "/" + prefix; }
  bool operator==(const S3Place&) const = default;
};

// "s3://BUCKET/PREFIX". A prefix is made of letters, digits and - _ . ~ between single slashes, so
// that no key needs escapes. Throws UsageError naming `what`. Pure.
S3Place parse_s3_place(const std::string& text, const std::string& what);

// How to reach the store, and as whom.
struct S3Access {
  std::string endpoint;  // "https://s3.eu-central-1.amazonaws.com": without a slash at its end
  std::string token;     // of temporary credentials; "": none
  HttpSignature signature;
};

// From the variables that other tools read: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
// AWS_SESSION_TOKEN, AWS_REGION or AWS_DEFAULT_REGION (default us-east-1), AWS_ENDPOINT_URL_S3 or
// AWS_ENDPOINT_URL (default Amazon's of that region). Throws Error if one is missing or invalid.
S3Access s3_access_from_environment();

// The store did not do what it was asked.
class S3Error : public Error {
 public:
  S3Error(const std::string& message, bool passing) : Error(message), passing_(passing) {}
  bool passing() const { return passing_; }  // another attempt may succeed, with nothing changed

 private:
  bool passing_;
};

// The error for an answer that is none of success, to METHOD of an object. Names the bucket, and of
// the access key only its last characters. Pure.
S3Error s3_error(const S3Access& access, const std::string& bucket, const std::string& what,
                 const HttpResponse& answer);

// One thread. Every function makes one attempt, and throws S3Error, or Cancelled soon after
// `cancel`; a transfer that stands still for a minute has failed.
class S3Bucket {
 public:
  // Borrows `cancel`.
  S3Bucket(S3Access access, std::string bucket, const Cancellation& cancel);

  // `sha256`: of those bytes, in hexadecimal; the store compares it with what has arrived.
  void put_file(const std::string& key, int fd, uint64_t size, const std::string& sha256);
  void put(const std::string& key, const std::string& text);

  // False if there is no such object. `take` gets the bytes as they come; what it throws is thrown.
  bool get(const std::string& key, const std::function<void(std::string_view)>& take);
  // Nothing if there is no such object. At most 16 MiB.
  std::optional<std::string> get(const std::string& key);

  void remove(const std::string& key);  // an object that is not there is no error

 private:
  HttpResponse send(HttpRequest request, const std::string& key);

  const S3Access access_;
  const std::string bucket_;
  const Cancellation& cancel_;
  HttpClient client_;
};

}  // namespace adaptdl
