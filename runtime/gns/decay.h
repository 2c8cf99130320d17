#pragma once

namespace adaptdl::gns {

// e^-x for x >= 0, with a relative error below 1e-14 (1 + x). Made of additions, multiplications
// and divisions only, so that every processor that runs this program gets the same bits: replicas
// compare what follows from it. The C library's exp has other code, with other results, for
// processors that multiply and add at once.
double decay(double x);

}  // namespace adaptdl::gns
