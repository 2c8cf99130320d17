#pragma once

// What an image needs so that `adaptdl run train.pt` works in it: LibTorch, and the libraries that
// it and the worker are linked with.

#include <string>
#include <vector>

#include "core/client/image/shared_libraries.h"
#include "core/launch/run/libtorch.h"
#include "core/oci/tar.h"

namespace adaptdl::client {

// LibTorch's folder in an image, which ADAPTDL_LIBTORCH names there. Not in the folder of projects,
// which may have one of that name.
inline constexpr const char* kLibTorchPlace = "/adaptdl-libtorch";

struct TrainingFiles {
  launch::LibTorch libtorch;
  bool cuda = false;   // with all that a GPU needs but the driver
  uint64_t bytes = 0;  // of LibTorch's files
  // LibTorch's own, with the libraries that were installed with it. Nothing else tells on them: the
  // same LibTorch gives the same layer.
  std::vector<oci::TarEntry> own;
  // Of the system: those which lie beside LibTorch's, and, at the places that they have here, parts
  // of the C library.
  std::vector<oci::TarEntry> system, c_library;
  std::string worker;                 // the file of ADAPTDL_WORKER; "": the one in this program
  std::vector<std::string> warnings;  // sentences
};

// With the LibTorch that `adaptdl run` takes. `folder` is for the worker's bytes. Without all that
// its CUDA half needs, that half is left out, with a warning. Throws Error without a worker,
// without a LibTorch that can be used, and for a library that is not found.
TrainingFiles find_training_files(const std::string& folder);

// The libraries of a list, put where they belong: for find_training_files(), and tests. `root` is
// LibTorch's folder.
void add_libraries(const std::vector<NeededLibrary>& libraries, const std::string& root,
                   TrainingFiles& files);

}  // namespace adaptdl::client
