#pragma once

// JPEG and PNG images, and the way from an image of any size to a sample of a fixed one. Without
// state, for any thread. Errors are "NAME: what is wrong".

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace adaptdl::data {

// An image may have this many pixels. Its header is checked before memory is taken.
constexpr int64_t kMaxPixels = 100'000'000;

struct Image {
  int width = 0, height = 0;
  int channels = 0;                   // 1: grey; 3: red, green, blue
  std::unique_ptr<uint8_t[]> pixels;  // rows from the top, the channels of a pixel together
};

// Of a sample: 1 or 3 channels, height and width >= 1.
struct ImageShape {
  int channels, height, width;
};

// Decodes a JPEG or a PNG, told apart by their first bytes. A JPEG that is much larger than
// `wanted` is decoded at a half, a quarter or an eighth of its size, which stays at least twice the
// wanted one. Throws Error for other formats, and for damaged, truncated and too large images.
Image decode_image(std::span<const std::byte> bytes, const std::string& name,
                   const ImageShape& wanted);

// JPEGs may be baseline or progressive, of grey, colour or four inks.
Image decode_jpeg(std::span<const std::byte> bytes, const std::string& name,
                  const ImageShape& wanted);

// PNGs of every kind: palettes become colours, 16 bits the upper 8, and transparency is dropped.
Image decode_png(std::span<const std::byte> bytes, const std::string& name);

// Scales the image so that it just covers the shape, and takes the middle. Each pixel is the mean
// of those around its place, weighted by a triangle as wide as two pixels of the larger grid
// (antialiased bilinear, as Pillow's). `out` has channels * height * width bytes, a plane for each
// channel; colours become grey by 0.299 R + 0.587 G + 0.114 B.
void fit_image(const Image& image, const ImageShape& shape, uint8_t* out);

// The memory for an image as its header says. Throws Error if it is empty or has more than
// kMaxPixels.
Image make_image(int64_t width, int64_t height, int channels, const std::string& name);

// The same check, without memory.
void check_pixels(int64_t width, int64_t height, const std::string& name);

}  // namespace adaptdl::data
