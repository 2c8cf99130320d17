#include "runtime/gns/decay.h"

namespace adaptdl::gns {

double decay(double x) {
  if (!(x < 750)) return 0;  // smaller than any number
  int squarings = 0;
  for (; x > 1.0 / 64; x /= 2) ++squarings;
  // Taylor: the next term is below 1e-19.
  double result = 1;
  for (int i = 7; i >= 1; --i) result = 1 - x / i * result;
  for (; squarings > 0; --squarings) result *= result;
  return result;
}

}  // namespace adaptdl::gns
