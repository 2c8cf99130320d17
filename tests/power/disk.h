#pragma once

// A disk whose power may fail: from the records of what programs did, the trees that it may hold
// after them.
//
// What is synced is there. Of the rest, each file holds none, all, a beginning (whose last write
// may be torn) or some of its writes since its last sync; each folder holds none, all or a
// beginning of the changes of its names since its own last sync. A rename between two folders
// happens in both or in neither, and is durable with either. A synced file without a synced name
// has no name.

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/power/log.h"

namespace power {

class Disk {
 public:
  // The next record; marks change nothing. The record must outlive the disk. Throws
  // std::runtime_error if it cannot have happened after the earlier ones.
  void apply(const Record& record);

  // Writes one of the possible trees into the new folder `path`: with `seed` 0 the one without
  // anything that was not synced, with 1 the one with everything.
  void write_image(const std::string& path, uint64_t seed) const;

 private:
  using Names = std::map<std::string, size_t>;  // -> index in objects_
  struct Object {
    enum class Kind { file, folder, symlink } kind = Kind::file;
    std::string bytes;                    // on the disk; a symlink's target
    std::vector<const Record*> unsynced;  // of a file
    Names names;                          // on the disk
  };
  // A change of names that no sync has made durable.
  struct Change {
    const Record* record;
    size_t folder, folder2, object;  // folder2: the same one, but for renames between folders
  };
  using Random = std::mt19937_64;

  size_t at(uint64_t inode) const;
  size_t add(uint64_t inode, Object::Kind kind);
  void note(const Record& record, size_t object);
  void sync_folder(size_t folder);
  static void change(std::map<size_t, Names>& names, const Change& change);
  std::map<size_t, Names> names_after(Random& random, int mode) const;
  static std::string bytes_after(const Object& file, Random& random, int mode);

  std::vector<Object> objects_;
  std::map<uint64_t, size_t> by_inode_;
  std::vector<Change> changes_;
};

}  // namespace power
