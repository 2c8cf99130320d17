// vectors KIND FILE [DATA]: checks this implementation against numbers in FILE. DATA stands in for
// $ADAPTDL_TEST_DATA, a folder whose data some kinds need.
//
// Prints for each section how many cases there were, the largest error, and where it was; what is
// beyond the tolerance goes to stderr. Exit code 0: all within it; 1: not, or the file cannot be
// read; 2: wrong usage; 77: this build cannot check that kind.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/formats/json.h"
#include "tests/vectors/kinds.h"

namespace {

using adaptdl::vectors::check_goodput;
using adaptdl::vectors::check_pollux;
using adaptdl::vectors::check_sia;
using adaptdl::vectors::check_sim;
using adaptdl::vectors::check_sim_delaunay;
#ifdef ADAPTDL_VECTORS_TORCH
constexpr auto* kCheckStatistics = adaptdl::vectors::check_gradient_statistics;
#else
constexpr bool (*kCheckStatistics)(const nlohmann::json&) = nullptr;
#endif

struct Kind {
  const char* name;
  bool (*check)(const nlohmann::json&);  // null: needs LibTorch, which this build has not
  const char* about;
};

constexpr Kind kKinds[] = {
    {"goodput", check_goodput, "goodput, choice of batch, and fit of step times"},
    {"pollux", check_pollux, "objective of the policy pollux, and what its search reaches"},
    {"sia", check_sia, "values of a job's configurations, and assignments with proven optima"},
    {"gns-k1", kCheckStatistics, "gradient statistics and learning rates, one replica"},
    {"gns-k2", kCheckStatistics, "the same, two replicas"},
    {"sim", check_sim, "simulated step times and jobs; needs DATA"},
    {"sim-delaunay", check_sim_delaunay, "triangulations of measured step times; needs DATA"},
};

int usage() {
  fmt::print(stderr, "usage: vectors KIND FILE [DATA]\nkinds:\n");
  for (const auto& kind : kKinds) fmt::print(stderr, "  {:<12} {}\n", kind.name, kind.about);
  return 2;
}

int check(const Kind& kind, const std::string& path) {
  if (!kind.check) {
    fmt::print(stderr, "{}: this build has no LibTorch; configure with -Dlibtorch=DIR\n",
               kind.name);
    return 77;
  }
  constexpr size_t kLargest = 256u << 20;
  const auto file = adaptdl::parse_json(adaptdl::read_file(path, kLargest), path,
                                        adaptdl::JsonLimits{kLargest, 64});
  const bool passed = kind.check(file);
  fmt::print("{}\n", passed ? "passed" : "FAILED");
  return passed ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return usage();
  if (argc == 4) setenv("ADAPTDL_TEST_DATA", argv[3], 1);
  for (const auto& kind : kKinds) {
    if (std::strcmp(kind.name, argv[1]) != 0) continue;
    try {
      return check(kind, argv[2]);
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}: {}\n", argv[2], error.what());
      return 1;
    }
  }
  fmt::print(stderr, "unknown kind \"{}\"\n", argv[1]);
  return usage();
}
