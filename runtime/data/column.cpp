#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/formats/crc32c.h"
#include "runtime/data/blobs.h"
#include "runtime/data/convert.h"
#include "runtime/data/dataset.h"
#include "runtime/data/formats/readers.h"
#include "runtime/data/guarded_read.h"
#include "runtime/data/image_folder.h"
#include "runtime/data/synthetic.h"
#include "runtime/data/tar_shards.h"

namespace adaptdl::data {
namespace {

TorchReader& torch_reader() {
  static TorchReader reader;
  return reader;
}

std::string shown(const std::vector<int64_t>& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + ")";
}

// The layout of samples in an array.
struct Layout {
  int64_t rows = 0;
  int64_t first = 0;           // element at which sample 0 starts
  int64_t step = 0;            // elements from one sample's start to the next one's
  std::vector<int64_t> shape;  // of a sample
};

Layout lay_out(const Array& array, const DataSource& source, int64_t reserve_shift) {
  if (array.shape.empty()) {
    fail("{}: holds a single number; it needs one for each sample", array.name);
  }
  const int64_t length = array.shape.front(), unit = array.row_elements();
  const std::vector<int64_t> unit_shape(array.shape.begin() + 1, array.shape.end());
  Layout layout;
  if (source.window > 0) {
    const int64_t stride = source.window_stride,
                  shift = std::max(reserve_shift, source.window_shift);
    if (stride < 1 || source.window_shift < 0) {
      fail("{}: window_stride must be at least 1 and window_shift at least 0", array.name);
    }
    if (source.window > length || shift > length - source.window) {
      fail("{}: a window of {} elements shifted by {} does not fit into its {} elements",
           array.name, source.window, shift, length);
    }
    layout.rows = (length - source.window - shift) / stride + 1;
    layout.first = source.window_shift * unit;
    // A single sample needs no step, and a huge stride could overflow.
    layout.step = layout.rows > 1 ? stride * unit : 0;
    layout.shape = {source.window};
    layout.shape.insert(layout.shape.end(), unit_shape.begin(), unit_shape.end());
  } else {
    layout.rows = length;
    layout.step = unit;
    layout.shape = unit_shape;
  }
  if (!source.shape.empty()) {
    int64_t stored = 1, wanted = 1;
    bool impossible = false;
    for (const int64_t d : layout.shape) stored *= d;
    for (const int64_t d : source.shape) {
      impossible |= d < 1 || __builtin_mul_overflow(wanted, d, &wanted);
    }
    if (impossible || wanted != stored) {
      fail("{}: a sample has the shape {}, which cannot be reshaped to {}", array.name,
           shown(layout.shape), shown(source.shape));
    }
    layout.shape = source.shape;
  }
  return layout;
}

// Advises the kernel about a part of a mapping; no effect on other memory.
void advise(const std::byte* begin, size_t bytes, int advice) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto from = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t start = from / page * page;
  ::madvise(reinterpret_cast<void*>(start), from + bytes - start, advice);
}

// Calls copy() until it can read everything, and checks that what it read is from the array's file
// as it was when it was opened.
template <typename Copy>
void repeat_reads(const Array& array, const Copy& copy) {
  for (size_t attempt = 0;; ++attempt) {
    const void* failed = read_guarded(copy);
    if (array.file) array.file->check();
    if (failed == nullptr) return;
    if (attempt == kReadPauses.size()) {
      const auto place = mapped_place(failed);
      throw ReadFailed(fmt::format(
          "{}: cannot read the data at offset {} of {} (attempted {} times): the disk or the "
          "network failed; the kernel's log (dmesg) may say why",
          array.name, place ? place->offset : 0, place ? place->path : "the file", attempt + 1));
    }
    std::this_thread::sleep_for(Seconds(kReadPauses[attempt]));
  }
}

// What is read of a file at once, at both of its ends: all of it may take long.
constexpr size_t kEdge = 64u << 10;  // bytes

// Readers look at the header, and at a ZIP archive's directory at its end; those of text at
// everything. So these must be readable.
void check_readable(const Array& whole, bool all) {
  constexpr size_t kPage = 4096;
  const auto bytes = static_cast<size_t>(whole.shape[0]);
  if (!all) advise(whole.bytes, bytes, MADV_RANDOM);  // the kernel would read more
  repeat_reads(whole, [&] {
    volatile std::byte sink{};
    for (size_t at = 0; at < bytes; at += kPage) {
      if (all || at < kEdge || at + kEdge >= bytes) sink = whole.bytes[at];
    }
    static_cast<void>(sink);
  });
}

// `array`: what a reader found in the file.
uint64_t content_of(const Array& whole, const Array& array) {
  const std::span bytes(whole.bytes, static_cast<size_t>(whole.shape[0]));
  const size_t edge = std::min(bytes.size(), kEdge);
  uint32_t edges = 0;
  repeat_reads(whole, [&] { edges = crc32c(bytes.last(edge), crc32c(bytes.first(edge))); });
  Digest digest;
  digest.add(bytes.size());
  digest.add(edges);
  digest.add(array.content);
  return digest.value();
}

class ArrayColumn : public Column {
 public:
  ArrayColumn(Array array, const Layout& layout, DType dtype, double scale, double offset)
      : Column(array.name, layout.rows, dtype, layout.shape, array.content),
        array_(std::move(array)),
        converter_(array_.dtype, array_.swapped, dtype, scale, offset),
        elements_(static_cast<int64_t>(row_bytes() / size_of(dtype))),
        first_(array_.bytes + static_cast<size_t>(layout.first) * size_of(array_.dtype)),
        step_(static_cast<size_t>(layout.step) * size_of(array_.dtype)),
        stored_row_bytes_(static_cast<size_t>(elements_) * size_of(array_.dtype)) {
    const size_t stored = static_cast<size_t>(array_.elements()) * size_of(array_.dtype);
    scattered_ = stored > available_memory() / 4;  // other columns need memory too
    if (scattered_) advise(array_.bytes, stored, MADV_RANDOM);
  }

  void copy_rows(std::span<const int64_t> rows, std::byte* out) const override {
    repeat_reads(array_, [&] { copy(rows, out); });
  }

 private:
  void copy(std::span<const int64_t> rows, std::byte* out) const {
    if (scattered_) {  // all at once, so that the disk can order the reads
      for (const int64_t row : rows) {
        advise(first_ + static_cast<size_t>(row) * step_, stored_row_bytes_, MADV_WILLNEED);
      }
    }
    for (const int64_t row : rows) {
      converter_(first_ + static_cast<size_t>(row) * step_, elements_, out);
      out += row_bytes();
    }
  }

  Array array_;
  Converter converter_;
  int64_t elements_;  // of a sample
  const std::byte* first_;
  size_t step_, stored_row_bytes_;  // bytes
  // Data larger than memory are read row by row: the kernel would read megabytes around each row.
  bool scattered_ = false;
};

DType csv_type(const DataSource& source, DType wanted) {
  if (source.dtype.empty()) return DType::float32;
  if (!is_floating(wanted)) return DType::int64;
  return wanted == DType::float64 ? DType::float64 : DType::float32;
}

// Tokens are small, and there are a few hundred thousand.
constexpr size_t kMaxVocabulary = 256u << 20;

Array all_bytes(const std::shared_ptr<const MappedFile>& file) {
  const auto size = static_cast<int64_t>(file->bytes().size());
  return {file->path(), DType::uint8, false, {size}, file->bytes().data(), file, nullptr};
}

Array parse_file(const DataSource& source, const std::string& path) {
  using Format = DataSource::Format;
  switch (source.format) {
    case Format::npy: {
      auto file = std::make_shared<const MappedFile>(path);
      if (file->text().substr(0, 2) == "PK") return read_npz(path, source.key);
      if (!source.key.empty()) {
        fail("{}: not a .npz archive, so it has no member \"{}\"; remove `key`", path, source.key);
      }
      return read_npy(file->bytes(), path, file);
    }
    case Format::idx: {
      auto file = std::make_shared<const MappedFile>(path);
      return read_idx(file->bytes(), path, file);
    }
    case Format::csv: {
      const DType wanted =
          source.dtype.empty() ? DType::float32 : parse_dtype(source.dtype, path + ": dtype");
      const MappedFile file(path);
      return read_csv(file.bytes(), path,
                      {source.header_lines, source.columns, csv_type(source, wanted)});
    }
    case Format::torch:
      if (!torch_reader()) fail("{}: tensors saved by torch.save need LibTorch", path);
      return torch_reader()(path, source.key);
    case Format::text: {
      auto file = std::make_shared<const MappedFile>(path);
      if (source.tokens == DataSource::Tokens::bytes) return all_bytes(file);
      if (!path_exists(source.vocabulary)) {
        fail(
            "{}: vocabulary not found; a relative path starts at the folder of the training "
            "archive",
            source.vocabulary);
      }
      const std::string vocabulary = read_file(source.vocabulary, kMaxVocabulary);
      Array tokens = read_text(file->text(), path, vocabulary, source.vocabulary,
                               source.tokens == DataSource::Tokens::words);
      tokens.content = crc32c(vocabulary);
      return tokens;
    }
    case Format::images:
    case Format::image_labels:
    case Format::tar:
    case Format::synthetic:
      break;  // are no arrays in a file
  }
  ADAPTDL_CHECK(false);
}

Array read_array(const DataSource& source, const std::string& path) {
  using Format = DataSource::Format;
  if (!path_exists(path)) {
    fail("{}: data file not found; a relative path starts at the folder of the training archive",
         path);
  }
  if (is_directory(path)) fail("{}: is a folder, not a data file", path);
  if (source.format != Format::torch && file_size(path) == 0) fail("{}: is empty", path);
  const auto watched = std::make_shared<const WatchedFile>(path);
  Array whole = all_bytes(std::make_shared<const MappedFile>(path));
  whole.file = watched;
  const bool tokenised =
      source.format == Format::text && source.tokens != DataSource::Tokens::bytes;
  check_readable(whole, /*all=*/source.format == Format::csv || tokenised);
  Array array = parse_file(source, path);
  array.content = content_of(whole, array);
  watched->check();
  array.file = watched;
  return array;
}

// What `shared` has under this key, or what make() returns, which is added.
template <typename T, typename Make>
T shared_or_made(std::map<std::string, T>& shared, const std::string& key, const Make& make) {
  const auto found = shared.find(key);
  return found != shared.end() ? found->second : shared.emplace(key, make()).first->second;
}

std::shared_ptr<const Column> open_member(const DataSource& source, const std::string& base_dir,
                                          SharedSources& shared) {
  const std::string path = join_path(base_dir, source.path);
  const auto shards = shared_or_made(shared.shards, path, [&] {
    return std::make_shared<const TarShards>(source.path, base_dir);
  });
  const std::shared_ptr<const Blobs> members = TarShards::members(shards, source.member);
  const std::string name = path + ":." + source.member;
  const std::string kind = source.member.substr(source.member.rfind('.') + 1);
  if (kind == "cls") return make_integer_column(members, name, source);
  if (kind == "npy") return make_npy_column(members, name, source);
  return make_image_column(members, name, source);
}

std::shared_ptr<const Column> open_text(DataSource source, const std::string& path,
                                        SharedSources& shared, int64_t reserve_shift) {
  if (source.dtype.empty()) source.dtype = "int64";  // what embeddings and losses take
  const std::string key =
      fmt::format("{}\n{}\n{}", path, source.vocabulary, static_cast<int>(source.tokens));
  const Array tokens = shared_or_made(shared.texts, key, [&] { return read_array(source, path); });
  return make_column(tokens, source, reserve_shift);
}

}  // namespace

int64_t Array::elements() const {
  int64_t product = 1;
  for (const int64_t dimension : shape) product *= dimension;
  return product;
}

int64_t Array::row_elements() const {
  int64_t product = 1;
  for (size_t d = 1; d < shape.size(); ++d) product *= shape[d];
  return product;
}

Column::Column(std::string name, int64_t rows, DType dtype, std::vector<int64_t> shape,
               uint64_t content)
    : name_(std::move(name)),
      rows_(rows),
      dtype_(dtype),
      shape_(std::move(shape)),
      content_(content) {
  row_bytes_ = array_bytes(shape_, size_of(dtype_), size_t{1} << 62, name_);
  if (row_bytes_ == 0) fail("{}: its samples are empty (shape {})", name_, shown(shape_));
}

void set_torch_reader(TorchReader reader) {
  torch_reader() = std::move(reader);
}

std::shared_ptr<const Column> make_column(Array array, const DataSource& source,
                                          int64_t reserve_shift) {
  const Layout layout = lay_out(array, source, reserve_shift);
  const DType dtype = source.dtype.empty() ? widened(array.dtype)
                                           : parse_dtype(source.dtype, array.name + ": dtype");
  check_scaling(source.scale, source.offset, dtype, array.name);
  return std::make_shared<ArrayColumn>(std::move(array), layout, dtype, source.scale,
                                       source.offset);
}

std::shared_ptr<const Column> open_column(const DataSource& source, const std::string& base_dir,
                                          int64_t reserve_shift, SharedSources* shared) {
  using Format = DataSource::Format;
  const std::string path = join_path(base_dir, source.path);
  SharedSources alone;
  if (shared == nullptr) shared = &alone;
  const auto folder = [&] {
    return shared_or_made(shared->folders, path,
                          [&] { return std::make_shared<const ImageFolder>(path); });
  };
  switch (source.format) {
    case Format::synthetic:
      return make_synthetic(source);
    case Format::images:
      return make_image_column(folder(), path, source);
    case Format::image_labels:
      return make_column(folder()->labels(), source);
    case Format::tar:
      return open_member(source, base_dir, *shared);
    case Format::text: {
      DataSource text = source;
      if (!text.vocabulary.empty()) text.vocabulary = join_path(base_dir, text.vocabulary);
      return open_text(std::move(text), path, *shared, reserve_shift);
    }
    default:
      return make_column(read_array(source, path), source, reserve_shift);
  }
}

}  // namespace adaptdl::data
