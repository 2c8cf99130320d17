#include "core/net/s3.h"

#include <algorithm>

#include "core/base/crypto.h"
#include "core/base/system.h"
#include "core/base/text.h"

namespace adaptdl {
namespace {

constexpr Seconds kStill{60.0};
constexpr size_t kMaxText = 16u << 20;
constexpr size_t kMaxShown = 300;  // bytes of a store's own words

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_bucket_name(const std::string& name) {
  return name.size() >= 3 && name.size() <= 63 && is_letter_or_digit(name.front()) &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return is_letter_or_digit(c) || c == '-' || c == '.' || c == '_';
         });
}

bool is_key_part(const std::string& part) {
  constexpr std::string_view kOthers = "-_.~";
  return !part.empty() && part != "." && part != ".." &&
         std::all_of(part.begin(), part.end(), [&](char c) {
           return is_letter_or_digit(c) || kOthers.find(c) != std::string_view::npos;
         });
}

// What stands between <NAME> and </NAME>; errors of S3 are XML without attributes.
std::string element(const std::string& xml, const std::string& name) {
  const size_t begin = xml.find("<" + name + ">");
  if (begin == std::string::npos) return "";
  const size_t start = begin + name.size() + 2;
  const size_t end = xml.find("</" + name + ">", start);
  return end == std::string::npos ? "" : xml.substr(start, std::min(end - start, kMaxShown));
}

std::string advice_for(const std::string& code, const S3Access& access, const std::string& bucket) {
  const std::string& id = access.signature.key_id;
  const std::string key = "access key ..." + id.substr(id.size() - std::min<size_t>(4, id.size()));
  if (code == "NoSuchBucket") {
    return fmt::format(
        "there is no bucket {} at {}: create it, or correct the name or "
        "AWS_ENDPOINT_URL",
        bucket, access.endpoint);
  }
  if (code == "InvalidAccessKeyId") {
    return fmt::format("{} does not know {}: check AWS_ACCESS_KEY_ID", access.endpoint, key);
  }
  if (code == "SignatureDoesNotMatch") {
    return fmt::format("the secret does not belong to {}: check AWS_SECRET_ACCESS_KEY", key);
  }
  if (code == "ExpiredToken" || code == "InvalidToken") {
    return fmt::format(
        "the temporary credentials of {} are no longer valid: renew "
        "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN",
        key);
  }
  if (code == "RequestTimeTooSkewed") {
    return "this machine's clock differs too much from the store's: set it (timedatectl set-ntp "
           "true)";
  }
  if (code == "PermanentRedirect" || code == "AuthorizationHeaderMalformed" ||
      code == "TemporaryRedirect") {
    return fmt::format("bucket {} is not in region {}: set AWS_REGION to its own", bucket,
                       access.signature.region);
  }
  if (code == "EntityTooLarge") return "the store takes no object of that size at once";
  return "";
}

}  // namespace

S3Place parse_s3_place(const std::string& text, const std::string& what) {
  constexpr std::string_view kScheme = "s3://";
  std::string rest = text.starts_with(kScheme) ? text.substr(kScheme.size()) : "";
  if (rest.ends_with('/')) rest.pop_back();
  const size_t slash = rest.find('/');
  const std::string prefix = slash == std::string::npos ? "" : rest.substr(slash + 1);
  const S3Place place{rest.substr(0, slash), prefix};
  bool good = is_bucket_name(place.bucket) && !prefix.empty() && prefix.size() <= 512;
  for (const std::string& part : split(prefix, '/')) good = good && is_key_part(part);
  if (!good) {
    throw UsageError(fmt::format(
        "{}: {} is not s3://BUCKET/PREFIX, such as s3://training/digits (a prefix of letters, "
        "digits, - _ . ~ and single slashes).",
        what, text));
  }
  return place;
}

S3Access s3_access_from_environment() {
  const auto first_of = [](std::initializer_list<const char*> names, const std::string& otherwise) {
    for (const char* name : names) {
      if (const auto value = environment_variable(name)) return *value;
    }
    return otherwise;
  };
  S3Access access;
  access.signature.key_id = first_of({"AWS_ACCESS_KEY_ID"}, "");
  access.signature.secret = first_of({"AWS_SECRET_ACCESS_KEY"}, "");
  access.signature.region = first_of({"AWS_REGION", "AWS_DEFAULT_REGION"}, "us-east-1");
  access.token = first_of({"AWS_SESSION_TOKEN"}, "");
  access.endpoint = first_of({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"},
                             "https://s3." + access.signature.region + ".amazonaws.com");
  while (access.endpoint.ends_with('/')) access.endpoint.pop_back();
  if (access.signature.key_id.empty() || access.signature.secret.empty()) {
    fail(
        "no credentials for the object store: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and "
        "AWS_SESSION_TOKEN with temporary ones)");
  }
  if (!is_key_part(access.signature.region)) {
    fail("AWS_REGION: {} is no region, such as eu-central-1", access.signature.region);
  }
  if (!access.endpoint.starts_with("http://") && !access.endpoint.starts_with("https://")) {
    fail("AWS_ENDPOINT_URL: {} is no http:// or https:// URL", access.endpoint);
  }
  return access;
}

S3Error s3_error(const S3Access& access, const std::string& bucket, const std::string& what,
                 const HttpResponse& answer) {
  const std::string code = element(answer.body, "Code");
  const std::string words = element(answer.body, "Message");
  std::string why = advice_for(code, access, bucket);
  if (why.empty() && (answer.status == 401 || answer.status == 403)) {
    const std::string& id = access.signature.key_id;
    why = fmt::format(
        "access key ...{} may not do that in bucket {}: give it the rights s3:GetObject, "
        "s3:PutObject, s3:DeleteObject and s3:ListBucket there",
        id.substr(id.size() - std::min<size_t>(4, id.size())), bucket);
  }
  const bool passing = answer.status == 408 || answer.status == 429 || answer.status >= 500 ||
                       code == "RequestTimeout" || code == "OperationAborted";
  const std::string status =
      fmt::format("status {}{}{}", answer.status, code.empty() ? "" : " ", code);
  if (!why.empty()) return {fmt::format("{}: {} ({})", what, why, status), passing};
  return {fmt::format("{}: {}{}{}", what, status, words.empty() ? "" : ": ", words), passing};
}

S3Bucket::S3Bucket(S3Access access, std::string bucket, const Cancellation& cancel)
    : access_(std::move(access)), bucket_(std::move(bucket)), cancel_(cancel) {}

HttpResponse S3Bucket::send(HttpRequest request, const std::string& key) {
  request.url = access_.endpoint + "/" + bucket_ + "/" + key;
  if (!access_.token.empty()) request.headers.emplace_back("x-amz-security-token", access_.token);
  request.signature = &access_.signature;
  request.timeout = Seconds(0);
  request.stall_timeout = kStill;
  request.max_body = kMaxText;
  request.cancel = &cancel_;
  HttpResponse answer;
  try {
    answer = client_.send(request);
  } catch (const HttpCertificateError& error) {
    throw S3Error(error.what(), false);
  } catch (const HttpError& error) {
    throw S3Error(fmt::format("{}; check AWS_ENDPOINT_URL and the network", error.what()), true);
  }
  const bool absent = answer.status == 404 && element(answer.body, "Code") != "NoSuchBucket";
  if (answer.ok() || (absent && request.method != "PUT")) return answer;
  const std::string what = fmt::format("{} s3://{}/{}", request.method, bucket_, key);
  throw s3_error(access_, bucket_, what, answer);
}

void S3Bucket::put_file(const std::string& key, int fd, uint64_t size, const std::string& sha256) {
  if (size > kMostS3Bytes) {
    throw S3Error(fmt::format("s3://{}/{}: has {} bytes, and an object store takes at most {} (5 "
                              "GiB) at once",
                              bucket_, key, size, kMostS3Bytes),
                  false);
  }
  HttpRequest request{.method = "PUT"};
  request.headers = {{"x-amz-content-sha256", sha256},
                     {"Content-Type", "application/octet-stream"}};
  request.body_file = {.fd = fd, .size = size};
  send(std::move(request), key);
}

void S3Bucket::put(const std::string& key, const std::string& text) {
  HttpRequest request{.method = "PUT"};
  request.headers = {{"x-amz-content-sha256", to_hex(sha256(bytes_of(text)))},
                     {"Content-Type", "application/json"}};
  request.body = text;
  send(std::move(request), key);
}

bool S3Bucket::get(const std::string& key, const std::function<void(std::string_view)>& take) {
  HttpRequest request;
  request.on_body = take;
  return send(std::move(request), key).ok();
}

std::optional<std::string> S3Bucket::get(const std::string& key) {
  HttpResponse answer = send({}, key);
  if (!answer.ok()) return std::nullopt;
  return std::move(answer.body);
}

void S3Bucket::remove(const std::string& key) {
  send({.method = "DELETE"}, key);
}

}  // namespace adaptdl
