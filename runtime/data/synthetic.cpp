#include "runtime/data/synthetic.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "runtime/data/convert.h"
#include "runtime/data/formats/readers.h"

namespace adaptdl::data {
namespace {

constexpr size_t kMaxSampleBytes = 1u << 30;
constexpr int64_t kDrawn = 512;

// The sum of the four 16-bit numbers in `bits` has mean 2 (2^16 - 1) and variance (2^32 - 1) / 3.
double nearly_normal(uint64_t bits) {
  const auto sum = static_cast<double>((bits & 0xffff) + ((bits >> 16) & 0xffff) +
                                       ((bits >> 32) & 0xffff) + (bits >> 48));
  return (sum - 131070.0) * 2.6428927706594894e-05;
}

class SyntheticColumn : public Column {
 public:
  SyntheticColumn(std::string name, const DataSource& source, DType dtype)
      : Column(std::move(name), source.synthetic_samples, dtype, source.shape),
        seed_(mix_bits(source.seed + kGolden)),
        classes_(static_cast<uint64_t>(source.synthetic_classes)),
        elements_(static_cast<int64_t>(row_bytes() / size_of(dtype))),
        converter_(classes_ > 0 ? DType::int64 : DType::float64, false, dtype, source.scale,
                   source.offset) {}

  void copy_rows(std::span<const int64_t> rows, std::byte* out) const override {
    for (const int64_t row : rows) {
      uint64_t state = mix_bits(seed_ + static_cast<uint64_t>(row) * kGolden);
      for (int64_t done = 0; done < elements_; done += kDrawn) {
        const int64_t count = std::min(kDrawn, elements_ - done);
        if (classes_ > 0) {
          int64_t labels[kDrawn];
          for (int64_t i = 0; i < count; ++i) {
            labels[i] = static_cast<int64_t>(reduce(mix_bits(state += kGolden), classes_));
          }
          converter_(reinterpret_cast<const std::byte*>(labels), count, out);
        } else {
          double numbers[kDrawn];
          for (int64_t i = 0; i < count; ++i)
            numbers[i] = nearly_normal(mix_bits(state += kGolden));
          converter_(reinterpret_cast<const std::byte*>(numbers), count, out);
        }
        out += static_cast<size_t>(count) * size_of(dtype());
      }
    }
  }

 private:
  uint64_t seed_, classes_;
  int64_t elements_;
  Converter converter_;
};

}  // namespace

std::shared_ptr<const Column> make_synthetic(const DataSource& source) {
  const std::string name = "synthetic data";
  const bool labels = source.synthetic_classes > 0;
  if (source.synthetic_samples < 1) fail("{}: at least one sample is needed", name);
  if (source.window > 0) fail("{}: cannot have windows; set `shape` instead", name);
  DType dtype = labels ? DType::int64 : DType::float32;
  if (!source.dtype.empty()) dtype = parse_dtype(source.dtype, name + ": dtype");
  if (!labels && !is_floating(dtype)) {
    fail("{}: type {} needs `classes`, the number of class labels to draw", name, name_of(dtype));
  }
  check_scaling(source.scale, source.offset, dtype, name);
  array_bytes(source.shape, size_of(dtype), kMaxSampleBytes, name);
  return std::make_shared<SyntheticColumn>(name, source, dtype);
}

}  // namespace adaptdl::data
