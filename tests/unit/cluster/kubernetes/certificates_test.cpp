#include "core/cluster/kubernetes/certificates/certificates.h"

#include <algorithm>
#include <doctest/doctest.h>

#include "tests/unit/base/expect_error.h"

namespace certificates_test {

using namespace adaptdl;
using namespace adaptdl::kubernetes;

namespace {

constexpr double kNow = 1.8e9, kLife = 900;
const CertificateNeeds kNeeds{"test", {"hook.lab.svc"}, kLife, 4 * kLife};

ServerCertificates made(double now_s) {
  return *renewed(std::nullopt, kNeeds, now_s);
}

size_t count(const std::string& text) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find("BEGIN CERTIFICATE", at)) != std::string::npos; ++at) ++found;
  return found;
}

}  // namespace

TEST_CASE("the first certificates are of one authority, which outlives what it signs") {
  const ServerCertificates first = made(kNow);
  CHECK(count(first.authorities) == 1);
  CHECK(certificate_end_s(first.authorities) == kNow + 4 * kLife);
  CHECK(certificate_end_s(first.server.certificate) == kNow + kLife);
  CHECK(is_signed_by(first.server.certificate, first.authorities));
  CHECK(from_secret_data(secret_data(first)) == first);
}

TEST_CASE("nothing is done before a third of the life is left; then the same authority signs") {
  const ServerCertificates first = made(kNow);
  CHECK(!renewed(first, kNeeds, kNow));
  CHECK(!renewed(first, kNeeds, kNow + kLife * 2 / 3));
  const auto next = renewed(first, kNeeds, kNow + kLife * 2 / 3 + 1);
  REQUIRE(next);
  CHECK(next->authorities == first.authorities);
  CHECK(next->server.certificate != first.server.certificate);
  CHECK(is_signed_by(next->server.certificate, next->authorities));
}

TEST_CASE("a new authority comes before the old one ends, which is believed while it holds") {
  ServerCertificates now = made(kNow);
  const std::string first_authority = now.authorities;
  const std::string first_server = now.server.certificate;
  size_t most = 0;
  for (double at = kNow; at < kNow + 20 * kLife; at += kLife / 20) {
    const ServerCertificates before = now;
    if (const auto next = renewed(now, kNeeds, at)) now = *next;
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
  const ServerCertificates first = made(kNow), other = made(kNow);
  for (const ServerCertificates& broken :
       {ServerCertificates{}, ServerCertificates{"x", "y", {"z", ""}},
        ServerCertificates{first.authorities, "no key", {}},
        ServerCertificates{first.authorities, other.authority_key, {}},
        ServerCertificates{first.authorities, first.authority_key, other.server}}) {
    const auto next = renewed(broken, kNeeds, kNow);
    REQUIRE(next);
    CHECK(is_signed_by(next->server.certificate, next->authorities));
    CHECK(!renewed(*next, kNeeds, kNow));
  }
  CHECK(from_secret_data(Json()) == ServerCertificates{});
  CHECK(from_secret_data({{"ca.crt", "not base64!"}, {"tls.key", 3}}) == ServerCertificates{});
  CHECK(!certificate_end_s("nothing"));
  CHECK_ERROR(make_server_certificate({"x", "y"}, kNeeds.hosts, kNow, kLife), "PEM");
}

}  // namespace certificates_test
