#pragma once

// Kubernetes quantities: 500m, 2, 1.5Gi, 1e3. Pure functions.
//
// A decimal number with an optional sign, then nothing, one of n u m k M G T P E (powers of 1000
// from 1000^-3), Ki Mi Gi Ti Pi Ei (of 1024), or e or E and an exponent. Letter case matters: m is
// a thousandth, M a million.

#include <cstdint>
#include <string_view>

namespace adaptdl {

// The quantity in whole units, and in thousandths, rounded up as Kubernetes rounds. Throws Error
// "WHERE: ..." with what is allowed if the text is not a quantity, is negative, or does not fit.
int64_t parse_quantity(std::string_view text, std::string_view where);
int64_t parse_quantity_milli(std::string_view text, std::string_view where);

}  // namespace adaptdl
