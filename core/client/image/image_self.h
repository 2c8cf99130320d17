#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/client/image/image_torch.h"
#include "core/oci/image.h"

namespace adaptdl::client {

// Path of this program in such images.
inline constexpr const char* kProgramPlace = "/adaptdl-app/adaptdl";

// Tag of the image for training that `submit` looks for in the repository of the project's image.
inline constexpr const char* kTrainingTag = "torch";

// Adds this program as kProgramPlace, the image's entry point. An image from scratch also gets, in
// a layer of their own, the shared libraries that this process uses, their loader and the CA
// certificates. With `training`, a layer of LibTorch lies below the program's, and ADAPTDL_LIBTORCH
// is set; `packed` is called with the number of its bytes packed so far. `folder` keeps the layers'
// files. Throws Error if files cannot be read.
void append_this_program(oci::Image& image, const std::string& folder,
                         const TrainingFiles* training = nullptr,
                         const std::function<void(uint64_t)>& packed = {});

}  // namespace adaptdl::client
