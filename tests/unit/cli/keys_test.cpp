#include "cli/show/keys.h"

#include <doctest/doctest.h>

namespace adaptdl::cli {
namespace {

using Keys = std::vector<int>;

TEST_CASE("keys of usual terminals") {
  KeyReader reader;
  CHECK(reader.take("qj") == Keys{'q', 'j'});
  CHECK(reader.take("\x1b[A\x1bOB") == Keys{kKeyUp, kKeyDown});
  CHECK(reader.take("\x1b[5~\x1b[6~\x1b[H\x1b[4~") ==
        Keys{kKeyPageUp, kKeyPageDown, kKeyHome, kKeyEnd});
  CHECK(reader.take("\r\n") == Keys{kKeyEnter, kKeyEnter});
  CHECK_FALSE(reader.waits());
}

TEST_CASE("a sequence may come in parts") {
  KeyReader reader;
  CHECK(reader.take("\x1b").empty());
  CHECK(reader.waits());
  CHECK(reader.take("[").empty());
  CHECK(reader.take("B") == Keys{kKeyDown});
  CHECK_FALSE(reader.waits());
  CHECK(reader.expire().empty());
}

TEST_CASE("the escape key") {
  KeyReader reader;
  CHECK(reader.take("\x1b").empty());
  CHECK(reader.expire() == Keys{kKeyEscape});
  CHECK_FALSE(reader.waits());
  CHECK(reader.take("\x1bq") == Keys{kKeyEscape, 'q'});
  CHECK(reader.take("\x1b\x1b[A") == Keys{kKeyEscape, kKeyUp});
}

TEST_CASE("other bytes are no keys") {
  KeyReader reader;
  CHECK(reader.take("\x1b[1;5C\x1b[?62;c\t\x7f\xc3\xa4") == Keys{});
  CHECK(reader.take("\x1b[" + std::string(1000, '1')).size() > 1);  // no sequence is that long
  CHECK_FALSE(reader.waits());
}

}  // namespace
}  // namespace adaptdl::cli
