#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <png.h>
#include <vector>

#include "core/base/error.h"
#include "runtime/data/formats/image.h"

namespace adaptdl::data {
namespace {

// Where libpng goes on when it fails: it cannot pass exceptions through its own code.
struct PngFailure {
  std::jmp_buf back;
  char text[120];
};

[[noreturn]] void on_png_error(png_structp png, png_const_charp text) {
  auto* failure = static_cast<PngFailure*>(png_get_error_ptr(png));
  std::snprintf(failure->text, sizeof failure->text, "%s", text);
  std::longjmp(failure->back, 1);
}

void on_png_warning(png_structp /*png*/, png_const_charp /*text*/) {}  // of what is not pixels

void read_png_bytes(png_structp png, png_bytep out, size_t size) {
  auto* rest = static_cast<std::span<const std::byte>*>(png_get_io_ptr(png));
  if (size > rest->size()) png_error(png, "the file ends early");
  std::memcpy(out, rest->data(), size);
  *rest = rest->subspan(size);
}

class PngDecoder {
 public:
  explicit PngDecoder(const std::string& name) : name_(name) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &failure_, on_png_error, on_png_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
  }
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  png_structp png() { return png_; }
  png_infop info() { return info_; }

  // Nothing in `call` may need a destructor: where libpng fails, it is left by longjmp.
  template <typename Call>
  void run(const Call& call) {
    if (!finishes(call)) fail("{}: damaged or truncated PNG: {}", name_, failure_.text);
  }

 private:
  template <typename Call>
  bool finishes(const Call& call) {
    if (setjmp(failure_.back) != 0) return false;
    call();
    return true;
  }

  const std::string& name_;
  PngFailure failure_ = {};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

Image decode_png(std::span<const std::byte> bytes, const std::string& name) {
  PngDecoder decoder(name);
  png_structp png = decoder.png();
  png_infop info = decoder.info();
  std::span<const std::byte> rest = bytes;
  decoder.run([&] {
    png_set_read_fn(png, &rest, read_png_bytes);
    // Only what makes up pixels is read: no texts, no colour profiles.
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_user_limits(png, kMaxPixels, kMaxPixels);
    png_read_info(png, info);
  });
  const int64_t width = png_get_image_width(png, info), height = png_get_image_height(png, info);
  const int depth = png_get_bit_depth(png, info);
  check_pixels(width, height, name);
  // Deflate makes a byte of at most 1032.
  const uint64_t bits = static_cast<uint64_t>(width * height) *
                        static_cast<unsigned>(depth * png_get_channels(png, info));
  if (bits / 8 / 1032 > bytes.size()) {
    fail("{}: damaged or truncated PNG: {} x {} pixels cannot be in {} bytes", name, width, height,
         bytes.size());
  }
  const int type = png_get_color_type(png, info);
  decoder.run([&] {
    if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
    if (type == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
    if (depth == 16) png_set_scale_16(png);
    png_set_strip_alpha(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
  });
  Image image = make_image(width, height, png_get_channels(png, info), name);
  const size_t row = png_get_rowbytes(png, info);
  ADAPTDL_CHECK(row == static_cast<size_t>(width * image.channels) &&
                (image.channels == 1 || image.channels == 3));
  std::vector<png_bytep> rows;
  for (int64_t y = 0; y < height; ++y) {
    rows.push_back(image.pixels.get() + static_cast<size_t>(y) * row);
  }
  decoder.run([&] {
    png_read_image(png, rows.data());
    png_read_end(png, nullptr);
  });
  return image;
}

}  // namespace adaptdl::data
