#include "core/formats/csv.h"

#include <doctest/doctest.h>

#include "tests/unit/base/expect_error.h"

using namespace adaptdl;

namespace {

CsvTable table(const std::string& text, CsvLimits limits = {}) {
  return {text, "jobs.csv", {"name", "time"}, limits};
}

}  // namespace

TEST_CASE("a table is read by the names of its columns") {
  const CsvTable read = table("\xef\xbb\xbftime, name\r\n1.5,a\r\n\r\n-3,\"b, c\"\n");
  REQUIRE(read.rows() == 2);
  CHECK(read.text(0, "name") == "a");
  CHECK(read.number(0, "time") == 1.5);
  CHECK(read.text(1, "name") == "b, c");
  CHECK(read.integer(1, "time") == -3);
}

TEST_CASE("a table that is copied or moved keeps its text") {
  CsvTable first = table("name,time\na,1\n");
  const CsvTable copy = first;
  const CsvTable moved = std::move(first);
  CHECK(copy.text(0, "name") == "a");
  CHECK(moved.text(0, "name") == "a");
}

TEST_CASE("what is wrong with a table is told with its line") {
  CHECK_ERROR(table(""), "jobs.csv: is empty");
  CHECK_ERROR(table(" \n\n"), "jobs.csv: is empty");
  CHECK_ERROR(table("name,time\n"), "jobs.csv: has no row below its header");
  CHECK_ERROR(table("\nname\na\n"), "jobs.csv:2: time: the header lacks this column");
  CHECK_ERROR(table("name,time,size\na,1,2\n"),
              "jobs.csv:1: size: unknown column; known columns: name, time");
  CHECK_ERROR(table("name,time,name\na,1,2\n"), "jobs.csv:1: name: the header names this column");
  CHECK_ERROR(table("name,time\na,1\nb\n"),
              "jobs.csv:3: the row has 1 fields; the header names 2 columns");
  CHECK_ERROR(table("name,time\n\"a,1\n"), "jobs.csv:2: a quote is not closed");
  CHECK_ERROR(table("name,time\n" + std::string(100, ',')), "more than 64 fields");
  CHECK_ERROR(table("name,time\na,1\n", {.max_bytes = 10}), "jobs.csv: is too large");
  CHECK_ERROR(table("name,time\na,1\nb,1\n", {.max_rows = 1}), "jobs.csv:3: has too many rows");
}

TEST_CASE("text is UTF-8") {
  const CsvTable good = table("name,time\nJ\xc3\xbcrgen \xe2\x82\xac \xf0\x9f\x98\x80,1\n");
  CHECK(good.text(0, "name") == "J\xc3\xbcrgen \xe2\x82\xac \xf0\x9f\x98\x80");
  // Latin-1, a lone continuation, overlong, a surrogate, beyond Unicode, cut short.
  for (const std::string bad : {"J\xfcrgen", "\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80",
                                "\xf4\x90\x80\x80", "a\xe2\x82"}) {
    const CsvTable read = table("name,time\n" + bad + ",1\n");
    CHECK_ERROR(read.text(0, "name"), "jobs.csv:2: name: is not UTF-8");
  }
}

TEST_CASE("a value that is not allowed is told with its column") {
  const CsvTable read = table("name,time\n,1e3\na\"\"b,x\n\"x\"\"y\",-1\nc,inf\nd,nan\n" +
                              ("e," + std::string(50, '0')) + "x\n");
  CHECK_ERROR(read.text(0, "name"), "jobs.csv:2: name: is empty");
  CHECK_ERROR(read.integer(0, "time"), "jobs.csv:2: time: '1e3' is not allowed");
  CHECK_ERROR(read.number(1, "time"), "jobs.csv:3: time: 'x' is not allowed");
  CHECK_ERROR(read.text(2, "name"), "jobs.csv:4: name: contains a quote");
  CHECK_ERROR(read.number(2, "time", 0), "a number of at least 0");
  CHECK_ERROR(read.integer(2, "time", 0, 9), "from 0 to 9");
  CHECK_ERROR(read.number(3, "time"), "jobs.csv:5: time");
  CHECK_ERROR(read.number(4, "time"), "jobs.csv:6: time");
  CHECK_ERROR(read.number(5, "time"), "...' is not a number");
}
