#include "core/job/accelerators.h"

#include <doctest/doctest.h>
#include <string>

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
  CHECK(accelerators_problem({}).empty());
  CHECK(accelerators_problem({"fast"}).empty());
  CHECK(accelerators_problem({"*A100*", "NVIDIA H200"}).empty());
  Accelerators many(kMostAccelerators, "a");
  CHECK(accelerators_problem(many).empty());
  many.push_back("a");
  for (const Accelerators& wrong :
       {Accelerators{""}, Accelerators{"a", ""}, many,
        Accelerators{std::string(kLongestAccelerator + 1, 'a')}, Accelerators{"a,b"}}) {
    CAPTURE(wrong.front());
    CHECK_FALSE(accelerators_problem(wrong).empty());
  }
}
