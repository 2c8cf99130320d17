#pragma once

// The samples of a training program: columns of equal length, each one tensor of every sample.
//
// Uncompressed files are memory-mapped, so data may be larger than memory. A file must not change
// while it is in use (watched_file.h). All sizes from a file's header are checked against the
// file's size before memory is allocated.
// All objects here are immutable after construction: threads can share them without locks.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/job/training_spec.h"
#include "runtime/data/dtype.h"
#include "runtime/data/fingerprint.h"
#include "runtime/data/sampler.h"
#include "runtime/data/watched_file.h"

namespace adaptdl::data {

// An array as stored in a file: row-major, contiguous, possibly unaligned.
struct Array {
  std::string name;  // for messages: the path, and the member or key
  DType dtype = DType::float32;
  bool swapped = false;                     // big-endian elements
  std::vector<int64_t> shape;               // all dimensions, the samples first; each >= 0
  const std::byte* bytes = nullptr;         // product(shape) * size_of(dtype) bytes
  std::shared_ptr<const void> owner;        // keeps `bytes` valid: a mapping, a buffer, a tensor
  std::shared_ptr<const WatchedFile> file;  // where they come from; null: from no file
  uint64_t content = 0;                     // as Column's

  int64_t elements() const;      // product(shape); 1 for a scalar
  int64_t row_elements() const;  // product of all dimensions but the first; 0-d: 1
};

// One tensor of every sample.
class Column {
 public:
  virtual ~Column() = default;
  Column(const Column&) = delete;
  Column& operator=(const Column&) = delete;

  int64_t rows() const { return rows_; }
  DType dtype() const { return dtype_; }                        // never uint16 or uint32
  const std::vector<int64_t>& shape() const { return shape_; }  // of one sample; {} = a scalar
  size_t row_bytes() const { return row_bytes_; }               // of one sample, as copied
  const std::string& name() const { return name_; }             // for messages
  // Almost surely differs for other files: by their names and sizes, and of arrays by what is at
  // both ends. Paths and times do not count, for hosts have copies. 0: there are no files.
  uint64_t content() const { return content_; }

  // Copies samples one after another to `out`, which has rows.size() * row_bytes() bytes and the
  // alignment of the element. Requires: each row in [0, rows()). Thread-safe. May block on the
  // disk. Throws ReadFailed if the disk fails for some seconds, and Error if the file has changed:
  // then what was copied may be wrong.
  virtual void copy_rows(std::span<const int64_t> rows, std::byte* out) const = 0;

 protected:
  Column(std::string name, int64_t rows, DType dtype, std::vector<int64_t> shape,
         uint64_t content = 0);

 private:
  std::string name_;
  int64_t rows_;
  DType dtype_;
  std::vector<int64_t> shape_;
  size_t row_bytes_;
  uint64_t content_;
};

class ImageFolder;
class TarShards;

// What columns of one data set share, by path and settings, because it takes long to make.
struct SharedSources {
  std::map<std::string, std::shared_ptr<const ImageFolder>> folders;
  std::map<std::string, std::shared_ptr<const TarShards>> shards;
  std::map<std::string, Array> texts;
};

// Opens one source; relative paths are relative to `base_dir`. Throws Error with the path and the
// reason: missing, another format, truncated, a type or shape that does not match the settings.
// `reserve_shift`: for windows, the largest window_shift among the columns over the same array, so
// that all have the same number of samples. `shared`, if any: it takes what is there, and adds what
// it makes. open_data sets both.
std::shared_ptr<const Column> open_column(const DataSource& source, const std::string& base_dir,
                                          int64_t reserve_shift = 0,
                                          SharedSources* shared = nullptr);

// A column over an existing array, with the same conversions, windows and checks.
std::shared_ptr<const Column> make_column(Array array, const DataSource& source,
                                          int64_t reserve_shift = 0);

// Reads a tensor written by torch.save: (path, key) -> its array; `key` names an entry if the file
// holds a dictionary. Code that links Torch sets it once at startup (not thread-safe); without it
// such a source is an Error.
using TorchReader = std::function<Array(const std::string& path, const std::string& key)>;
void set_torch_reader(TorchReader reader);

// Columns of equal length, or a part of their rows. Or what a program reads itself, without
// columns. Cheap to copy.
class Dataset {
 public:
  // A replica's share of a micro-batch, of a program's own data.
  struct Request {
    std::span<const int64_t> rows;  // the samples, at least one; valid until the batch is made
    uint64_t seed = 0;              // the sampler's
    Position pass;                  // in which the rows are read: its index does not matter
    int stride = 1;                 // as long as the replicas stay the same, those of this one
                                    // follow each other at this distance in the order of the pass
  };
  // Makes the batch, which only the program understands. Any thread calls it, once.
  using Make = std::function<std::shared_ptr<void>()>;
  // Reads what must be read in order, and returns what does the rest. Thread-safe; a loader calls
  // it for one micro-batch after another, but may begin anew at any place.
  using Fetch = std::function<Make(const Request& request)>;

  // `in_order`: the data have an order of their own, for which a row is a place in the pass; no
  // sampler shuffles them. `content`: as Fingerprint's. Requires: size >= 1.
  Dataset(int64_t size, Fetch fetch, bool in_order = false, uint64_t content = 0)
      : size_(size), fetch_(std::move(fetch)), in_order_(in_order), content_(content) {}

  // Throws Error if lengths differ (naming both sources and their lengths), or if there are no
  // columns or no samples.
  explicit Dataset(std::vector<std::shared_ptr<const Column>> columns);

  int64_t size() const { return size_; }         // samples, >= 1
  const Fetch& fetch() const { return fetch_; }  // none: there are columns
  bool in_order() const { return in_order_; }
  const std::vector<std::shared_ptr<const Column>>& columns() const { return columns_; }

  Fingerprint fingerprint() const { return {size_, content_}; }
  std::string name() const;  // for messages: the columns'

  // The columns' row of sample `i`. Requires: 0 <= i < size().
  int64_t row(int64_t i) const { return map_ ? map_(i) : i; }

  // Samples [begin, end). Requires: 0 <= begin < end <= size().
  Dataset subset(int64_t begin, int64_t end) const;

  // Returns {the rest, `fraction` of the samples}: a fixed, disjoint split, both in this set's
  // order. The set is divided into round(fraction * size()) equal stretches (at least 1), and
  // `seed` draws one sample from each. This needs no memory, and it represents every part of a
  // sorted file. Throws Error if a part would be empty, or if the data have an order of their own.
  // Requires: 0 < fraction < 1.
  std::pair<Dataset, Dataset> split(double fraction, uint64_t seed) const;

 private:
  std::vector<std::shared_ptr<const Column>> columns_;
  int64_t size_ = 0;
  std::function<int64_t(int64_t)> map_;  // none: identity
  Fetch fetch_;
  bool in_order_ = false;
  uint64_t content_ = 0;
};

struct Data {
  Dataset train;
  std::optional<Dataset> validation;
};

// The training data, and the share of it that the settings keep for validation. Where windows
// overlap, that is the last ones, and those that share elements with them are in neither. Throws
// Error as Dataset::split().
Data split_off_validation(const DataSpec& spec, const Dataset& all);

// Opens everything that `spec` names. Throws Error like open_column and Dataset, and if number,
// type and shape of the validation columns differ from those of the training columns.
Data open_data(const DataSpec& spec, const std::string& base_dir);

}  // namespace adaptdl::data
