#include "core/base/error.h"
#include "runtime/data/formats/image.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/data/make_image.h"

using namespace adaptdl;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  for (const data::ImageShape shape : {data::ImageShape{3, 7, 9}, data::ImageShape{1, 2, 2}}) {
    try {
      const data::Image image = data::decode_image(bytes, "fuzz", shape);
      std::vector<uint8_t> out(static_cast<size_t>(shape.channels * shape.height * shape.width));
      data::fit_image(image, shape, out.data());
    } catch (const Error&) {
      // refused: what a wrong file deserves
    }
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  using namespace fixtures;
  const Pixels picture = gradient(33, 18, 3);
  const Pixels inks = gradient(16, 16, 4);
  PngOptions interlaced, palette, deep;
  interlaced.interlace = PNG_INTERLACE_ADAM7;
  palette = {PNG_COLOR_TYPE_PALETTE, 2, PNG_INTERLACE_NONE, {{1, 2, 3}, {4, 5, 6}}, {0}};
  deep = {PNG_COLOR_TYPE_RGB_ALPHA, 16};
  return {{jpeg(picture), jpeg(picture, {JCS_RGB, JCS_YCbCr, true}), grey_jpeg(gradient(9, 9, 1)),
           jpeg(inks, {JCS_CMYK, JCS_YCCK}), png(picture), png(33, 18, picture.values, interlaced),
           png(4, 2, {0x1b, 0xe4}, palette), png(2, 1, std::vector<uint8_t>(16, 7), deep)},
          {"\xff\xd8\xff", "\xff\xc0", "\xff\xc2", "\xff\xc9", "\xff\xc4", "\xff\xda", "\xff\xd9",
           "\xff\xee", "Adobe", "IHDR", "PLTE", "IDAT", "IEND", "tRNS", "\x89PNG\r\n\x1a\n"}};
}
