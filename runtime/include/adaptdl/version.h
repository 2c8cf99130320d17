#pragma once

// The version of this interface: that of adaptdl. What may change from one to the next is said in
// adaptdl-runtime(3).

#include <torch/version.h>

#define ADAPTDL_VERSION_MAJOR 0
#define ADAPTDL_VERSION_MINOR 1
#define ADAPTDL_VERSION_PATCH 0

// The layout of tensors and what LibTorch's functions return may change with its minor version, so
// a program and this library must be compiled with the same one. When the linker misses this
// function, they are not: build adaptdl with -Dlibtorch=DIR of the LibTorch that its name tells.
#define ADAPTDL_JOIN_TEXTS(prefix, major, minor) prefix##major##_##minor
#define ADAPTDL_LIBRARY_FOR(major, minor) ADAPTDL_JOIN_TEXTS(library_for_libtorch_, major, minor)

namespace adaptdl {

bool ADAPTDL_LIBRARY_FOR(TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR)();

inline const bool kSameLibTorch = ADAPTDL_LIBRARY_FOR(TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR)();

}  // namespace adaptdl
