#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <limits>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/system.h"
#include "runtime/data/convert.h"
#include "runtime/data/dataset.h"
#include "tests/unit/data/fixtures.h"

using namespace adaptdl::data;
using adaptdl::DataSource;
using adaptdl::TemporaryDirectory;
using namespace fixtures;

namespace {

DataSource npy_source(const std::string& path) {
  DataSource source;
  source.path = path;
  return source;
}

std::string open_error(const DataSource& source, const std::string& folder) {
  return error_of([&] { open_column(source, folder); });
}

template <typename To, typename From>
std::vector<To> convert(const std::vector<From>& from, DType type, DType to, double scale = 1,
                        double offset = 0) {
  std::vector<To> result(from.size());
  Converter(type, false, to, scale, offset)(reinterpret_cast<const std::byte*>(from.data()),
                                            static_cast<int64_t>(from.size()),
                                            reinterpret_cast<std::byte*>(result.data()));
  return result;
}

}  // namespace

TEST_CASE("16-bit floats keep every value") {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (!std::isnan(from_float16(half))) CHECK(to_float16(from_float16(half)) == half);
    if (!std::isnan(from_bfloat16(half))) CHECK(to_bfloat16(from_bfloat16(half)) == half);
  }
  CHECK(std::isnan(from_float16(to_float16(NAN))));
  CHECK(std::isnan(from_bfloat16(to_bfloat16(NAN))));
  CHECK(from_float16(0x3c00) == 1.0f);
  CHECK(from_float16(0x0001) == 0x1p-24f);
  CHECK(to_float16(65519.0f) == 0x7bff);
  CHECK(to_float16(65520.0f) == 0x7c00);
  CHECK(to_float16(1.0f + 0x1p-11f) == 0x3c00);  // halfway: to even
  CHECK(to_float16(1.0f + 3 * 0x1p-11f) == 0x3c02);
  CHECK(to_float16(0x1p-25f) == 0);
  CHECK(to_bfloat16(1.0f + 0x1p-8f) == 0x3f80);
}

TEST_CASE("conversions: truncation, saturation, scale") {
  CHECK(convert<int32_t>(std::vector<float>{1.9f, -1.9f, NAN, 1e20f, -1e20f}, DType::float32,
                         DType::int32) ==
        std::vector<int32_t>{1, -1, 0, std::numeric_limits<int32_t>::max(),
                             std::numeric_limits<int32_t>::min()});
  CHECK(convert<int64_t>(std::vector<double>{9.3e18, -9.3e18}, DType::float64, DType::int64) ==
        std::vector<int64_t>{std::numeric_limits<int64_t>::max(),
                             std::numeric_limits<int64_t>::min()});
  CHECK(convert<float>(std::vector<uint8_t>{0, 255}, DType::uint8, DType::float32, 1.0 / 255,
                       -0.5) == std::vector<float>{-0.5f, 0.5f});
  CHECK(convert<uint8_t>(std::vector<double>{0, -3, 0.5}, DType::float64, DType::boolean) ==
        std::vector<uint8_t>{0, 1, 1});
  CHECK(convert<uint8_t>(std::vector<uint8_t>{0, 7}, DType::boolean, DType::boolean) ==
        std::vector<uint8_t>{0, 1});
  const std::vector<int64_t> large = {(int64_t{1} << 62) + 1};
  CHECK(convert<int64_t>(large, DType::int64, DType::int64) == large);
  std::vector<uint16_t> many(2000);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<uint16_t>(i * 31);
  const auto widened = convert<int64_t>(many, DType::uint16, DType::int64);
  for (size_t i = 0; i < many.size(); ++i) CHECK(widened[i] == many[i]);
}

TEST_CASE("a column of a .npy file") {
  const TemporaryDirectory folder;
  std::vector<int16_t> values(24);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int16_t>(i);
  write(folder, "x.npy", npy(">i2", "(4, 2, 3)", raw(values, true)));
  DataSource source = npy_source("x.npy");
  auto column = open_column(source, folder.path());
  CHECK(column->rows() == 4);
  CHECK(column->shape() == std::vector<int64_t>{2, 3});
  CHECK(column->dtype() == DType::int16);
  CHECK(column->name() == folder.file("x.npy"));
  CHECK(rows<int16_t>(*column, {3, 0}) ==
        std::vector<int16_t>{18, 19, 20, 21, 22, 23, 0, 1, 2, 3, 4, 5});
  source.dtype = "float32";
  source.scale = 0.5;
  source.offset = 1;
  source.shape = {6};
  column = open_column(source, folder.path());
  CHECK(rows<float>(*column, {1}) == std::vector<float>{4, 4.5f, 5, 5.5f, 6, 6.5f});
  source.shape = {7};
  CHECK(contains(open_error(source, folder.path()), "(2, 3), which cannot be reshaped to (7)"));
  source.shape = {int64_t{1} << 40, int64_t{1} << 40};
  CHECK(contains(open_error(source, folder.path()), "cannot be reshaped"));
  source.shape = {};
  source.dtype = "float8";
  CHECK(contains(open_error(source, folder.path()), "allowed are float32"));
  source = npy_source("x.npy");
  source.key = "a";
  CHECK(contains(open_error(source, folder.path()), "not a .npz"));
}

TEST_CASE("files that are not there or not right") {
  const TemporaryDirectory folder;
  CHECK(contains(open_error(npy_source("no.npy"), folder.path()), folder.file("no.npy")));
  CHECK(contains(open_error(npy_source("."), folder.path()), "folder"));
  write(folder, "empty", "");
  CHECK(contains(open_error(npy_source("empty"), folder.path()), "empty"));
  write(folder, "scalar.npy", npy("<f4", "()", "abcd"));
  CHECK(contains(open_error(npy_source("scalar.npy"), folder.path()), "single number"));
  write(folder, "hollow.npy", npy("<f4", "(5, 0)", ""));
  CHECK(contains(open_error(npy_source("hollow.npy"), folder.path()), "samples are empty"));
  DataSource tensor = npy_source("empty");
  tensor.format = DataSource::Format::torch;
  CHECK(contains(open_error(tensor, folder.path()), "LibTorch"));
  set_torch_reader([](const std::string& path, const std::string&) {
    static const float values[] = {1, 2};
    return Array{path, DType::float32, false, {2}, reinterpret_cast<const std::byte*>(values), {}};
  });
  CHECK(rows<float>(*open_column(tensor, folder.path()), {1}) == std::vector<float>{2});
  set_torch_reader({});
}

TEST_CASE("uint16 is widened unless told otherwise") {
  const TemporaryDirectory folder;
  write(folder, "t.npy", npy("<u2", "(2,)", raw(std::vector<uint16_t>{1, 65535})));
  DataSource source = npy_source("t.npy");
  CHECK(open_column(source, folder.path())->dtype() == DType::int32);
  CHECK(rows<int32_t>(*open_column(source, folder.path()), {1, 0}) ==
        std::vector<int32_t>{65535, 1});
  source.dtype = "int64";
  CHECK(rows<int64_t>(*open_column(source, folder.path()), {1}) == std::vector<int64_t>{65535});
}

TEST_CASE("windows over one long array") {
  const TemporaryDirectory folder;
  write(folder, "text.npy", npy("|u1", "(10,)", "abcdefghij"));
  DataSource source = npy_source("text.npy");
  source.window = 4;
  source.window_stride = 3;
  auto column = open_column(source, folder.path());
  CHECK(column->rows() == 3);  // abcd defg ghij
  CHECK(column->shape() == std::vector<int64_t>{4});
  CHECK(rows<char>(*column, {2, 1}) == std::vector<char>{'g', 'h', 'i', 'j', 'd', 'e', 'f', 'g'});
  CHECK(open_column(source, folder.path(), 1)->rows() == 2);
  source.window_shift = 1;
  column = open_column(source, folder.path());
  CHECK(rows<char>(*column, {1}) == std::vector<char>{'e', 'f', 'g', 'h'});
  source.window_stride = std::numeric_limits<int64_t>::max();
  CHECK(open_column(source, folder.path())->rows() == 1);
  source.window = 10;
  CHECK(contains(open_error(source, folder.path()), "does not fit"));
  source.window = std::numeric_limits<int64_t>::max();
  source.window_shift = std::numeric_limits<int64_t>::max();
  CHECK(contains(open_error(source, folder.path()), "does not fit"));
}

TEST_CASE("a scale that integers cannot take is refused") {
  const TemporaryDirectory folder;
  write(folder, "x.npy", npy("|u1", "(3,)", "abc"));
  DataSource source = npy_source("x.npy");
  source.scale = 0.0039;
  CHECK(contains(open_error(source, folder.path()),
                 "x.npy: scale 0.0039 needs numbers with a fraction, which uint8 does not hold; "
                 "set dtype: float32"));
  source.scale = 2;
  source.offset = -0.5;
  CHECK(contains(open_error(source, folder.path()), "offset -0.5 needs numbers with a fraction"));
  source.dtype = "float32";
  CHECK(rows<float>(*open_column(source, folder.path()), {0}) == std::vector<float>{193.5f});
  source.dtype = "int64";
  source.offset = -1;
  CHECK(rows<int64_t>(*open_column(source, folder.path()), {0}) == std::vector<int64_t>{193});

  DataSource labels;
  labels.format = DataSource::Format::synthetic;
  labels.synthetic_samples = labels.synthetic_classes = 4;
  labels.scale = 0.1;
  CHECK(contains(open_error(labels, ""), "which int64 does not hold"));
  DataSource numbers;
  numbers.format = DataSource::Format::synthetic;
  numbers.synthetic_samples = 4;
  numbers.scale = 0.1;
  CHECK(open_error(numbers, "").empty());
}

TEST_CASE("csv columns become numbers of the wanted type") {
  const TemporaryDirectory folder;
  write(folder, "x.csv", "a,b,label\n0.5,1,3\n0.25,2,7\n");
  DataSource source = npy_source("x.csv");
  source.format = DataSource::Format::csv;
  source.header_lines = 1;
  source.columns = {{0, 2}};
  CHECK(rows<float>(*open_column(source, folder.path()), {1}) == std::vector<float>{0.25f, 2});
  source.columns = {{2, 3}};
  source.dtype = "int64";
  const auto labels = open_column(source, folder.path());
  CHECK(labels->shape().empty());
  CHECK(rows<int64_t>(*labels, {0, 1}) == std::vector<int64_t>{3, 7});
  source.columns = {{0, 1}};
  source.dtype = "bfloat16";
  CHECK(rows<uint16_t>(*open_column(source, folder.path()), {0}) == std::vector<uint16_t>{0x3f00});
}

TEST_CASE("synthetic data depend on seed and row only") {
  DataSource source;
  source.format = DataSource::Format::synthetic;
  source.synthetic_samples = 5000;
  source.shape = {3, 300};
  source.seed = 4;
  const auto column = open_column(source, "");
  CHECK(column->dtype() == DType::float32);
  const auto all = rows<float>(*column, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  const auto some = rows<float>(*open_column(source, ""), {7, 2});
  CHECK(std::equal(some.begin(), some.begin() + 900, all.begin() + 6300));
  CHECK(std::equal(some.begin() + 900, some.end(), all.begin() + 1800));
  double sum = 0, square = 0;
  for (const float value : all) {
    sum += value;
    square += value * value;
  }
  CHECK(std::abs(sum / 9000) < 0.05);
  CHECK(std::abs(square / 9000 - 1) < 0.05);
  source.synthetic_classes = 10;
  source.shape = {};
  const auto labels = open_column(source, "");
  CHECK(labels->dtype() == DType::int64);
  std::vector<int64_t> which(5000);
  for (int64_t i = 0; i < 5000; ++i) which[static_cast<size_t>(i)] = i;
  std::vector<int> counts(10, 0);
  for (const int64_t label : rows<int64_t>(*labels, which)) {
    REQUIRE(label >= 0);
    REQUIRE(label < 10);
    ++counts[static_cast<size_t>(label)];
  }
  for (const int count : counts) CHECK(std::abs(count - 500) < 110);
  source.synthetic_classes = 0;
  source.dtype = "int64";
  CHECK(contains(open_error(source, ""), "classes"));
  source.dtype = "";
  source.shape = {int64_t{1} << 40, int64_t{1} << 40};
  CHECK_FALSE(open_error(source, "").empty());
}

TEST_CASE("data may be larger than memory") {
  const TemporaryDirectory folder;
  // A sparse file of twice the memory that there is.
  const auto rows = static_cast<int64_t>(2 * adaptdl::available_memory() / 4096);
  const std::string path =
      write(folder, "huge.npy", npy("<i8", "(" + std::to_string(rows) + ", 512)", ""));
  const auto header = static_cast<off_t>(adaptdl::file_size(path));
  const adaptdl::Fd file = adaptdl::open_file(path, O_RDWR);
  REQUIRE(ftruncate(file.get(), header + rows * 4096) == 0);
  const int64_t mark = 42;
  for (const int64_t row : {int64_t{0}, rows / 3, rows - 1}) {
    REQUIRE(pwrite(file.get(), &mark, sizeof mark, header + row * 4096) == sizeof mark);
  }

  const auto column = open_column(npy_source(path), folder.path());
  REQUIRE(column->rows() == rows);
  std::vector<int64_t> wanted = {rows - 1, rows / 3, 0};
  for (int64_t i = 1; i <= 500; ++i) wanted.push_back(i * (rows / 501));
  std::vector<int64_t> out(wanted.size() * 512);
  column->copy_rows(wanted, reinterpret_cast<std::byte*>(out.data()));
  CHECK(out[0] == mark);
  CHECK(out[512] == mark);
  CHECK(out[1024] == mark);
  CHECK(out[1536] == 0);

  // Scattered rows must not bring their surroundings along. Each lies on two pages here.
  int64_t pages_read = 0;
  constexpr int64_t kPiece = 1 << 30;
  for (int64_t at = 0; at < rows * 4096; at += kPiece) {
    void* map = mmap(nullptr, kPiece, PROT_READ, MAP_SHARED, file.get(), at);
    REQUIRE(map != MAP_FAILED);
    std::vector<unsigned char> resident(kPiece / 4096);
    REQUIRE(mincore(map, kPiece, resident.data()) == 0);
    munmap(map, kPiece);
    pages_read += std::count_if(resident.begin(), resident.end(), [](auto c) { return c & 1; });
  }
  CHECK(pages_read < 3000);
}
