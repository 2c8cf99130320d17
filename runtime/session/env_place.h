#pragma once

// The ADAPTDL_* variables as a place among replicas.

#include "runtime/standalone/place.h"

namespace adaptdl {

// Throws Error for a variable that is not valid.
standalone::Place place_from_environment();

}  // namespace adaptdl
