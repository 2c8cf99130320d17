#include "core/oci/auth.h"

#include "tests/unit/base/expect_error.h"

namespace adaptdl::oci {
namespace {

HttpResponse refused(const std::string& challenge) {
  return {401, {{"www-authenticate", challenge}}, ""};
}

}  // namespace

TEST_CASE("challenges are read with quotes, commas, several schemes, and nonsense between") {
  const auto one = parse_challenges(
      "Bearer realm=\"https://a.io/token\", service=\"r, \\\"x\\\"\",scope=repository:a/b:pull");
  REQUIRE(one.size() == 1);
  CHECK(one[0].scheme == "bearer");
  CHECK(one[0].parameter("realm") == "https://a.io/token");
  CHECK(one[0].parameter("service") == "r, \"x\"");
  CHECK(one[0].parameter("scope") == "repository:a/b:pull");
  CHECK(one[0].parameter("none") == "");
  const auto two = parse_challenges("Negotiate, Basic realm = x , BEARER Realm=\"y\"");
  REQUIRE(two.size() == 3);
  CHECK(two[1].scheme == "basic");
  CHECK(two[2].parameter("realm") == "y");
  CHECK(parse_challenges("").empty());
  CHECK(parse_challenges("=,\"x\" ; =").size() <= 1);
}

TEST_CASE("a token is asked for once for its scopes, and again after it was refused") {
  std::vector<HttpRequest> asked;
  RegistryAuth auth("r.io", {"me", "it", ""}, [&](const HttpRequest& request) {
    asked.push_back(request);
    return HttpResponse{200, {}, fmt::format("{{\"access_token\":\"t{}\"}}", asked.size())};
  });
  CHECK(auth.header({"repository:a:pull"}) == "");
  auth.challenge(refused("Bearer realm=\"https://t.io/x?y=1\",service=s"), "https://r.io");
  CHECK(auth.header({"repository:a:pull,push", "repository:b:pull"}) == "Bearer t1");
  CHECK(auth.header({"repository:a:pull,push", "repository:b:pull"}) == "Bearer t1");
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].url ==
        "https://t.io/"
        "x?y=1&service=s&scope=repository%3Aa%3Apull%2Cpush&scope=repository%3Ab%3Apull");
  CHECK(asked[0].headers == HttpHeaders{{"Authorization", "Basic bWU6aXQ="}});
  CHECK(auth.header({"repository:b:pull"}) == "Bearer t2");
  auth.forget({"repository:b:pull"});
  CHECK(auth.header({"repository:b:pull"}) == "Bearer t3");
}

TEST_CASE("credentials go to no realm that is not https") {
  RegistryAuth auth("r.io", {"me", "it", ""}, [](const HttpRequest&) -> HttpResponse {
    FAIL("it was asked");
    return {};
  });
  auth.challenge(refused("Bearer realm=\"http://r.io/token\""), "https://r.io");
  CHECK_ERROR(auth.header({"s"}), "the realm must be https");
  auth.challenge(refused("Bearer realm=\"http://10.0.0.1/token\""), "https://r.io");
  CHECK_ERROR(auth.header({"s"}), "the realm must be https");
  auth.challenge(refused("Bearer realm=\"http://t.io/token\""), "http://10.0.0.1");
  CHECK_ERROR(auth.header({"s"}), "the realm must be https");
  auth.challenge(refused("Bearer realm=\"file:///etc/passwd\""), "http://10.0.0.1");
  CHECK_ERROR(auth.header({"s"}), "its token server (realm) is not a valid URL");
  auth.challenge(refused("Bearer service=x"), "http://10.0.0.1");
  CHECK_ERROR(auth.header({"s"}), "its token server (realm) is not a valid URL");
}

TEST_CASE("credentials go over plain HTTP to this machine alone") {
  std::vector<HttpRequest> asked;
  const TokenRequest send = [&](const HttpRequest& request) {
    asked.push_back(request);
    return HttpResponse{401, {}, ""};
  };
  RegistryAuth auth("10.0.0.1", {"me", "it", ""}, send);
  auth.challenge(refused("Basic realm=x"), "http://10.0.0.1");
  CHECK(auth.header({"s"}) == "");
  CHECK(!auth.has_credential());
  CHECK(contains(auth.no_credential(), "plain HTTP would show them"));
  RegistryAuth token("10.0.0.1", {"me", "it", ""}, send);
  token.challenge(refused("Bearer realm=\"http://10.0.0.1/token\""), "http://10.0.0.1");
  CHECK_ERROR(token.header({"s"}), "plain HTTP would show them");
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].headers.empty());
  RegistryAuth here("localhost", {"me", "it", ""}, send);
  here.challenge(refused("Basic realm=x"), "http://localhost:5000");
  CHECK(here.header({"s"}) == "Basic bWU6aXQ=");
}

TEST_CASE("Basic sends what there is, and nothing without credentials") {
  const TokenRequest nobody = [](const HttpRequest&) { return HttpResponse{}; };
  RegistryAuth with("r.io", {"me", "it", ""}, nobody), without("r.io", {}, nobody);
  with.challenge(refused("Basic realm=x"), "https://r.io");
  without.challenge(refused("Basic realm=x"), "https://r.io");
  CHECK(with.header({}) == "Basic bWU6aXQ=");
  CHECK(without.header({}) == "");
}

TEST_CASE("an identity token is exchanged, or goes by Basic where that is unknown") {
  std::vector<HttpRequest> asked;
  int status = 200;
  RegistryAuth auth("r.io", {"", "", "i d"}, [&](const HttpRequest& request) {
    asked.push_back(request);
    return HttpResponse{request.method == "POST" ? status : 200, {}, "{\"token\":\"t\"}"};
  });
  auth.challenge(refused("Bearer realm=\"https://t.io/x\",service=s"), "https://r.io");
  CHECK(auth.header({"a", "b"}) == "Bearer t");
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].body ==
        "grant_type=refresh_token&client_id=adaptdl&refresh_token=i%20d&service=s&scope=a%20b");
  status = 404;
  CHECK(auth.header({"c"}) == "Bearer t");
  REQUIRE(asked.size() == 3);
  CHECK(asked[2].headers == HttpHeaders{{"Authorization", "Basic PHRva2VuPjppIGQ="}});
}

TEST_CASE("what a token server says instead of a token is told") {
  HttpResponse answer{401, {}, ""};
  RegistryAuth auth("r.io", {"me", "it", ""}, [&](const HttpRequest&) { return answer; });
  auth.challenge(refused("Bearer realm=\"https://t.io/x\""), "https://r.io");
  CHECK_ERROR(auth.header({"s"}), "refuses the credentials");
  answer = {500, {}, ""};
  CHECK_ERROR(auth.header({"s"}), "answers with status 500");
  answer = {200, {}, "{}"};
  CHECK_ERROR(auth.header({"s"}), "without a token");
  answer = {200, {}, "<html>"};
  CHECK_ERROR(auth.header({"s"}), "token server");
}

}  // namespace adaptdl::oci
