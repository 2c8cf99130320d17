#include "runtime/data/formats/image.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>

#include "tests/unit/data/fixtures.h"
#include "tests/unit/data/make_image.h"

using namespace adaptdl::data;
using namespace fixtures;

namespace {

const ImageShape kAny{3, 1000, 1000};  // larger than the images here: these are not made smaller

Pixels decoded(const std::string& file, const ImageShape& wanted = kAny) {
  const Image image = decode_image(bytes(file), "x.img", wanted);
  const auto size = static_cast<size_t>(image.width * image.height * image.channels);
  return {image.width, image.height, image.channels,
          std::vector<uint8_t>(image.pixels.get(), image.pixels.get() + size)};
}

std::string decode_error(const std::string& file) {
  return error_of([&] { decoded(file); });
}

std::vector<uint8_t> fitted(const Pixels& pixels, const ImageShape& shape) {
  Image image = make_image(pixels.width, pixels.height, pixels.channels, "x");
  std::copy(pixels.values.begin(), pixels.values.end(), image.pixels.get());
  std::vector<uint8_t> out(static_cast<size_t>(shape.channels * shape.height * shape.width));
  fit_image(image, shape, out.data());
  return out;
}

// What libjpeg itself makes of a file.
Pixels plainly_decoded(const std::string& file, J_COLOR_SPACE colours) {
  jpeg_decompress_struct info = {};
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = colours;
  jpeg_start_decompress(&info);
  Pixels pixels{static_cast<int>(info.output_width),
                static_cast<int>(info.output_height),
                info.output_components,
                {}};
  const size_t row = info.output_width * static_cast<size_t>(info.output_components);
  pixels.values.resize(row * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW to = pixels.values.data() + info.output_scanline * row;
    jpeg_read_scanlines(&info, &to, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return pixels;
}

// The definition of fit_image(): one double sum for each pixel.
double reference(const Pixels& pixels, const ImageShape& shape, int x, int y, int c) {
  const double scale = std::min(static_cast<double>(pixels.width) / shape.width,
                                static_cast<double>(pixels.height) / shape.height);
  const double reach = std::max(1.0, scale);
  const double at_x = (pixels.width - scale * shape.width) / 2 + (x + 0.5) * scale;
  const double at_y = (pixels.height - scale * shape.height) / 2 + (y + 0.5) * scale;
  double sum = 0, weights = 0;
  for (int v = 0; v < pixels.height; ++v) {
    for (int u = 0; u < pixels.width; ++u) {
      const double weight = std::max(0.0, 1 - std::abs(u + 0.5 - at_x) / reach) *
                            std::max(0.0, 1 - std::abs(v + 0.5 - at_y) / reach);
      sum += weight * pixels.at(u, v, c);
      weights += weight;
    }
  }
  return sum / weights;
}

}  // namespace

TEST_CASE("jpeg: the pixels are those of libjpeg") {
  const Pixels picture = gradient(61, 40, 3);
  for (const bool progressive : {false, true}) {
    const std::string file = jpeg(picture, {JCS_RGB, JCS_YCbCr, progressive});
    CHECK(decoded(file).values == plainly_decoded(file, JCS_RGB).values);
    CHECK(decoded(file, {1, 1000, 1000}).values == plainly_decoded(file, JCS_GRAYSCALE).values);
  }
  const std::string grey = grey_jpeg(gradient(30, 20, 1));
  const Pixels result = decoded(grey);
  CHECK(result.channels == 1);
  CHECK(result.values == plainly_decoded(grey, JCS_GRAYSCALE).values);
}

TEST_CASE("jpeg: four inks become colours") {
  // Adobe's files hold complements, as this one does: no ink is 255.
  const Pixels inks = painted(32, 32, 4, [](int, int, int c) {
    constexpr int kInks[] = {255, 128, 0, 128};
    return kInks[c];
  });
  for (const J_COLOR_SPACE stored : {JCS_CMYK, JCS_YCCK}) {
    const Pixels result = decoded(jpeg(inks, {JCS_CMYK, stored}));
    CHECK(result.channels == 3);
    constexpr int kExpected[] = {128, 64, 0};
    for (int c = 0; c < 3; ++c) CHECK(std::abs(result.at(16, 16, c) - kExpected[c]) <= 3);
  }
}

TEST_CASE("jpeg: large images are decoded at a part of their size") {
  const Pixels picture = gradient(800, 600, 3);
  const std::string file = jpeg(picture);
  const ImageShape shape{3, 40, 40};
  const Pixels small = decoded(file, shape);
  CHECK(small.width == 200);
  CHECK(small.height == 150);
  const std::vector<uint8_t> from_small = fitted(small, shape), exact = fitted(picture, shape);
  for (size_t i = 0; i < exact.size(); ++i) CHECK(std::abs(from_small[i] - exact[i]) <= 4);
  CHECK(decoded(file, {3, 300, 300}).width == 800);
  CHECK(decoded(file, {3, 151, 40}).width == 800);
  CHECK(decoded(file, {3, 150, 40}).width == 400);
}

TEST_CASE("png: every kind of pixel") {
  const Pixels colours = gradient(19, 11, 3), greys = gradient(19, 11, 1);
  CHECK(decoded(png(colours)).values == colours.values);
  CHECK(decoded(png(greys)).values == greys.values);
  CHECK(decoded(png(greys)).channels == 1);

  PngOptions options;
  options.interlace = PNG_INTERLACE_ADAM7;
  CHECK(decoded(png(19, 11, colours.values, options)).values == colours.values);

  options = {PNG_COLOR_TYPE_RGB_ALPHA};
  CHECK(decoded(png(1, 1, {10, 20, 30, 0}, options)).values == std::vector<uint8_t>{10, 20, 30});
  options = {PNG_COLOR_TYPE_GRAY_ALPHA, 16};
  CHECK(decoded(png(1, 1, {200, 0, 0, 0}, options)).values == std::vector<uint8_t>{199});
  options = {PNG_COLOR_TYPE_RGB, 16};
  CHECK(decoded(png(1, 1, {255, 255, 128, 128, 0, 0}, options)).values ==
        std::vector<uint8_t>{255, 128, 0});
  options = {PNG_COLOR_TYPE_GRAY, 1};
  CHECK(decoded(png(3, 1, {0b10100000}, options)).values == std::vector<uint8_t>{255, 0, 255});
  options = {PNG_COLOR_TYPE_GRAY, 4};
  CHECK(decoded(png(2, 1, {0x1f}, options)).values == std::vector<uint8_t>{17, 255});
  options = {PNG_COLOR_TYPE_PALETTE, 2, PNG_INTERLACE_NONE, {{1, 2, 3}, {4, 5, 6}}, {0}};
  CHECK(decoded(png(2, 1, {0b00010000}, options)).values == std::vector<uint8_t>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("images: what is damaged or no image names the file") {
  CHECK(decode_error("") == "x.img: is empty");
  CHECK(contains(decode_error("GIF89a"), "x.img: is neither a JPEG nor a PNG"));
  const Pixels picture = gradient(24, 24, 3);
  const std::string files[] = {png(picture), jpeg(picture),
                               jpeg(picture, {JCS_RGB, JCS_YCbCr, true})};
  for (const std::string& file : files) {
    for (size_t size = 1; size < file.size(); ++size) {
      const std::string error = decode_error(file.substr(0, size));
      CAPTURE(size);
      CHECK(error.starts_with("x.img: "));
    }
  }
  // A byte of the pixels: PNG has checksums.
  std::string damaged = files[0];
  damaged[60] = static_cast<char>(damaged[60] ^ 1);
  CHECK(contains(decode_error(damaged), "damaged"));
}

TEST_CASE("images: sizes in headers are checked before memory is taken") {
  const std::string sizes[] = {std::string("\0\1\x86\xa0", 4), std::string("\0\0\x26\xac", 4)};
  for (const std::string& size : sizes) {
    std::string file = png(gradient(4, 4, 1));
    file.replace(16, 8, size + size);
    // The sum of the header's chunk.
    uint32_t sum = 0xffffffff;
    for (size_t i = 12; i < 29; ++i) {
      sum ^= static_cast<unsigned char>(file[i]);
      for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xedb88320 : 0);
    }
    sum = ~sum;
    for (size_t i = 0; i < 4; ++i) file[29 + i] = static_cast<char>(sum >> (24 - 8 * i));
    const std::string error = decode_error(file);
    CHECK(contains(error, size[1] == '\1' ? "100000 x 100000 pixels are too many"
                                          : "9900 x 9900 pixels cannot be in"));
  }
  std::string file = grey_jpeg(gradient(8, 8, 1));
  const size_t frame = file.find("\xff\xc0");
  file.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  CHECK(contains(decode_error(file), "65500 x 65500 pixels are too many"));
}

TEST_CASE("images: fitting covers the shape and takes the middle") {
  const Pixels picture = painted(
      23, 17, 3, [](int x, int y, int c) { return (x * 37 + y * 91 + c * 50 + x * y * 7) % 256; });
  for (const ImageShape shape : {ImageShape{3, 17, 23}, ImageShape{3, 5, 5}, ImageShape{3, 8, 3},
                                 ImageShape{3, 20, 31}, ImageShape{3, 1, 1}}) {
    const std::vector<uint8_t> result = fitted(picture, shape);
    size_t i = 0;
    double worst = 0;
    for (int c = 0; c < 3; ++c) {
      for (int y = 0; y < shape.height; ++y) {
        for (int x = 0; x < shape.width; ++x, ++i) {
          worst = std::max(worst, std::abs(result[i] - reference(picture, shape, x, y, c)));
        }
      }
    }
    CAPTURE(shape.height);
    CHECK(worst < 0.51);
  }
  // The same size: the same pixels, in planes.
  const Pixels tiny{2, 1, 3, {1, 2, 3, 4, 5, 6}};
  CHECK(fitted(tiny, {3, 1, 2}) == std::vector<uint8_t>{1, 4, 2, 5, 3, 6});
  CHECK(fitted({2, 1, 1, {7, 8}}, {3, 1, 2}) == std::vector<uint8_t>{7, 8, 7, 8, 7, 8});
  CHECK(fitted({1, 1, 3, {255, 0, 0}}, {1, 1, 1}) == std::vector<uint8_t>{76});
  // A wide image loses its sides.
  const Pixels wide = painted(40, 10, 1, [](int x, int, int) { return x < 15 || x >= 25 ? 0 : 9; });
  CHECK(fitted(wide, {1, 10, 10}) == std::vector<uint8_t>(100, 9));
}
