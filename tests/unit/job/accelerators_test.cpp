#include "core/job/accelerators.h"

#include <doctest/doctest.h>
#include <string>

#include "core/base/error.h"

using namespace adaptdl;

TEST_CASE("kinds are named as a shell names files, in either case of letters") {
  CHECK(among({}, "NVIDIA-A100-SXM4-80GB"));
  CHECK(among({}, ""));
  CHECK(among({"*a100*"}, "NVIDIA-A100-SXM4-80GB"));
  CHECK(among({"*V100*", "nvidia h200"}, "NVIDIA H200"));
  CHECK(among({"NVIDIA-A?00-[PS]*"}, "NVIDIA-A100-SXM4-80GB"));
  CHECK_FALSE(among({"A100"}, "NVIDIA-A100-SXM4-80GB"));
  CHECK_FALSE(among({"*V100*", "*T4*"}, "NVIDIA-A100-SXM4-80GB"));
  CHECK_FALSE(among({"*"}, ""));  // a kind that is not known
}

TEST_CASE("a list of kinds") {
  CHECK(parse_accelerators("fast") == Accelerators{"fast"});
  CHECK(parse_accelerators("*A100*,NVIDIA H200") == Accelerators{"*A100*", "NVIDIA H200"});
  std::string many = "a";
  for (size_t i = 1; i < kMostAccelerators; ++i) many += ",a";
  CHECK(parse_accelerators(many).size() == kMostAccelerators);
  for (const std::string& wrong :
       {std::string(), std::string("a,"), many + ",a", std::string(kLongestAccelerator + 1, 'a')}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_accelerators(wrong), Error);
  }
  CHECK_THROWS_AS(check_accelerators({"a,b"}), Error);
}
