#include <csetjmp>
// In this order: jpeglib.h needs FILE, and jerror.h what jpeglib.h has configured.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "core/base/error.h"
#include "runtime/data/formats/image.h"

namespace adaptdl::data {
namespace {

// A file whose passes are many takes long to decode, however small it is; usual are ten.
constexpr int kMaxScans = 100;

// Where libjpeg goes on when it fails: it cannot pass exceptions through its own code.
struct JpegFailure : jpeg_error_mgr {
  std::jmp_buf back;
  char text[JMSG_LENGTH_MAX];
};

[[noreturn]] void on_jpeg_error(j_common_ptr info) {
  auto* failure = static_cast<JpegFailure*>(info->err);
  failure->format_message(info, failure->text);
  std::longjmp(failure->back, 1);
}

// libjpeg makes up pixels where the file lacks them, and warns. To us that is an error.
void on_jpeg_message(j_common_ptr info, int level) {
  if (level >= 0) return;  // not a warning
  switch (info->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
      on_jpeg_error(info);
    default:
      return;
  }
}

void on_jpeg_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  auto* failure = static_cast<JpegFailure*>(info->err);
  std::snprintf(failure->text, sizeof failure->text, "it has more than %d scans", kMaxScans);
  std::longjmp(failure->back, 1);
}

class JpegDecoder {
 public:
  explicit JpegDecoder(const std::string& name) : name_(name) {
    info_.err = jpeg_std_error(&failure_);
    failure_.error_exit = on_jpeg_error;
    failure_.emit_message = on_jpeg_message;
    run([&] { jpeg_create_decompress(&info_); });
    progress_.progress_monitor = on_jpeg_progress;
    info_.progress = &progress_;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  jpeg_decompress_struct& info() { return info_; }

  // Nothing in `call` may need a destructor: where libjpeg fails, it is left by longjmp.
  template <typename Call>
  void run(const Call& call) {
    if (!finishes(call)) fail("{}: damaged or truncated JPEG: {}", name_, failure_.text);
  }

 private:
  template <typename Call>
  bool finishes(const Call& call) {
    if (setjmp(failure_.back) != 0) return false;
    call();
    return true;
  }

  const std::string& name_;
  jpeg_decompress_struct info_ = {};
  JpegFailure failure_ = {};
  jpeg_progress_mgr progress_ = {};
};

// Cyan, magenta, yellow and black; Adobe's programs store their complements.
Image from_inks(const Image& inks, bool complements, const std::string& name) {
  Image image = make_image(inks.width, inks.height, 3, name);
  const auto pixels = static_cast<size_t>(inks.width) * static_cast<size_t>(inks.height);
  for (size_t i = 0; i < pixels; ++i) {
    const uint8_t* ink = inks.pixels.get() + 4 * i;
    const auto light = [&](int k) { return complements ? ink[k] : 255 - ink[k]; };
    for (int c = 0; c < 3; ++c) {
      image.pixels[3 * i + static_cast<size_t>(c)] =
          static_cast<uint8_t>((light(c) * light(3) + 127) / 255);
    }
  }
  return image;
}

}  // namespace

Image decode_jpeg(std::span<const std::byte> bytes, const std::string& name,
                  const ImageShape& wanted) {
  JpegDecoder decoder(name);
  jpeg_decompress_struct& info = decoder.info();
  decoder.run([&] {
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_read_header(&info, TRUE);
  });
  check_pixels(info.image_width, info.image_height, name);
  const bool inks = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  const bool grey = info.jpeg_color_space == JCS_GRAYSCALE || wanted.channels == 1;
  info.out_color_space = inks ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
  info.scale_denom = 8;
  const auto large_enough = [&](unsigned scale) {
    return uint64_t{info.image_width} * scale >=
               uint64_t{16} * static_cast<unsigned>(wanted.width) &&
           uint64_t{info.image_height} * scale >=
               uint64_t{16} * static_cast<unsigned>(wanted.height);
  };
  for (info.scale_num = 1; info.scale_num < 8 && !large_enough(info.scale_num);) {
    info.scale_num *= 2;
  }
  decoder.run([&] { jpeg_start_decompress(&info); });
  Image image = make_image(info.output_width, info.output_height, info.output_components, name);
  decoder.run([&] {
    const size_t row = size_t{info.output_width} * static_cast<size_t>(info.output_components);
    while (info.output_scanline < info.output_height) {
      JSAMPROW to = image.pixels.get() + info.output_scanline * row;
      jpeg_read_scanlines(&info, &to, 1);
    }
    jpeg_finish_decompress(&info);
  });
  return inks ? from_inks(image, info.saw_Adobe_marker != 0, name) : std::move(image);
}

}  // namespace adaptdl::data
