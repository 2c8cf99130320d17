#include "core/base/file_pattern.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/base/files.h"

using adaptdl::Error;
using adaptdl::expand_pattern;
using Paths = std::vector<std::string>;

TEST_CASE("patterns: braces as in a shell") {
  CHECK(expand_pattern("a/b") == Paths{"a/b"});
  CHECK(expand_pattern("s-{09..11}.tar") == Paths{"s-09.tar", "s-10.tar", "s-11.tar"});
  CHECK(expand_pattern("s-{2..1}") == Paths{"s-1", "s-2"});
  CHECK(expand_pattern("{b,a}{1..2}") == Paths{"a1", "a2", "b1", "b2"});
  CHECK(expand_pattern("{a,{b,c}d,}") == Paths{"", "a", "bd", "cd"});
  CHECK(expand_pattern("{a,a}") == Paths{"a"});
  for (const char* literal : {"{a}", "{", "}{", "{1..}", "{..}", "{a..c}", "{1..2"}) {
    CHECK(expand_pattern(literal) == Paths{literal});
  }
  CHECK_THROWS_AS(expand_pattern("{0..1000000}"), Error);
  CHECK_THROWS_AS(expand_pattern("{0..9999}{0..9999}"), Error);
}

TEST_CASE("patterns: names on the disk") {
  const adaptdl::TemporaryDirectory folder;
  for (const char* name : {"b.tar", "a.tar", "a.txt", "c.tar"}) {
    adaptdl::write_file_atomic(folder.file(name), "");
  }
  CHECK(expand_pattern(folder.file("*.tar")) ==
        Paths{folder.file("a.tar"), folder.file("b.tar"), folder.file("c.tar")});
  CHECK(expand_pattern(folder.file("{[bc].tar,a.???}")) ==
        Paths{folder.file("a.tar"), folder.file("a.txt"), folder.file("b.tar"),
              folder.file("c.tar")});
  CHECK_THROWS_AS(expand_pattern(folder.file("{*.tar,*.zip}")), Error);
  // A folder's name is no pattern, nor is the name of a file that exists.
  const std::string odd = folder.file("r[1]{a,b}*\\");
  adaptdl::make_directories(odd + "/s");
  for (const char* name : {"/s/0.tar", "/s/1.tar", "/x[1].tar", "/{0..1}.tar"}) {
    adaptdl::write_file_atomic(odd + name, "");
  }
  CHECK(expand_pattern("s/?.tar", odd) == Paths{odd + "/s/0.tar", odd + "/s/1.tar"});
  CHECK(expand_pattern("s/{1..2}.tar", odd) == Paths{odd + "/s/1.tar", odd + "/s/2.tar"});
  CHECK(expand_pattern("x[1].tar", odd) == Paths{odd + "/x[1].tar"});
  CHECK(expand_pattern("{0..1}.tar", odd) == Paths{odd + "/{0..1}.tar"});
  CHECK(expand_pattern(folder.file("a.*"), odd) ==
        Paths{folder.file("a.tar"), folder.file("a.txt")});
  CHECK(adaptdl::is_pattern("a{0..1}"));
  CHECK_FALSE(adaptdl::is_pattern("a-b_c.d"));
}
