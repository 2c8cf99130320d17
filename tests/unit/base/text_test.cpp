#include "core/base/text.h"

#include <doctest/doctest.h>

namespace adaptdl {
namespace {

TEST_CASE("parts between separators") {
  CHECK(split("", ',') == std::vector<std::string>{""});
  CHECK(split("a,,b,", ',') == std::vector<std::string>{"a", "", "b", ""});
}

TEST_CASE("control characters become blanks") {
  CHECK(without_controls("a\tb\x1b[1m\x7f\xc3\x84") == "a b [1m \xc3\x84");
  CHECK(without_controls("a\xc2\x9b"
                         "31m\xc2\xa0\xc2") == "a  31m\xc2\xa0\xc2");
  CHECK(utf8_prefix("a\xc3\x84"
                    "b",
                    4) ==
        "a\xc3\x84"
        "b");
  CHECK(utf8_prefix("a\xc3\x84"
                    "b",
                    3) == "a\xc3\x84");
  CHECK(utf8_prefix("a\xc3\x84"
                    "b",
                    2) == "a");
  CHECK(utf8_prefix("\x84\x84", 1).empty());
}

TEST_CASE("lower case changes A to Z and nothing else") {
  CHECK(lower_case("Content-LENGTH [\x41\\]{z}\xc3\x84") == "content-length [a\\]{z}\xc3\x84");
}

TEST_CASE("edit distance") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("run", "run") == 0);
  CHECK(edit_distance("rnu", "run") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("sitting", "kitten") == 3);
}

TEST_CASE("suggestions") {
  CHECK(nearest_name("inpsect", {"init", "inspect", "ls"}) == "inspect");
  CHECK(nearest_name("checkpoint", {"checkpoint-dir", "name"}) == "checkpoint-dir");
  CHECK(nearest_name("xyz", {"init", "ls"}).empty());
  CHECK(nearest_name("l", {"ls"}) == "ls");
}

TEST_CASE("blanks at the ends are left out, those between words are not") {
  CHECK(trimmed(" \t a b\r\n") == "a b");
  CHECK(trimmed("a") == "a");
  CHECK(trimmed(" \n").empty());
  CHECK(trimmed("").empty());
  CHECK(trimmed("-a b ", "-") == "a b ");
}

TEST_CASE("no name is meant by a word that shares nothing with it, or by a very long one") {
  CHECK(nearest_name("x", {"y"}).empty());
  CHECK(nearest_name("", {"ls"}).empty());
  const std::string letters(101, 'a');
  CHECK(nearest_name(letters, {letters}).empty());
}

}  // namespace
}  // namespace adaptdl
