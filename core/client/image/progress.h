#pragma once

#include <cstdint>
#include <string>

#include "core/base/clock.h"
#include "core/oci/transport.h"

namespace adaptdl::client {

// One line about the blob on its way that moves on a terminal; nothing elsewhere. Goes away at the
// end.
class ImageProgress {
 public:
  explicit ImageProgress(bool hidden);
  ~ImageProgress() { end(); }
  ImageProgress(const ImageProgress&) = delete;
  ImageProgress& operator=(const ImageProgress&) = delete;

  void update(const oci::BlobProgress& blob);
  // `what` is being done: "packing LibTorch".
  void update(const std::string& what, uint64_t bytes, uint64_t size);
  void end();

 private:
  bool shown_, drawn_ = false;
  TimePoint last_{};
};

}  // namespace adaptdl::client
