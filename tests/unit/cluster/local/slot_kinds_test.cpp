#include "core/cluster/local/slot_kinds.h"

#include <doctest/doctest.h>
#include <string>

#include "core/base/error.h"

using namespace adaptdl;
using namespace adaptdl::local;
using Kinds = std::vector<std::string>;

TEST_CASE("slots as a user counts them") {
  CHECK(parse_slot_counts("4") == SlotCounts{{"", 4}});
  CHECK(parse_slot_counts("fast=2,slow=6") == SlotCounts{{"fast", 2}, {"slow", 6}});
  CHECK(parse_slot_counts("a=b=1,NVIDIA H200=1") == SlotCounts{{"a=b", 1}, {"NVIDIA H200", 1}});
  CHECK(parse_slot_counts("1023=1023,1=1").size() == 2);
  for (const std::string wrong :
       {"", "0", "-1", "1025", "x", "2,3", "=2", "a=", "a=0", "a=1,", "a=1,2", "a=1,a=2",
        "a=1000,b=25", "a=99999999999", "a\n=1", "a=1, b=1", "a+b=1"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_slot_counts(wrong), Error);
  }
  CHECK_THROWS_AS(parse_slot_counts(std::string(65, 'x') + "=1"), Error);
  CHECK_THROWS_AS(check_slot_counts({{"", 1}, {"a", 1}}), Error);
}

TEST_CASE("the kinds of GPUs, by number or by UUID") {
  std::vector<Gpu> all(3);
  all[0] = {.name = "small", .uuid = "GPU-0"};
  all[1] = {.name = "large", .uuid = "GPU-1"};
  all[2] = {.name = "large", .uuid = "GPU-2", .divided = true, .parts = {"MIG-a", "MIG-b"}};
  CHECK(gpu_kinds({"1", "0"}, all, true) == Kinds{"large", "small"});
  CHECK(gpu_kinds({"GPU-1", "GPU-0"}, all, false) == Kinds{"large", "small"});
  // By default CUDA numbers the fastest first, and does not say which that is.
  CHECK(gpu_kinds({"GPU-1", "0"}, all, false).empty());
  CHECK(gpu_kinds({"3"}, all, true).empty());
  CHECK(gpu_kinds({"GPU-7"}, all, true).empty());
  for (const std::string part : {"MIG-a", "GPU-2", "2"})
    CHECK(gpu_kinds({part}, all, true).empty());
}
