#include <set>

#include "core/base/crypto.h"
#include "core/formats/base64.h"
#include "core/formats/crc32c.h"
#include "tests/unit/base/expect_error.h"

namespace adaptdl {

TEST_CASE("HMAC-SHA256 and SHA-256 give the published values") {
  // RFC 4231, test cases 1, 2 and 6.
  const std::vector<uint8_t> key(20, 0x0b);
  CHECK(to_hex(hmac_sha256(key, bytes_of("Hi There"))) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(to_hex(hmac_sha256(bytes_of("Jefe"), bytes_of("what do ya want for nothing?"))) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  const std::vector<uint8_t> long_key(131, 0xaa);
  CHECK(to_hex(hmac_sha256(long_key,
                           bytes_of("Test Using Larger Than Block-Size Key - Hash Key First"))) ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  CHECK(to_hex(hmac_sha256({}, {})) ==
        "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
  CHECK(to_hex(sha256(bytes_of("abc"))) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("comparison looks at every byte and at the length") {
  CHECK(equal_constant_time(bytes_of("abc"), bytes_of("abc")));
  CHECK(equal_constant_time({}, {}));
  CHECK_FALSE(equal_constant_time(bytes_of("abc"), bytes_of("abd")));
  CHECK_FALSE(equal_constant_time(bytes_of("abc"), bytes_of("ab")));
}

TEST_CASE("random bytes differ") {
  std::set<std::vector<uint8_t>> seen;
  for (int i = 0; i < 100; ++i) seen.insert(random_bytes(16));
  CHECK(seen.size() == 100);
}

TEST_CASE("hexadecimal goes there and back") {
  const std::vector<uint8_t> bytes = {0, 1, 0x7f, 0xff};
  CHECK(to_hex(bytes) == "00017fff");
  CHECK(from_hex("00017FfF", "x") == bytes);
  CHECK_ERROR(from_hex("0", "secret"), "secret: an odd number");
  CHECK_ERROR(from_hex("0g", "secret"), "secret: not hexadecimal");
}

TEST_CASE("CRC-32C gives the published values, in one piece or in several") {
  CHECK(crc32c("123456789") == 0xe3069283u);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aau);  // RFC 3720 B.4
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43u);
  CHECK(crc32c("") == 0);
  CHECK(masked_crc32c(crc32c("foo")) != crc32c("foo"));
  const auto random = random_bytes(1000);
  const auto bytes = std::as_bytes(std::span(random));
  for (size_t cut = 0; cut < 100; ++cut) {
    const uint32_t whole = crc32c(bytes.subspan(cut));
    CHECK(whole == crc32c_portable(bytes.subspan(cut)));
    CHECK(whole == crc32c(bytes.subspan(2 * cut), crc32c(bytes.subspan(cut, cut))));
    CHECK(whole ==
          crc32c_portable(bytes.subspan(2 * cut), crc32c_portable(bytes.subspan(cut, cut))));
  }
}

TEST_CASE("base64 gives the published values, both ways") {
  // RFC 4648, section 10.
  const std::pair<const char*, const char*> values[] = {{"", ""},
                                                        {"f", "Zg=="},
                                                        {"fo", "Zm8="},
                                                        {"foo", "Zm9v"},
                                                        {"foob", "Zm9vYg=="},
                                                        {"fooba", "Zm9vYmE="},
                                                        {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, coded] : values) {
    CHECK(to_base64(plain) == coded);
    CHECK(from_base64(coded, "t") == plain);
  }
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  CHECK(from_base64(to_base64(all), "t") == all);
  CHECK(from_base64("Zm9v\r\n YmFy\n", "t") == "foobar");
  for (const char* wrong : {"Zg", "Zg=", "Z===", "Zm9v=", "Z", "Zg==Zg==", "Zm-v", "Zm9v\x80zzz"}) {
    CAPTURE(wrong);
    CHECK_ERROR(from_base64(wrong, "the key"), "the key: not valid base64");
  }
}

}  // namespace adaptdl
