#include <algorithm>
#include <doctest/doctest.h>

#include "core/cluster/kubernetes/webhook/certificates.h"
#include "tests/unit/base/expect_error.h"

namespace webhook_certificates_test {

using namespace adaptdl;
using namespace adaptdl::kubernetes;

namespace {

constexpr double kNow = 1.8e9, kLife = 900;
const std::vector<std::string> kHosts = {"hook.lab.svc"};

WebhookCertificates made(double now_s) {
  return *renewed(std::nullopt, kHosts, kLife, now_s);
}

size_t count(const std::string& text) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find("BEGIN CERTIFICATE", at)) != std::string::npos; ++at) ++found;
  return found;
}

}  // namespace

TEST_CASE("the first certificates are of one authority, which outlives what it signs") {
  const WebhookCertificates first = made(kNow);
  CHECK(count(first.authorities) == 1);
  CHECK(certificate_end_s(first.authorities) == kNow + 4 * kLife);
  CHECK(certificate_end_s(first.server.certificate) == kNow + kLife);
  CHECK(is_signed_by(first.server.certificate, first.authorities));
  CHECK(from_secret_data(secret_data(first)) == first);
}

TEST_CASE("nothing is done before a third of the life is left; then the same authority signs") {
  const WebhookCertificates first = made(kNow);
  CHECK(!renewed(first, kHosts, kLife, kNow));
  CHECK(!renewed(first, kHosts, kLife, kNow + kLife * 2 / 3));
  const auto next = renewed(first, kHosts, kLife, kNow + kLife * 2 / 3 + 1);
  REQUIRE(next);
  CHECK(next->authorities == first.authorities);
  CHECK(next->server.certificate != first.server.certificate);
  CHECK(is_signed_by(next->server.certificate, next->authorities));
}

TEST_CASE("a new authority comes before the old one ends, which is believed while it holds") {
  WebhookCertificates now = made(kNow);
  const std::string first_authority = now.authorities;
  const std::string first_server = now.server.certificate;
  size_t most = 0;
  for (double at = kNow; at < kNow + 20 * kLife; at += kLife / 20) {
    const WebhookCertificates before = now;
    if (const auto next = renewed(now, kHosts, kLife, at)) now = *next;
    most = std::max(most, count(now.authorities));
    CHECK(*certificate_end_s(now.server.certificate) > at);
    CHECK(*certificate_end_s(now.authorities) >= *certificate_end_s(now.server.certificate));
    CHECK(is_signed_by(now.server.certificate, now.authorities));
    // Whoever still serves with what was there is believed.
    const std::string signer = before.authorities.substr(0, before.authorities.find("-----END"));
    CHECK(now.authorities.find(signer) != std::string::npos);
  }
  CHECK(most == 2);
  CHECK(now.authorities.find(first_authority) == std::string::npos);
  CHECK(!is_signed_by(first_server, now.authorities));
}

TEST_CASE("what cannot be read, or does not belong together, is made anew") {
  const WebhookCertificates first = made(kNow), other = made(kNow);
  for (const WebhookCertificates& broken :
       {WebhookCertificates{}, WebhookCertificates{"x", "y", {"z", ""}},
        WebhookCertificates{first.authorities, "no key", {}},
        WebhookCertificates{first.authorities, other.authority_key, {}},
        WebhookCertificates{first.authorities, first.authority_key, other.server}}) {
    const auto next = renewed(broken, kHosts, kLife, kNow);
    REQUIRE(next);
    CHECK(is_signed_by(next->server.certificate, next->authorities));
    CHECK(!renewed(*next, kHosts, kLife, kNow));
  }
  CHECK(from_secret_data(Json()) == WebhookCertificates{});
  CHECK(from_secret_data({{"ca.crt", "not base64!"}, {"tls.key", 3}}) == WebhookCertificates{});
  CHECK(!certificate_end_s("nothing"));
  CHECK_ERROR(make_server_certificate({"x", "y"}, kHosts, kNow, kLife), "PEM");
}

}  // namespace webhook_certificates_test
