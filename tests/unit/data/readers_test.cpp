#include "runtime/data/formats/readers.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <random>

#include "runtime/data/spill.h"
#include "tests/unit/data/fixtures.h"
#include "tests/unit/formats/make_zip.h"

using namespace adaptdl::data;
using adaptdl::TemporaryDirectory;
using namespace fixtures;

namespace {

Array npy_array(const std::string& file) {
  return read_npy(bytes(file), "x.npy", nullptr);
}

std::string npy_error(const std::string& file) {
  return error_of([&] { npy_array(file); });
}

template <typename T>
std::vector<T> elements(const Array& array) {
  std::vector<T> result(static_cast<size_t>(array.elements()));
  std::memcpy(result.data(), array.bytes, result.size() * sizeof(T));
  return result;
}

CsvOptions csv_options(DType dtype, int header = 0,
                       std::optional<std::pair<int, int>> columns = {}) {
  return {header, columns, dtype};
}

template <typename T>
std::vector<T> csv(const std::string& text, const CsvOptions& options, int64_t* rows = nullptr) {
  const Array array = read_csv(bytes(text), "x.csv", options);
  if (rows) *rows = array.shape.at(0);
  return elements<T>(array);
}

std::string csv_error(const std::string& text, const CsvOptions& options) {
  return error_of([&] { read_csv(bytes(text), "x.csv", options); });
}

}  // namespace

TEST_CASE("npy: versions, types, byte orders") {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  std::string file = npy("<f4", "(3, 2)", raw(values));
  Array array = npy_array(file);
  CHECK(array.shape == std::vector<int64_t>{3, 2});
  CHECK(array.dtype == DType::float32);
  CHECK_FALSE(array.swapped);
  CHECK(elements<float>(array) == values);
  for (const int version : {2, 3}) {
    file = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", raw(values), version);
    CHECK(elements<float>(npy_array(file)) == values);
  }
  file = npy(">i2", "(2,)", raw(std::vector<int16_t>{1, 2}, true));
  CHECK(npy_array(file).swapped);
  file = npy("|b1", "(2,)", std::string("\1\0", 2));
  CHECK(npy_array(file).dtype == DType::boolean);
  file = npy(">u1", "()", "a");
  array = npy_array(file);
  CHECK(array.shape.empty());
  CHECK_FALSE(array.swapped);
  // Keys in another order and other blanks, as other writers have them.
  file = npy("{\"shape\":(2,1L),'fortran_order':False ,'descr':'<u2'}", "abcd");
  CHECK(npy_array(file).shape == std::vector<int64_t>{2, 1});
}

TEST_CASE("npy: Fortran order is put right") {
  // numpy.asfortranarray([[1, 2, 3], [4, 5, 6]])
  std::string file = npy("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }",
                         raw(std::vector<int32_t>{1, 4, 2, 5, 3, 6}));
  CHECK(elements<int32_t>(npy_array(file)) == std::vector<int32_t>{1, 2, 3, 4, 5, 6});
  // As numpy writes numpy.asfortranarray(numpy.arange(8, dtype='u1').reshape(2, 2, 2)).
  file = npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2, 2), }",
             std::string("\0\4\2\6\1\5\3\7", 8));
  CHECK(elements<uint8_t>(npy_array(file)) == std::vector<uint8_t>{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("npy: hostile headers are refused before memory is taken") {
  CHECK(contains(npy_error("PK"), "not a .npy"));
  CHECK(contains(npy_error(npy("<f4", "(1000000000000,)", "")), "truncated"));
  CHECK(contains(npy_error(npy("<f4", "(4611686018427387904, 4611686018427387904)", "")),
                 "product of its dimensions overflows"));
  CHECK(contains(npy_error(npy("<f4", "(0, 4611686018427387904, 4)", "")), "overflows"));
  CHECK(contains(npy_error(npy("<f4", "(99999999999999999999,)", "")), "damaged"));
  CHECK(contains(npy_error(npy("<f4", "(-1,)", "")), "damaged"));
  CHECK(contains(npy_error(npy("<f4", "(2,)", "abcdefg")), "truncated"));
  CHECK(contains(npy_error(npy("|O", "(2,)", "abcd")), "|O"));
  CHECK(contains(npy_error(npy("<U3", "(2,)", "abcd")), "astype"));
  CHECK(contains(
      npy_error(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "abcd")),
      "structured"));
  CHECK(contains(npy_error(npy("{'descr': '<f4', 'shape': (1,)}", "abcd")), "damaged"));
  CHECK(contains(npy_error(npy("{'descr': '<f4', 'descr': '<f4'}", "abcd")), "unexpected"));
  std::string deep = "(";
  for (int i = 0; i < 40; ++i) deep += "1, ";
  CHECK(contains(npy_error(npy("<f4", deep + ")", "abcd")), "dimensions"));
  std::string file = npy("<f4", "(1,)", "abcd");
  file[6] = 9;
  CHECK(contains(npy_error(file), "version 9"));
  file[6] = 2;  // its length field now covers text
  CHECK_FALSE(npy_error(file).empty());
  file = npy("<f4", "(1,)", "abcd");
  for (size_t length = 0; length < file.size(); ++length) {
    CHECK_FALSE(npy_error(file.substr(0, length)).empty());
  }
}

TEST_CASE("npz: stored members are mapped, compressed ones unpacked") {
  const TemporaryDirectory folder;
  const std::string a = npy("<i4", "(3,)", raw(std::vector<int32_t>{7, 8, 9}));
  const std::string b = npy("<f8", "(500,)", std::string(4000, '\0'));
  const std::string path =
      write(folder, "x.npz", adaptdl::make_zip({{"a.npy", a, false}, {"b.npy", b, true}}, true));
  CHECK(elements<int32_t>(read_npz(path, "a")) == std::vector<int32_t>{7, 8, 9});
  CHECK(elements<int32_t>(read_npz(path, "a.npy")) == std::vector<int32_t>{7, 8, 9});
  CHECK(read_npz(path, "b").shape == std::vector<int64_t>{500});
  CHECK(contains(error_of([&] { read_npz(path, "c"); }), "holds no array \"c\"; it holds a, b"));
  CHECK(contains(error_of([&] { read_npz(path, ""); }), "choose one"));
  const std::string single = write(folder, "y.npz", adaptdl::make_zip({{"b.npy", b, true}}));
  CHECK(read_npz(single, "").name == single + ":b");
}

TEST_CASE("idx: MNIST's format") {
  std::string file = idx(0x08, {2, 3}, "abcdef");
  Array array = read_idx(bytes(file), "x", nullptr);
  CHECK(array.shape == std::vector<int64_t>{2, 3});
  CHECK(array.dtype == DType::uint8);
  file = idx(0x0d, {2}, raw(std::vector<float>{1.5f, -2.0f}, true));
  array = read_idx(bytes(file), "x", nullptr);
  CHECK(array.swapped);
  const auto error = [](const std::string& content) {
    return error_of([&] { read_idx(bytes(content), "x.idx", nullptr); });
  };
  CHECK(contains(error(idx(0x08, {2, 3}, "abcde")), "truncated"));
  CHECK(contains(error(idx(0x08, {2, 3}, "abcdefg")), "follow"));
  CHECK(contains(error(idx(0x07, {2}, "ab")), "type"));
  CHECK(contains(error(idx(0x08, {}, "")), "dimensions"));
  CHECK(contains(error(idx(0x0e, {4294967295u, 4294967295u, 4294967295u}, "")), "overflows"));
  CHECK(contains(error(std::string("\0\0\x08\x03\0\0", 6)), "header is truncated"));
  CHECK(contains(error("\x1f\x8b...."), "gunzip"));
  CHECK(contains(error("hello"), "zero bytes"));
}

TEST_CASE("csv: headings, quotes, blank lines, both line ends") {
  int64_t rows = 0;
  CHECK(csv<float>("a,b\r\n1,2.5\r\n\r\n\"3\" , -4e1\r\n", csv_options(DType::float32, 1), &rows) ==
        std::vector<float>{1, 2.5f, 3, -40});
  CHECK(rows == 2);
  CHECK(csv<int64_t>("1,9007199254740993,x\n2,+3,\"a,\"\"b\n\"\n",
                     csv_options(DType::int64, 0, {{1, 2}}),
                     &rows) == std::vector<int64_t>{9007199254740993, 3});
  CHECK(rows == 2);
  CHECK(csv<double>("\xef\xbb\xbf\t0.1\n", csv_options(DType::float64)) ==
        std::vector<double>{0.1});
  CHECK(csv<int64_t>("3.0\n1e3\n", csv_options(DType::int64)) == std::vector<int64_t>{3, 1000});
  const Array one = read_csv(bytes("1,2\n3,4"), "x", csv_options(DType::float32, 0, {{1, 2}}));
  CHECK(one.shape == std::vector<int64_t>{2});
}

TEST_CASE("csv: errors name the line") {
  const auto floats = csv_options(DType::float32);
  CHECK(contains(csv_error("1,2\n3\n", floats), "x.csv:2: has 1 fields"));
  CHECK(contains(csv_error("1,2\n\n3,b\n", floats), "x.csv:3: column 1 holds \"b\""));
  CHECK(contains(csv_error("1,\n", floats), "column 1 is empty"));
  CHECK(contains(csv_error("1,\"2\n", floats), "x.csv:1: a quote is not closed"));
  CHECK(contains(csv_error("\"1\"2\n", floats), "closing quote"));
  CHECK(contains(csv_error("h\n", csv_options(DType::float32, 1)), "no line"));
  CHECK(contains(csv_error("1,2\n", csv_options(DType::float32, 0, {{1, 3}})), "columns 1:3"));
  CHECK(contains(csv_error("1.5\n", csv_options(DType::int64)), "not an integer"));
  CHECK(contains(csv_error("1e999\n", floats), "out of range"));
  CHECK(contains(csv_error("+-1\n", floats), "not a number"));
  for (const char* field : {"nan", "-NaN", "inf", "-infinity"}) {
    for (const DType dtype : {DType::float32, DType::float64, DType::int64}) {
      CHECK(
          contains(csv_error(fmt::format("1,2\n3,{}\n", field), csv_options(dtype)),
                   fmt::format("x.csv:2: column 1 holds {}; every sample needs a finite", field)));
    }
  }
  CHECK(contains(csv_error("-1e39\n", floats), "x.csv:1: column 0 holds -1e39, which is out of"));
  CHECK(csv<float>("3.4028235e38\n", floats) == std::vector<float>{3.4028235e38f});
  CHECK(csv<double>("1e39\n", csv_options(DType::float64)) == std::vector<double>{1e39});
}

TEST_CASE("spill: many bytes go to a file and come back") {
  for (const size_t threshold : {size_t{1} << 20, size_t{10}}) {
    Spill spill("test", threshold);
    std::vector<std::byte> all;
    std::mt19937 random(3);
    for (int i = 0; i < 200; ++i) {
      std::vector<std::byte> piece(random() % 100);
      for (auto& byte : piece) byte = static_cast<std::byte>(random());
      spill.append(piece);
      all.insert(all.end(), piece.begin(), piece.end());
    }
    CHECK(spill.size() == all.size());
    const auto result = spill.finish();
    CHECK(std::equal(all.begin(), all.end(), result.bytes.begin(), result.bytes.end()));
  }
}
