#pragma once

// Images written by the libraries that read them.

// jpeglib.h needs FILE.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
// clang-format on
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <png.h>
#include <string>
#include <vector>

namespace fixtures {

// Rows from the top, the channels of a pixel together.
struct Pixels {
  int width, height, channels;
  std::vector<uint8_t> values;

  uint8_t at(int x, int y, int c) const {
    return values[static_cast<size_t>((y * width + x) * channels + c)];
  }
};

inline Pixels painted(int width, int height, int channels,
                      const std::function<int(int x, int y, int c)>& paint) {
  Pixels pixels{width, height, channels, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        pixels.values.push_back(static_cast<uint8_t>(paint(x, y, c)));
      }
    }
  }
  return pixels;
}

// Smooth in all directions, and different in each channel.
inline Pixels gradient(int width, int height, int channels) {
  return painted(width, height, channels,
                 [&](int x, int y, int c) { return (c + 1) * 60 * x / width + 70 * y / height; });
}

struct JpegOptions {
  J_COLOR_SPACE colours = JCS_RGB;  // of the pixels
  J_COLOR_SPACE stored = JCS_YCbCr;
  bool progressive = false;
};

inline std::string jpeg(const Pixels& pixels, const JpegOptions& options = {}) {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): libjpeg's
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = static_cast<JDIMENSION>(pixels.width);
  info.image_height = static_cast<JDIMENSION>(pixels.height);
  info.input_components = pixels.channels;
  info.in_color_space = options.colours;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, options.stored);
  if (options.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  std::vector<uint8_t> values = pixels.values;
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = values.data() +
                   info.next_scanline * info.image_width * static_cast<JDIMENSION>(pixels.channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string file(reinterpret_cast<char*>(memory), size);
  jpeg_destroy_compress(&info);
  std::free(memory);
  return file;
}

inline std::string grey_jpeg(const Pixels& pixels) {
  return jpeg(pixels, {JCS_GRAYSCALE, JCS_GRAYSCALE});
}

struct PngOptions {
  int type = PNG_COLOR_TYPE_RGB;
  int depth = 8;  // bits of a channel
  int interlace = PNG_INTERLACE_NONE;
  std::vector<png_color> palette = {};
  std::vector<uint8_t> alpha = {};  // of the palette's colours
};

// `rows` holds the rows as they are stored: packed below 8 bits, big-endian above.
inline std::string png(int width, int height, const std::vector<uint8_t>& rows,
                       const PngOptions& options = {}) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &file,
      [](png_structp self, png_bytep bytes, size_t size) {
        static_cast<std::string*>(png_get_io_ptr(self))
            ->append(reinterpret_cast<const char*>(bytes), size);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height),
               options.depth, options.type, options.interlace, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (!options.palette.empty()) {
    png_set_PLTE(png, info, options.palette.data(), static_cast<int>(options.palette.size()));
  }
  if (!options.alpha.empty()) {
    png_set_tRNS(png, info, options.alpha.data(), static_cast<int>(options.alpha.size()), nullptr);
  }
  std::vector<uint8_t> copy = rows;
  std::vector<png_bytep> pointers;
  for (int y = 0; y < height; ++y) {
    pointers.push_back(copy.data() +
                       rows.size() / static_cast<size_t>(height) * static_cast<size_t>(y));
  }
  png_set_rows(png, info, pointers.data());
  png_write_png(png, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

inline std::string png(const Pixels& pixels) {
  PngOptions options;
  options.type = pixels.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB;
  return png(pixels.width, pixels.height, pixels.values, options);
}

}  // namespace fixtures
