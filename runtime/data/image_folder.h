#pragma once

#include <string_view>
#include <vector>

#include "runtime/data/blobs.h"

namespace adaptdl::data {

// The JPEG and PNG images below a folder, ordered by name, folder by folder: bytewise, so that
// every machine has them in the same order. Names are listed once; of files nothing else is looked
// at. Folders behind symlinks count. Names that begin with a dot do not, nor do files that are no
// images; images of other formats are an error.
class ImageFolder : public Blobs {
 public:
  // Throws Error: no such folder, no images, a format that is not read, a cycle of symlinks.
  explicit ImageFolder(const std::string& path);

  int64_t size() const override { return static_cast<int64_t>(ends_.size()); }
  uint64_t content() const override { return content_; }
  std::string name(int64_t i) const override;
  FileBytes read(int64_t i) const override { return read_data_file(name(i), kMaxBlob); }

  // The names of the folders in this one, in order; their numbers are the classes of their images.
  const std::vector<std::string>& classes() const { return classes_; }

  // The class of each image, int64. Throws Error if an image is in no class, or a class has no
  // images.
  Array labels() const;

 private:
  struct Walk;

  std::string_view place(size_t i) const;  // of an image below the folder

  std::string path_, paths_;    // paths_: below the folder, one after another
  std::vector<uint64_t> ends_;  // of each in paths_
  std::vector<std::string> classes_;
  std::vector<int64_t> starts_;  // the first image of each class
  uint64_t content_ = 0;         // of names alone
};

}  // namespace adaptdl::data
