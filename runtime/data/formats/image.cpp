#include "runtime/data/formats/image.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/error.h"

namespace adaptdl::data {
namespace {

// The pixels along one axis that make up each pixel of the result.
struct Axis {
  struct Taps {
    int first, count;
    size_t weights;  // where they begin
  };
  std::vector<Taps> taps;
  std::vector<float> weights;

  // Of `size` pixels those of [from, from + length) become `out`. Pixels around them count, too.
  Axis(int size, double from, double length, int out) {
    const double scale = length / out, reach = std::max(1.0, scale);
    for (int i = 0; i < out; ++i) {
      const double centre = from + (i + 0.5) * scale;
      const int first = std::max(0, static_cast<int>(centre - reach + 0.5));
      const int end = std::min(size, static_cast<int>(centre + reach + 0.5));
      taps.push_back({first, end - first, weights.size()});
      double sum = 0;
      for (int x = first; x < end; ++x) sum += weight(x, centre, reach);
      for (int x = first; x < end; ++x) {
        weights.push_back(static_cast<float>(weight(x, centre, reach) / sum));
      }
    }
  }

  static double weight(int x, double centre, double reach) {
    return std::max(0.0, 1.0 - std::abs(x + 0.5 - centre) / reach);
  }
};

// Adds a row of an image, times a weight.
void add_row(const uint8_t* row, float weight, size_t size, float* sum) {
  for (size_t x = 0; x < size; ++x) sum[x] += weight * static_cast<float>(row[x]);
}

template <int Channels>
void scale_row(const float* row, const Axis& axis, float* out) {
  for (const Axis::Taps& taps : axis.taps) {
    const float* pixel = row + static_cast<size_t>(taps.first) * Channels;
    const float* weights = axis.weights.data() + taps.weights;
    float sums[Channels] = {};
    for (int i = 0; i < taps.count; ++i) {
      for (int c = 0; c < Channels; ++c) sums[c] += weights[i] * *pixel++;
    }
    for (const float sum : sums) *out++ = sum;
  }
}

uint8_t rounded(float value) {
  return static_cast<uint8_t>(std::clamp(value + 0.5f, 0.0f, 255.0f));
}

// Writes row `y` of the result, whose pixels have the image's channels.
void write_row(const float* row, int channels, const ImageShape& shape, int y, uint8_t* out) {
  const auto width = static_cast<size_t>(shape.width);
  const size_t plane = width * static_cast<size_t>(shape.height);
  out += width * static_cast<size_t>(y);
  if (channels == 3 && shape.channels == 1) {
    for (size_t x = 0; x < width; ++x, row += 3) {
      out[x] = rounded(0.299f * row[0] + 0.587f * row[1] + 0.114f * row[2]);
    }
    return;
  }
  for (int c = 0; c < shape.channels; ++c, out += plane) {
    const float* from = row + (channels == 3 ? c : 0);
    for (size_t x = 0; x < width; ++x, from += channels) out[x] = rounded(*from);
  }
}

}  // namespace

void check_pixels(int64_t width, int64_t height, const std::string& name) {
  if (width < 1 || height < 1) fail("{}: the image is empty", name);
  if (width > kMaxPixels / height) {
    fail("{}: {} x {} pixels are too many; an image may have {} million", name, width, height,
         kMaxPixels / 1'000'000);
  }
}

Image make_image(int64_t width, int64_t height, int channels, const std::string& name) {
  check_pixels(width, height, name);
  Image image{static_cast<int>(width), static_cast<int>(height), channels, nullptr};
  image.pixels =
      std::make_unique_for_overwrite<uint8_t[]>(static_cast<size_t>(width * height * channels));
  return image;
}

Image decode_image(std::span<const std::byte> bytes, const std::string& name,
                   const ImageShape& wanted) {
  const auto begins_with = [&](std::string_view magic) {
    return bytes.size() >= magic.size() &&
           std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
  };
  if (begins_with("\xff\xd8\xff")) return decode_jpeg(bytes, name, wanted);
  if (begins_with("\x89PNG\r\n\x1a\n")) return decode_png(bytes, name);
  if (bytes.empty()) fail("{}: is empty", name);
  fail("{}: is neither a JPEG nor a PNG image", name);
}

void fit_image(const Image& image, const ImageShape& shape, uint8_t* out) {
  // Pixels of the image in one of the result: the axis that is shorter in the image decides.
  const double scale = std::min(static_cast<double>(image.width) / shape.width,
                                static_cast<double>(image.height) / shape.height);
  const double width = scale * shape.width, height = scale * shape.height;
  const Axis across(image.width, (image.width - width) / 2, width, shape.width);
  const Axis down(image.height, (image.height - height) / 2, height, shape.height);

  const auto channels = static_cast<size_t>(image.channels);
  const size_t stored_row = static_cast<size_t>(image.width) * channels;
  const size_t first = static_cast<size_t>(across.taps.front().first) * channels;
  const size_t end =
      static_cast<size_t>(across.taps.back().first + across.taps.back().count) * channels;
  std::vector<float> sum(stored_row), row(static_cast<size_t>(shape.width) * channels);
  for (int y = 0; y < shape.height; ++y) {
    const Axis::Taps& taps = down.taps[static_cast<size_t>(y)];
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (int i = 0; i < taps.count; ++i) {
      const uint8_t* from = image.pixels.get() + static_cast<size_t>(taps.first + i) * stored_row;
      const float weight = down.weights[taps.weights + static_cast<size_t>(i)];
      add_row(from + first, weight, end - first, sum.data() + first);
    }
    image.channels == 3 ? scale_row<3>(sum.data(), across, row.data())
                        : scale_row<1>(sum.data(), across, row.data());
    write_row(row.data(), image.channels, shape, y, out);
  }
}

}  // namespace adaptdl::data
