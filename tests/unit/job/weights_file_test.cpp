#include "core/job/weights_file.h"

#include <algorithm>
#include <cstring>
#include <doctest/doctest.h>
#include <unistd.h>

#include "core/job/weights_export.h"
#include "tests/unit/base/expect_error.h"
#include "tests/unit/formats/make_zip.h"

namespace weights_file_test {

using namespace adaptdl;
using namespace std::string_literals;

namespace {

// training_archive_test.cpp says what is in it.
const std::string kSample = std::string(ADAPTDL_SOURCE_DIR) + "/tests/unit/job/sample.pt";

const StoredTensor& find(const WeightsFile& weights, const std::string& name) {
  const auto found = std::find_if(weights.tensors.begin(), weights.tensors.end(),
                                  [&](const StoredTensor& tensor) { return tensor.name == name; });
  REQUIRE(found != weights.tensors.end());
  return *found;
}

std::vector<StoredTensor> read(const std::string& bytes) {
  return read_weights(std::as_bytes(std::span(bytes)), "w.pt");
}

// An entry of a dictionary: tensor `name` of float32 in storage "0" of `elements`.
std::string entry(const std::string& name, const std::string& sizes_and_strides) {
  return "X"s + char(name.size()) + "\0\0\0"s + name + "ctorch._utils\n_rebuild_tensor_v2\n((" +
         "X\x07\0\0\0storage"s + "ctorch\nFloatStorage\n" + "X\x01\0\0\0"s + "0" +
         "X\x03\0\0\0cpu"s + "K\x04tQ" + sizes_and_strides +
         "\x89"
         "ccollections\nOrderedDict\n)RtR";
}

const std::string kFour = "K\0(K\x04t(K\x01t"s;  // offset 0, [4], [1]

std::string archive_of(const std::string& pickle, bool compressed = false) {
  return make_zip({{"m/data/0", "0123456789abcdef", compressed}, {"m/data.pkl", pickle}});
}

}  // namespace

TEST_CASE("parameters and buffers of a model are found, other tensors are not") {
  const WeightsFile weights = open_weights(kSample);
  CHECK(weights.tensors.size() == 8);
  const StoredTensor& weight = find(weights, "layer.weight");
  CHECK(weight.shape == std::vector<int64_t>{10, 4});
  CHECK(weight.contiguous());
  CHECK(weight.size() == 160);
  CHECK(weight.bytes.size() == 160);
  CHECK(find(weights, "tied.weight").same_as == "layer.weight");
  CHECK(find(weights, "tied.weight").bytes.data() == weight.bytes.data());
  CHECK(find(weights, "scale").element_bytes == 2);
  // A transposed tensor is written row by row.
  const StoredTensor& half = find(weights, "half");
  CHECK_FALSE(half.contiguous());
  const std::string dense = dense_bytes(half);
  REQUIRE(dense.size() == 12);
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 2; ++column) {
      CHECK(std::memcmp(dense.data() + 2 * (2 * row + column),
                        half.bytes.data() + 2 * (row + 3 * column), 2) == 0);
    }
  }
}

TEST_CASE("weights survive every format") {
  const TemporaryDirectory folder;
  const WeightsFile original = open_weights(kSample);
  std::string from = kSample;
  // Each file is made from the one before.
  for (const char* name : {"a.safetensors", "b.pt", "c.safetensors", "d.pth"}) {
    const std::string to = folder.file(name);
    export_weights(open_weights(from), weights_format(to), to);
    const WeightsFile again = open_weights(to);
    REQUIRE(again.tensors.size() == original.tensors.size());
    for (const StoredTensor& tensor : original.tensors) {
      const StoredTensor& other = find(again, tensor.name);
      CHECK(other.dtype == tensor.dtype);
      CHECK(other.shape == tensor.shape);
      CHECK(other.contiguous());
      CHECK(dense_bytes(other) == dense_bytes(tensor));
    }
    from = to;
  }
  CHECK(list_directory(folder.path()).size() == 4);
}

TEST_CASE("an export goes where a symlink leads") {
  const TemporaryDirectory folder;
  const std::string link = folder.file("a.pt");
  REQUIRE(::symlink("b.pt", link.c_str()) == 0);
  export_weights(open_weights(kSample), WeightsFormat::state_dict, link);
  CHECK(followed_links(link) == folder.file("b.pt"));
  CHECK_FALSE(open_weights(folder.file("b.pt")).tensors.empty());
}

TEST_CASE("tied tensors share their elements in a dictionary") {
  const TemporaryDirectory folder;
  const std::string to = folder.file("a.pt");
  export_weights(open_weights(kSample), WeightsFormat::state_dict, to);
  const WeightsFile again = open_weights(to);
  CHECK(find(again, "tied.weight").bytes.data() == find(again, "layer.weight").bytes.data());
}

TEST_CASE("a matrix and its transpose are two tensors, though they share their elements") {
  // Float32 [2, 2] of storage "0", by rows and by columns, and the first name again.
  const std::string by_rows = "K\0(K\2K\2t(K\2K\1t"s, by_columns = "K\0(K\2K\2t(K\1K\2t"s;
  const std::string code =
      "class M(Module):\n  __parameters__ = [\"w\", \"v\", ]\n  __buffers__ = [\"t\", ]\n"
      "  w : Tensor\n  def training_step(self: __torch__.M,\n";
  const std::string model =
      make_zip({{"m/data/0", "0123456789abcdef"},
                {"m/data.pkl",
                 "\x80\x02"
                 "c__torch__\nM\n)\x81}(" +
                     entry("w", by_rows) + entry("t", by_columns) + entry("v", by_rows) + "ub."},
                {"m/code/__torch__.py", code}});
  const std::vector<StoredTensor> tensors = read(model);
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[1].same_as.empty());
  CHECK(tensors[2].same_as == "w");
  const TemporaryDirectory folder;
  const std::string to = folder.file("a.pt");
  export_weights({"m.pt", tensors, nullptr}, WeightsFormat::state_dict, to);
  const WeightsFile again = open_weights(to);
  CHECK(dense_bytes(find(again, "w")) == "0123456789abcdef");
  CHECK(dense_bytes(find(again, "t")) == "012389ab4567cdef");
}

TEST_CASE("a quantised model is refused: its scales are not in a dictionary of tensors") {
  const TemporaryDirectory folder;
  for (const char* type : {"qint8", "quint8", "qint32"}) {
    WeightsFile weights = open_weights(kSample);
    weights.tensors[0].dtype = type;
    CHECK_ERROR(
        export_weights(weights, WeightsFormat::state_dict, folder.file("a.pt")),
        "layer.weight has the type "s + type + ": a dictionary of plain tensors would lose");
  }
  CHECK(list_directory(folder.path()).empty());
}

TEST_CASE("a failed export leaves the old file and no part") {
  const TemporaryDirectory folder;
  const std::string to = folder.file("a.safetensors");
  write_file_atomic(to, "old");
  WeightsFile weights = open_weights(kSample);
  weights.tensors[0].dtype = "qint8";
  CHECK_ERROR(export_weights(weights, WeightsFormat::safetensors, to), "layer.weight");
  CHECK(list_directory(folder.path()) == std::vector<std::string>{"a.safetensors"});
  CHECK(read_file(to, 10) == "old");
  CHECK_THROWS_AS(weights_format("model.onnx"), UsageError);
}

TEST_CASE("a dictionary is read, ordered or not, with what Python adds to it") {
  const std::string plain = archive_of("\x80\x02}(" + entry("w", kFour) + "u.");
  REQUIRE(read(plain).size() == 1);
  CHECK(dense_bytes(read(plain)[0]) == "0123456789abcdef");
  const std::string ordered = archive_of(
      "\x80\x02"
      "ccollections\nOrderedDict\n)R(" +
      entry("w", kFour) + entry("v", "K\x01(K\x02t(K\x02t"s) + "u}X\x09\0\0\0_metadata}sb."s);
  REQUIRE(read(ordered).size() == 2);
  CHECK(read(ordered)[1].name == "v");
  CHECK(dense_bytes(read(ordered)[1]) == "4567cdef");
}

TEST_CASE("what is no file of weights is refused") {
  CHECK_ERROR(read(""), "w.pt: not a valid safetensors file");
  CHECK_ERROR(read("PK"), "w.pt");
  CHECK_ERROR(read(archive_of("\x80\x02K\1.")), "neither a model nor a dictionary");
  CHECK_ERROR(read(archive_of("\x80\x02}X\1\0\0\0aK\1s."s)), "entry 0 of its dictionary");
  CHECK_ERROR(read(archive_of("\x80\x02}(" + entry("w", "K\1(K\x04t(K\1t"s) + "u.")),
              "larger than its data");
  CHECK_ERROR(read(archive_of("\x80\x02}(" + entry("w", "K\0(K\x7fK\x7ft(K\0K\0t"s) + "u.")),
              "repeats its elements");
  CHECK_ERROR(read(archive_of("\x80\x02}(" + entry("w", kFour) + "u.", true)), "is compressed");
  CHECK_ERROR(read(make_zip({{"m/data.pkl", "\x80\x02}."}, {"m/byteorder", "big"}})),
              "another byte order");
}

}  // namespace weights_file_test
