#include "runtime/gns/decay.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>

namespace adaptdl::gns {

TEST_CASE("decay is e^-x") {
  CHECK(decay(0) == 1);
  for (double x = 1e-12; x < 700; x *= 1.07) {
    CHECK(std::abs(decay(x) / std::exp(-x) - 1) < 1e-14 * (1 + x));
    CHECK(decay(x) <= 1);
  }
  CHECK(decay(1e300) == 0);
  CHECK(decay(std::numeric_limits<double>::infinity()) == 0);
}

TEST_CASE("decay has the same bits everywhere") {
  CHECK(decay(0.75) == 0x1.e3b40ebefcd92p-2);
  CHECK(decay(12.5) == 0x1.f42ed3f68e6c4p-19);
}

}  // namespace adaptdl::gns
