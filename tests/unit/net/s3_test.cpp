#include "core/net/s3.h"

#include <doctest/doctest.h>
#include <string>

#include "core/base/error.h"
#include "core/net/http_message.h"

using namespace adaptdl;

TEST_CASE("s3: a place is a bucket and a prefix whose keys need no escapes") {
  CHECK(parse_s3_place("s3://training/digits", "-") == S3Place{"training", "digits"});
  CHECK(parse_s3_place("s3://my.bucket/a/b_c-d.e~f/", "-") == S3Place{"my.bucket", "a/b_c-d.e~f"});
  CHECK(parse_s3_place("s3://training/digits", "-").text() == "s3://training/digits");
  for (const char* bad :
       {"", "training/digits", "s3://", "s3://training", "s3://training/", "s3:///digits",
        "s3://ab/digits", "s3://training/a//b", "s3://training/../b", "s3://training/a b",
        "s3://training/a?b", "s3://training//a", "s3://user@training/a", "S3://training/a"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_s3_place(bad, "--checkpoint-mirror"), UsageError);
  }
}

namespace {

S3Error error_of(int status, const std::string& code) {
  S3Access access;
  access.endpoint = "https://store.example";
  access.signature = {"eu-central-1", "AKIAEXAMPLE1234", "hidden"};
  HttpResponse answer;
  answer.status = status;
  if (!code.empty()) {
    answer.body = "<?xml version=\"1.0\"?><Error><Code>" + code +
                  "</Code><Message>its own words</Message></Error>";
  }
  return s3_error(access, "training", "PUT s3://training/digits/data.bin", answer);
}

}  // namespace

TEST_CASE("s3: an error says what to do, and whether it may pass") {
  const auto says = [](const S3Error& error, const std::string& words) {
    const std::string text = error.what();
    CAPTURE(text);
    CHECK(text.find("PUT s3://training/digits/data.bin: ") == 0);
    CHECK(text.find(words) != std::string::npos);
    CHECK(text.find("hidden") == std::string::npos);
    CHECK(text.find("AKIAEXAMPLE") == std::string::npos);
  };
  says(error_of(403, "AccessDenied"), "access key ...1234 may not do that in bucket training");
  says(error_of(403, ""), "access key ...1234");
  says(error_of(403, "SignatureDoesNotMatch"), "AWS_SECRET_ACCESS_KEY");
  says(error_of(403, "RequestTimeTooSkewed"), "clock");
  says(error_of(400, "ExpiredToken"), "AWS_SESSION_TOKEN");
  says(error_of(404, "NoSuchBucket"), "no bucket training at https://store.example");
  says(error_of(301, "PermanentRedirect"), "set AWS_REGION");
  says(error_of(418, "Strange"), "status 418 Strange: its own words");
  says(error_of(502, ""), "status 502");
  for (const int status : {408, 429, 500, 502, 503}) CHECK(error_of(status, "").passing());
  for (const int status : {301, 400, 401, 403, 404}) CHECK(!error_of(status, "").passing());
}
