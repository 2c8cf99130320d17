#pragma once

#include <map>
#include <string_view>
#include <sys/stat.h>
#include <vector>

#include "runtime/data/blobs.h"
#include "runtime/data/fingerprint.h"

namespace adaptdl::data {

// Samples in tar files, as WebDataset stores them: successive members whose names are equal up to
// the first dot of their last part are one sample, and what follows that dot (in small letters) is
// the kind of the member. Names that begin with a dot or have none do not count. Immutable, for any
// thread.
class TarShards {
 public:
  // Reads the headers of all files that `pattern` stands for below `folder`
  // (core/base/file_pattern.h), in bytewise order of their paths. Throws Error: no such file, a
  // damaged file, no samples, two members of a kind in a sample.
  TarShards(const std::string& pattern, const std::string& folder);

  // The members of a kind, one of each sample. Throws Error that names a sample that has none.
  // `shards` must be this object.
  static std::shared_ptr<const Blobs> members(std::shared_ptr<const TarShards> shards,
                                              const std::string& kind);

 private:
  struct Shard {
    std::string path;
    struct stat opened;
  };
  struct Place {
    uint64_t header, content, size;
    uint32_t shard;
  };
  struct Kind {
    std::vector<Place> places;  // of the members of all samples before the first that has none
    std::string missing;        // that sample, for a message; "": there is none
  };
  class Members;

  void index(uint32_t shard);
  void finish_sample(const std::string& sample);

  std::string name_;  // for messages
  std::vector<Shard> shards_;
  std::map<std::string, Kind, std::less<>> kinds_;
  size_t samples_ = 0;
  std::string first_sample_;
  Digest digest_;  // of the names and sizes of files and members
};

}  // namespace adaptdl::data
