#include "core/oci/reference.h"

#include "core/oci/url.h"
#include "tests/unit/base/expect_error.h"

namespace adaptdl::oci {
namespace {

constexpr const char* kDigest =
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

std::string whole(std::string_view text) {
  return to_string(parse_reference(text, "--base"));
}

}  // namespace

TEST_CASE("a short name is Docker Hub's, and its tag latest") {
  CHECK(whole("alpine") == "docker.io/library/alpine:latest");
  CHECK(whole("alpine:3.20") == "docker.io/library/alpine:3.20");
  CHECK(whole("team/app") == "docker.io/team/app:latest");
  CHECK(whole("index.docker.io/alpine") == "docker.io/library/alpine:latest");
  CHECK(whole("docker.io/team/a/b") == "docker.io/team/a/b:latest");
  CHECK(registry_host("docker.io") == "registry-1.docker.io");
  CHECK(registry_host("quay.io") == "quay.io");
}

TEST_CASE("the first part is a registry by its dot, colon or being localhost") {
  CHECK(whole("localhost/app") == "localhost/app:latest");
  CHECK(whole("localhost:5000/app:1") == "localhost:5000/app:1");
  CHECK(whole("registry.example.com/a__b/c-d.e:T_1.2-3") ==
        "registry.example.com/a__b/c-d.e:T_1.2-3");
  CHECK(whole("[::1]:5000/app") == "[::1]:5000/app:latest");
  CHECK(whole("HOST/app") == "HOST/app:latest");
  CHECK(whole("localhost:5000") == "docker.io/library/localhost:5000");  // as docker has it
}

TEST_CASE("a digest comes with or without a tag") {
  CHECK(whole(fmt::format("a.b/c@{}", kDigest)) == fmt::format("a.b/c@{}", kDigest));
  const Reference both = parse_reference(fmt::format("a.b:1/c:t@{}", kDigest), "x");
  CHECK(both.registry == "a.b:1");
  CHECK(both.tag == "t");
  CHECK(both.version() == kDigest);
  CHECK(parse_reference("a.b/c:t", "x").version() == "t");
}

TEST_CASE("what is no name of an image is refused with the reason") {
  CHECK_ERROR(whole(""), "--base: \"\" is not an image name");
  for (const char* text : {"Alpine",      "a//b",
                           "/a",          "a/",
                           "-a",          "a..b",
                           "a___b",       "a.-b",
                           "a b",         "a:",
                           "a:-x",        "a@",
                           "a@sha256:12", "a@md5:e3b0c44298fc1c149afbf4c8996fb924",
                           "a.b:0/c",     "a.b:x/c",
                           "a.b:+1/c",    "a.b:99999/c",
                           "-a.b/c",      "[::1/a",
                           "[1.2.3.4]/a", "a.b:1:2/c",
                           "user@host/a", "a.b/C"}) {
    CAPTURE(text);
    CHECK_ERROR(whole(text), "is not an image name");
  }
  CHECK_ERROR(whole("a:" + std::string(129, 't')), "at most 128");
  CHECK_ERROR(whole(std::string(250, 'a')), "longer than 255");
  CHECK_ERROR(parse_repository(fmt::format("a.b/c@{}", kDigest), "REPO"),
              "give only the repository");
}

TEST_CASE("a repository to push to has no tag unless it is given") {
  CHECK(parse_repository("localhost:5000/app", "REPO").tag.empty());
  CHECK(parse_repository("localhost:5000/app:v1", "REPO").tag == "v1");
  CHECK(parse_repository("app", "REPO").repository == "library/app");
}

TEST_CASE("only the loopback interface is this machine") {
  for (const char* host : {"localhost", "localhost:5000", "127.0.0.1:1", "127.1.2.3", "[::1]:5000",
                           "registry.localhost"}) {
    CAPTURE(host);
    CHECK(on_this_machine(host));
  }
  for (const char* host :
       {"quay.io", "10.0.0.1", "172.16.0.1:80", "192.168.1.1:5000", "localhost.example.com",
        "127.0.0.1.example.com", "10.example.com", "[2001:db8::1]:5000", ""}) {
    CAPTURE(host);
    CHECK_FALSE(on_this_machine(host));
  }
}

TEST_CASE("a Location may be whole or relative, and keeps its query") {
  const std::string base = "https://r.io:5000/v2/a/blobs/uploads/?x=1";
  CHECK(resolve_location(base, "https://cdn.io/b?c=d%2F#e") == "https://cdn.io/b?c=d%2F");
  CHECK(resolve_location(base, "//cdn.io/b") == "https://cdn.io/b");
  CHECK(resolve_location(base, "/v2/u?s=1") == "https://r.io:5000/v2/u?s=1");
  CHECK(resolve_location(base, "u1?s=http://x") ==
        "https://r.io:5000/v2/a/blobs/uploads/u1?s=http://x");
  CHECK(resolve_location(base, "?s=2") == "https://r.io:5000/v2/a/blobs/uploads/?s=2");
  CHECK(resolve_location("http://r.io", "u") == "http://r.io/u");
  CHECK_ERROR(resolve_location(base, "ftp://r.io/x"), "not an http or https URL");
  CHECK_ERROR(resolve_location(base, "https://user@r.io/x"), "not an http or https URL");
  CHECK(url_origin("HTTPS://R.io:443/x?y") == "https://r.io");
  CHECK(url_origin("http://r.io:443") == "http://r.io:443");
  CHECK(url_origin("https://a@b/") == "");
  CHECK(url_origin("https://") == "");
  CHECK(with_parameter("http://a/b?c=d", "e", "f/ &") == "http://a/b?c=d&e=f%2F%20%26");
}

TEST_CASE("what was asked by TLS goes on by TLS") {
  const std::string asked = "https://R.io:5000/v2/a/blobs/uploads/?x=1";
  CHECK(keep_secure(asked, "http://r.io/v2/u?s=1") == "https://r.io:5000/v2/u?s=1");
  CHECK(keep_secure(asked, "HTTP://R.IO:8080") == "https://r.io:5000");
  CHECK(keep_secure(asked, "HTTPS://cdn.io/u?s=1") == "HTTPS://cdn.io/u?s=1");
  CHECK(keep_secure("https://[::1]:5/v2/", "http://[::1]/u") == "https://[::1]:5/u");
  CHECK(keep_secure("http://r.io/v2/", "http://cdn.io/u") == "http://cdn.io/u");
  for (const char* other : {"http://cdn.io/u", "http://r.io.evil.com/u", "http://evil-r.io/u",
                            "http://[::1]:5/r.io", "http://evil.com/r.io:5000"}) {
    CAPTURE(other);
    CHECK_ERROR(keep_secure(asked, other), "it redirects from https://r.io:5000 to http://");
  }
  CHECK_ERROR(keep_secure("https://[::1]/", "http://[::2]/u"), "where others could read");
}

}  // namespace adaptdl::oci
