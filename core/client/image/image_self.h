#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/client/image/image_torch.h"
#include "core/oci/image.h"

namespace adaptdl::client {

// This program's place in such images.
inline constexpr const char* kProgramPlace = "/adaptdl-app/adaptdl";

// The tag by which `submit` looks for an image to train in, in the repository of the project's.
inline constexpr const char* kTrainingTag = "torch";

// Adds this very program as kProgramPlace, the image's entry point. An image of nothing
// also gets, in a layer of their own, the shared libraries that this process uses, their loader
// and the certificates of authorities. With `training` there is a layer of LibTorch below the
// program's, and ADAPTDL_LIBTORCH is set; `packed` hears how many of its bytes have been packed.
// `folder` keeps the layers' files. Throws Error if they cannot be read.
void append_this_program(oci::Image& image, const std::string& folder,
                         const TrainingFiles* training = nullptr,
                         const std::function<void(uint64_t)>& packed = {});

}  // namespace adaptdl::client
