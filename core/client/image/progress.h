#pragma once

#include <cstdint>
#include <string>

#include "core/base/clock.h"
#include "core/oci/transport.h"

namespace adaptdl::client {

// A progress line about the present blob, on a terminal only. Cleared at the end.
class ImageProgress {
 public:
  explicit ImageProgress(bool hidden);
  ~ImageProgress() { end(); }
  ImageProgress(const ImageProgress&) = delete;
  ImageProgress& operator=(const ImageProgress&) = delete;

  void update(const oci::BlobProgress& blob);
  // `what`: the activity, such as "packing LibTorch".
  void update(const std::string& what, uint64_t bytes, uint64_t size);
  void end();

 private:
  bool shown_, drawn_ = false;
  TimePoint last_{};
};

}  // namespace adaptdl::client
