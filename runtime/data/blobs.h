#pragma once

// Samples that are stored one by one, as files or as parts of files, and the columns over them.

#include <cstdint>
#include <memory>
#include <string>

#include "core/job/training_spec.h"
#include "runtime/data/dataset.h"
#include "runtime/data/file_read.h"

namespace adaptdl::data {

// What is larger is no sample of ours: reading it takes memory at once.
constexpr size_t kMaxBlob = size_t{1} << 30;  // bytes

// Immutable, for any thread.
class Blobs {
 public:
  virtual ~Blobs() = default;
  Blobs(const Blobs&) = delete;
  Blobs& operator=(const Blobs&) = delete;

  virtual int64_t size() const = 0;      // samples, >= 1
  virtual uint64_t content() const = 0;  // as Column's

  // Requires, here and below: 0 <= i < size().
  virtual std::string name(int64_t i) const = 0;  // for messages

  // The bytes of a sample, kMaxBlob at most. Throws ReadFailed, DataChanged, and Error for what is
  // too large.
  virtual FileBytes read(int64_t i) const = 0;

 protected:
  Blobs() = default;
};

// A column over blobs of one kind; `name` names it in messages. Each throws Error if the settings
// do not fit it. Errors about a sample come from copy_rows(), and name the sample.

// Images, decoded, and scaled and cut to the settings' shape (formats/image.h).
std::shared_ptr<const Column> make_image_column(std::shared_ptr<const Blobs> blobs,
                                                const std::string& name, const DataSource& source);

// Integers as text; int64 unless the settings say otherwise.
std::shared_ptr<const Column> make_integer_column(std::shared_ptr<const Blobs> blobs,
                                                  const std::string& name,
                                                  const DataSource& source);

// NumPy's arrays, all of the type and shape of the first one, which is read here.
std::shared_ptr<const Column> make_npy_column(std::shared_ptr<const Blobs> blobs,
                                              const std::string& name, const DataSource& source);

}  // namespace adaptdl::data
