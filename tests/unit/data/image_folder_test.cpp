#include "runtime/data/image_folder.h"

#include <doctest/doctest.h>
#include <filesystem>

#include "runtime/data/watched_file.h"
#include "tests/unit/data/fixtures.h"
#include "tests/unit/data/make_image.h"

using namespace adaptdl::data;
using adaptdl::DataSource;
using adaptdl::DataSpec;
using adaptdl::TemporaryDirectory;
using namespace fixtures;

namespace {

std::string square(uint8_t grey) {
  return png(painted(4, 4, 1, [&](int, int, int) { return grey; }));
}

// Writes files into folders, which are made.
void put(const TemporaryDirectory& folder, const std::string& name, const std::string& content) {
  adaptdl::make_directories(adaptdl::parent_directory(folder.file(name)));
  write(folder, name, content);
}

DataSource images(const std::string& path, std::vector<int64_t> shape = {1, 2, 2}) {
  DataSource source;
  source.format = DataSource::Format::images;
  source.path = path;
  source.shape = std::move(shape);
  return source;
}

DataSource labels(const std::string& path) {
  DataSource source;
  source.format = DataSource::Format::image_labels;
  source.path = path;
  return source;
}

}  // namespace

TEST_CASE("image folders: images in the order of their names, with their classes") {
  const TemporaryDirectory folder;
  put(folder, "t/b/2.png", square(30));
  put(folder, "t/b/10.JPG", square(20));  // what it is, its bytes tell
  put(folder, "t/a/deep/x.jpeg", grey_jpeg(painted(4, 4, 1, [](int, int, int) { return 10; })));
  put(folder, "t/a-b/1.png", square(15));
  put(folder, "t/a/notes.txt", "no image");
  put(folder, "t/a/.hidden.png", "no image");
  put(folder, "elsewhere/y.png", square(12));
  std::filesystem::create_directory_symlink(folder.file("elsewhere"), folder.file("t/a/link"));

  DataSpec spec;
  spec.train = {images("t"), labels("t")};
  const Data data = open_data(spec, folder.path());
  const auto& columns = data.train.columns();
  CHECK(columns[0]->shape() == std::vector<int64_t>{1, 2, 2});
  CHECK(columns[0]->dtype() == DType::uint8);
  const std::vector<uint8_t> pixels = rows<uint8_t>(*columns[0], {0, 1, 2, 3, 4});
  std::vector<int> greys;
  for (size_t i = 0; i < pixels.size(); i += 4) greys.push_back(pixels[i]);
  CHECK(greys == std::vector<int>{10, 12, 15, 20, 30});
  CHECK(rows<int64_t>(*columns[1], {0, 1, 2, 3, 4}) == std::vector<int64_t>{0, 0, 1, 2, 2});

  DataSource scaled = images(folder.file("t"));
  scaled.dtype = "float32";
  scaled.scale = 0.5;
  scaled.offset = 1;
  CHECK(rows<float>(*open_column(scaled, ""), {4})[0] == 16.0f);
}

TEST_CASE("image folders: errors name the file") {
  const TemporaryDirectory folder;
  const auto error = [&](const DataSource& source) {
    return error_of([&] { open_column(source, folder.path()); });
  };
  CHECK(contains(error(images("gone")), "gone: folder of images not found"));
  adaptdl::make_directories(folder.file("t"));
  CHECK(contains(error(images("t")), "holds no images"));
  put(folder, "t/a/1.png", square(1));
  CHECK(contains(error(images("t/a/1.png")), "is a file"));
  CHECK(contains(error(images("t", {2, 4, 4})), "need `shape`"));
  adaptdl::make_directories(folder.file("t/none"));
  CHECK(error(images("t")).empty());
  CHECK(contains(error(labels("t")), "t/none: holds no images"));
  put(folder, "t/none/1.png", square(1));
  put(folder, "t/stray.png", square(1));
  CHECK(contains(error(labels("t")), "t/stray.png: is in no folder of a class"));
  put(folder, "t/a/x.webp", "");
  CHECK(contains(error(images("t")), "x.webp: images of this format are not read"));
  put(folder, "u/a/1.png", square(1));
  std::filesystem::create_directory_symlink(folder.file("u"), folder.file("u/a/loop"));
  CHECK(contains(error(images("u")), "loop: a symlink leads back"));
  put(folder, "v/a/1.png", "no image");
  const auto column = open_column(images("v"), folder.path());
  CHECK(contains(error_of([&] { rows<uint8_t>(*column, {0}); }), "v/a/1.png: is neither"));
  adaptdl::remove_tree(folder.file("v/a/1.png"));
  CHECK_THROWS_AS(rows<uint8_t>(*column, {0}), DataChanged);
}

TEST_CASE("image folders: an integer type takes no fraction") {
  const TemporaryDirectory folder;
  put(folder, "t/a/1.png", square(1));
  DataSource source = images("t");
  source.scale = 1.0 / 255;
  CHECK(contains(error_of([&] { open_column(source, folder.path()); }), "set dtype: float32"));
}

TEST_CASE("image folders: another image or class is another data set") {
  const TemporaryDirectory folder;
  for (const char* name : {"t/cat/1.png", "t/dog/1.png", "copy/cat/1.png", "copy/dog/1.png"}) {
    put(folder, name, square(1));
  }
  const auto print = [&](const char* path) {
    DataSpec spec;
    spec.train = {images(path), labels(path)};
    return open_data(spec, folder.path()).train.fingerprint();
  };
  const Fingerprint before = print("t");
  CHECK(before.samples == 2);
  CHECK(print("copy") == before);
  put(folder, "t/dog/2.png", square(1));
  CHECK(print("t").samples == 3);
  CHECK(print("t").content != before.content);
  std::filesystem::rename(folder.file("copy/cat"), folder.file("copy/ant"));
  CHECK(print("copy").samples == 2);
  CHECK(print("copy").content != before.content);
}

TEST_CASE("image folders: training and validation need the same classes") {
  const TemporaryDirectory folder;
  for (const char* name : {"t/cat/1.png", "t/dog/1.png", "v/cat/1.png", "v/eel/1.png"}) {
    put(folder, name, square(1));
  }
  DataSpec spec;
  spec.train = {images("t"), labels("t")};
  spec.validation = {images("v"), labels("v")};
  CHECK(contains(error_of([&] { open_data(spec, folder.path()); }),
                 "number 1 is \"dog\" and \"eel\""));
  std::filesystem::rename(folder.file("v/eel"), folder.file("v/dog"));
  CHECK(open_data(spec, folder.path()).validation->size() == 2);
}
