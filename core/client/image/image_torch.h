#pragma once

// The files that an image needs for `adaptdl run train.pt`: LibTorch, and the libraries that
// LibTorch and the worker are linked with.

#include <string>
#include <vector>

#include "core/client/image/shared_libraries.h"
#include "core/launch/run/libtorch.h"
#include "core/oci/tar.h"

namespace adaptdl::client {

// LibTorch's folder in an image, the value of ADAPTDL_LIBTORCH there. Not in the folder of
// projects, which may contain one of that name.
inline constexpr const char* kLibTorchPlace = "/adaptdl-libtorch";

struct TrainingFiles {
  launch::LibTorch libtorch;
  bool cuda = false;   // includes everything for GPUs except the driver
  uint64_t bytes = 0;  // of LibTorch's files
  // LibTorch's own files, and the libraries installed with it. The layer depends on nothing else:
  // the same LibTorch gives the same layer.
  std::vector<oci::TarEntry> own;
  // Libraries of the system: those placed beside LibTorch's, and parts of the C library, at the
  // same paths as here.
  std::vector<oci::TarEntry> system, c_library;
  std::string worker;                 // the path in ADAPTDL_WORKER; "": the embedded worker
  std::vector<std::string> warnings;  // sentences
};

// Uses the LibTorch that `adaptdl run` uses. `folder` is for the worker's bytes. Leaves out
// LibTorch's CUDA libraries, with a warning, if one of their dependencies is missing. Throws Error
// without a worker, without a usable LibTorch, and for a missing library.
TrainingFiles find_training_files(const std::string& folder);

// Assigns the libraries of a list to their places; for find_training_files(), and tests. `root` is
// LibTorch's folder.
void add_libraries(const std::vector<NeededLibrary>& libraries, const std::string& root,
                   TrainingFiles& files);

}  // namespace adaptdl::client
