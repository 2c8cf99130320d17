#include "runtime/data/blobs.h"

#include <charconv>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "runtime/data/convert.h"
#include "runtime/data/formats/image.h"
#include "runtime/data/formats/readers.h"

namespace adaptdl::data {
namespace {

Converter converter_to(const DataSource& source, DType from, DType to, const std::string& name) {
  check_scaling(source.scale, source.offset, to, name);
  return Converter(from, false, to, source.scale, source.offset);
}

DType wanted_type(const DataSource& source, DType stored, const std::string& name) {
  return source.dtype.empty() ? stored : parse_dtype(source.dtype, name + ": dtype");
}

class ImageColumn : public Column {
 public:
  ImageColumn(std::shared_ptr<const Blobs> blobs, const std::string& name, const DataSource& source,
              const ImageShape& shape, DType dtype)
      : Column(name, blobs->size(), dtype, source.shape, blobs->content()),
        blobs_(std::move(blobs)),
        shape_(shape),
        converter_(converter_to(source, DType::uint8, dtype, name)) {}

  void copy_rows(std::span<const int64_t> rows, std::byte* out) const override {
    const size_t pixels = row_bytes() / size_of(dtype());
    std::vector<uint8_t> sample(pixels);
    for (const int64_t row : rows) {
      const Image image = decode_image(blobs_->read(row), blobs_->name(row), shape_);
      fit_image(image, shape_, sample.data());
      converter_(reinterpret_cast<const std::byte*>(sample.data()), static_cast<int64_t>(pixels),
                 out);
      out += row_bytes();
    }
  }

 private:
  std::shared_ptr<const Blobs> blobs_;
  ImageShape shape_;
  Converter converter_;
};

class IntegerColumn : public Column {
 public:
  IntegerColumn(std::shared_ptr<const Blobs> blobs, const std::string& name,
                const DataSource& source, DType dtype)
      : Column(name, blobs->size(), dtype, source.shape, blobs->content()),
        blobs_(std::move(blobs)),
        converter_(converter_to(source, DType::int64, dtype, name)) {}

  void copy_rows(std::span<const int64_t> rows, std::byte* out) const override {
    for (const int64_t row : rows) {
      const int64_t value = number(row);
      converter_(reinterpret_cast<const std::byte*>(&value), 1, out);
      out += row_bytes();
    }
  }

 private:
  int64_t number(int64_t row) const {
    const FileBytes bytes = blobs_->read(row);
    std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto blank = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
    while (!text.empty() && blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && blank(text.back())) text.remove_suffix(1);
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
      fail("{}: holds \"{}\", which is not an integer", blobs_->name(row), text.substr(0, 40));
    }
    return value;
  }

  std::shared_ptr<const Blobs> blobs_;
  Converter converter_;
};

class NpyColumn : public Column {
 public:
  NpyColumn(std::shared_ptr<const Blobs> blobs, const std::string& name, const DataSource& source,
            const Array& first, DType dtype)
      : Column(name, blobs->size(), dtype, source.shape.empty() ? first.shape : source.shape,
               blobs->content()),
        blobs_(std::move(blobs)),
        stored_(first.dtype),
        stored_shape_(first.shape),
        straight_(converter_to(source, stored_, dtype, name)),
        swapped_(stored_, true, dtype, source.scale, source.offset) {
    const auto elements = static_cast<int64_t>(row_bytes() / size_of(dtype));
    if (elements != first.elements()) {
      fail("{}: its {} elements cannot be reshaped to the {} of `shape`", first.name,
           first.elements(), elements);
    }
  }

  void copy_rows(std::span<const int64_t> rows, std::byte* out) const override {
    for (const int64_t row : rows) {
      const std::string name = blobs_->name(row);
      const FileBytes bytes = blobs_->read(row);
      const Array array = read_npy(bytes, name, nullptr);
      if (array.dtype != stored_ || array.shape != stored_shape_) {
        fail("{}: differs in type or shape from {}; all samples need the same", name,
             blobs_->name(0));
      }
      (array.swapped ? swapped_ : straight_)(array.bytes, array.elements(), out);
      out += row_bytes();
    }
  }

 private:
  std::shared_ptr<const Blobs> blobs_;
  DType stored_;
  std::vector<int64_t> stored_shape_;
  Converter straight_, swapped_;
};

}  // namespace

std::shared_ptr<const Column> make_image_column(std::shared_ptr<const Blobs> blobs,
                                                const std::string& name, const DataSource& source) {
  const std::vector<int64_t>& shape = source.shape;
  constexpr int64_t kMaxSide = 1 << 14;
  if (shape.size() != 3 || (shape[0] != 1 && shape[0] != 3) || shape[1] < 1 || shape[2] < 1 ||
      shape[1] > kMaxSide || shape[2] > kMaxSide) {
    fail(
        "{}: images need `shape`: [CHANNELS, HEIGHT, WIDTH] with 1 or 3 channels, and sides from 1 "
        "to {}",
        name, kMaxSide);
  }
  const ImageShape wanted{static_cast<int>(shape[0]), static_cast<int>(shape[1]),
                          static_cast<int>(shape[2])};
  return std::make_shared<ImageColumn>(std::move(blobs), name, source, wanted,
                                       wanted_type(source, DType::uint8, name));
}

std::shared_ptr<const Column> make_integer_column(std::shared_ptr<const Blobs> blobs,
                                                  const std::string& name,
                                                  const DataSource& source) {
  for (const int64_t dimension : source.shape) {
    if (dimension != 1) fail("{}: a sample is one number; remove `shape`", name);
  }
  return std::make_shared<IntegerColumn>(std::move(blobs), name, source,
                                         wanted_type(source, DType::int64, name));
}

std::shared_ptr<const Column> make_npy_column(std::shared_ptr<const Blobs> blobs,
                                              const std::string& name, const DataSource& source) {
  const FileBytes bytes = blobs->read(0);
  const Array first = read_npy(bytes, blobs->name(0), nullptr);
  return std::make_shared<NpyColumn>(blobs, name, source, first,
                                     wanted_type(source, widened(first.dtype), name));
}

}  // namespace adaptdl::data
