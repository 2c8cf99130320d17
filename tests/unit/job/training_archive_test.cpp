#include "core/job/training_archive.h"

#include <doctest/doctest.h>
#include <random>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/job/pickle.h"
#include "core/job/training_spec.h"
#include "tests/unit/formats/make_zip.h"

namespace training_archive_test {

using namespace adaptdl;
using namespace std::string_literals;

namespace {

// Made by LibTorch 2.11's torch::jit::Module::save: Model with the module `layer` (weight, bias,
// running), `tied` the same module, a bfloat16 scalar `scale`, a transposed half buffer `half`, and
// attributes of other types.
const std::string kSample = std::string(ADAPTDL_SOURCE_DIR) + "/tests/unit/job/sample.pt";

std::string sample_bytes() {
  return read_file(kSample, 1 << 20);
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string refusal(const std::string& archive) {
  try {
    inspect_archive(bytes_of(archive), "train.pt");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void check_contains(const std::string& text, const std::string& part) {
  CHECK_MESSAGE(text.find(part) != std::string::npos, "'" << text << "' lacks '" << part << "'");
}

const char* const kCode =
    "class M(Module):\n  __parameters__ = [\"w\", ]\n  __buffers__ = []\n"
    "  w : Tensor\n  def training_step(self: __torch__.M,\n";

// The pickle of a module M with one tensor w: float32 [elements] of storage "0".
std::string pickle_of(const std::string& sizes_and_strides, const std::string& storage = "0",
                      const std::string& type = "FloatStorage") {
  std::string text =
      "\x80\x02"
      "c__torch__\nM\n)\x81}(X";
  text += "\x01\0\0\0w"s + "ctorch._utils\n_rebuild_tensor_v2\n((";
  text += "X\x07\0\0\0storage"s + "ctorch\n" + type + "\n";
  text += "X\x01\0\0\0"s + storage + "X\x03\0\0\0cpu"s + "K\x04tQ";
  text += sizes_and_strides +
          "\x89"
          "ccollections\nOrderedDict\n)RtRub.";
  return text;
}

std::string archive_of(const std::string& pickle, const std::string& data = std::string(16, 'x')) {
  return make_zip({{"m/data/0", data}, {"m/data.pkl", pickle}, {"m/code/__torch__.py", kCode}});
}

const std::string kFour = "K\0(K\x04t(K\x01t"s;  // offset 0, [4], [1]

}  // namespace

TEST_CASE("a sample made by LibTorch is listed") {
  const ArchiveSummary summary = inspect_archive(kSample);
  CHECK(summary.model == "__torch__.digits.Model");
  CHECK(summary.methods == std::vector<std::string>{"forward", "training_step", "validation_step"});
  CHECK(summary.has_method("training_step"));
  CHECK_FALSE(summary.has_method("training"));
  REQUIRE(summary.tensors.size() == 9);
  const auto expect = [&](size_t index, ArchiveTensor::Kind kind, const char* name,
                          const char* dtype, std::vector<int64_t> shape, uint64_t bytes,
                          const char* same_as) {
    const ArchiveTensor& tensor = summary.tensors[index];
    CHECK(tensor.kind == kind);
    CHECK(tensor.name == name);
    CHECK(tensor.dtype == dtype);
    CHECK(tensor.shape == shape);
    CHECK(tensor.bytes == bytes);
    CHECK(tensor.same_as == same_as);
  };
  using enum ArchiveTensor::Kind;
  expect(0, parameter, "layer.weight", "float32", {10, 4}, 160, "");
  expect(1, parameter, "layer.bias", "float32", {10}, 40, "");
  expect(2, buffer, "layer.running", "int64", {3}, 24, "");
  expect(3, parameter, "tied.weight", "float32", {10, 4}, 160, "layer.weight");
  expect(6, parameter, "scale", "bfloat16", {}, 2, "");
  expect(7, buffer, "half", "float16", {3, 2}, 12, "");
  expect(8, attribute, "table", "float64", {5}, 40, "");
  CHECK(summary.parameter_count == 51);
  CHECK(summary.parameter_bytes == 202);
  CHECK(summary.buffer_bytes == 36);
  CHECK(summary.file_bytes == sample_bytes().size());
  CHECK(summary.has_settings);
  CHECK(summary.settings == read_settings(kSample));
  CHECK(parse_training_spec(summary.settings, "adaptdl.yaml").batch.initial == 4);
}

TEST_CASE("all files that an archive was saved with are read") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("train.pt");
  write_file_atomic(path, make_zip({{"m/data.pkl", pickle_of(kFour)},
                                    {"m/extra/adaptdl.yaml", "a: 1"},
                                    {"m/extra/text/labels.txt", "cat"}}));
  CHECK(read_extra_files(path) ==
        std::map<std::string, std::string>{{"adaptdl.yaml", "a: 1"}, {"text/labels.txt", "cat"}});
  CHECK(read_extra_files(kSample).at("adaptdl.yaml") == read_settings(kSample));
}

TEST_CASE("every truncation of an archive is refused") {
  const std::string whole = sample_bytes();
  for (size_t size = 0; size < whole.size(); size += 7) {
    CHECK_FALSE(refusal(whole.substr(0, size)).empty());
  }
}

TEST_CASE("what is no training archive is refused with what to do") {
  const TemporaryDirectory folder;
  const auto settings_refusal = [&](const std::string& content) {
    write_file_atomic(folder.file("train.pt"), content);
    try {
      read_settings(folder.file("train.pt"));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  check_contains(settings_refusal("not an archive"), "train.pt: ");
  check_contains(settings_refusal(make_zip({{"a.txt", "x"}})), "torch.jit.save");
  check_contains(settings_refusal(archive_of(pickle_of(kFour))), "_extra_files");
  CHECK_THROWS_AS(read_settings(folder.file("none.pt")), Error);
  check_contains(refusal(make_zip({{"m/data.pkl", pickle_of(kFour)}})), "torch.jit.script");
  check_contains(refusal(archive_of("\x80\x02].")), "no module");
}

TEST_CASE("tensors stay inside their data") {
  CHECK(refusal(archive_of(pickle_of(kFour))).empty());
  const auto larger = std::string("larger than its data");
  check_contains(refusal(archive_of(pickle_of(kFour), std::string(15, 'x'))), larger);
  check_contains(refusal(archive_of(pickle_of("K\x01(K\x04t(K\x01t"s))), larger);
  check_contains(refusal(archive_of(pickle_of("K\0(K\x04t(K\x02t"s))), larger);
  check_contains(refusal(archive_of(pickle_of("K\0(K\x04t(t"s))), larger);
  // 2^40 x 2^40 elements with strides 0
  const std::string huge = "\x8a\x06\0\0\0\0\0\x01"s;
  check_contains(refusal(archive_of(pickle_of("K\0("s + huge + huge + "t(K\0K\0t"s))), larger);
  check_contains(refusal(archive_of(pickle_of("J\xff\xff\xff\xff(t(t"s))), "impossible size");
  check_contains(refusal(archive_of(pickle_of(kFour, "7"))), "missing");
}

TEST_CASE("a type of a later LibTorch is listed by its name") {
  const ArchiveSummary summary =
      inspect_archive(bytes_of(archive_of(pickle_of(kFour, "0", "NewStorage"))), "train.pt");
  CHECK(summary.tensors.at(0).dtype == "NewStorage");
  CHECK(summary.tensors.at(0).bytes == 16);
}

TEST_CASE("a module inside itself is refused") {
  // memo 0 = the object; its state {"w": object}
  const std::string pickle =
      "\x80\x02"
      "c__torch__\nM\n)\x81q\0}X\x01\0\0\0wh\0sb."s;
  check_contains(refusal(archive_of(pickle)), "nested more than");
}

TEST_CASE("pickles: every truncation and every wrong operation is refused, none runs anything") {
  const std::string pickle = pickle_of(kFour);
  CHECK_NOTHROW(PickleTree(pickle, "data.pkl"));
  for (size_t size = 0; size < pickle.size(); ++size) {
    CHECK_THROWS_AS(PickleTree(std::string_view(pickle).substr(0, size), "data.pkl"), Error);
  }
  using namespace std::string_view_literals;
  for (const std::string_view bad :
       {""sv, "\x80\x04N."sv, "\x80\x02."sv, "\x80\x02NN."sv, "\x80\x02(N."sv, "\x80\x02t."sv,
        "\x80\x02(\x85."sv, "\x80\x02h\0."sv, "\x80\x02q\0."sv, "\x80\x02NNR."sv, "\x80\x02]Ns."sv,
        "\x80\x02}(Nu."sv, "\x80\x02NNb."sv,
        "\x80\x02"
        "cos\nsystem."sv,
        "\x80\x02X\xff\xff\xff\xffx."sv, "\x80\x02\x8a\x09xxxxxxxxx."sv,
        "\x80\x02"
        "cos\nsystem\n(X\x02\0\0\0lso."sv}) {
    CHECK_THROWS_AS(PickleTree(bad, "data.pkl"), Error);
  }
  // A call stays a description of a call.
  const PickleTree tree(
      "\x80\x02"
      "cos\nsystem\n(X\x02\0\0\0lstR."sv,
      "data.pkl");
  CHECK(tree.root().kind == PickleValue::Kind::call);
  CHECK(tree.at(tree.root().items[0]).text == "os\nsystem");
}

TEST_CASE("pickles: numbers, and a bound on values") {
  using namespace std::string_view_literals;
  const auto integer = [](std::string_view pickle) {
    return PickleTree(pickle, "data.pkl").root().integer;
  };
  CHECK(integer("\x80\x02K\xff."sv) == 255);
  CHECK(integer("\x80\x02M\x01\x02."sv) == 513);
  CHECK(integer("\x80\x02J\xff\xff\xff\xff."sv) == -1);
  CHECK(integer("\x80\x02\x8a\0."sv) == 0);
  CHECK(integer("\x80\x02\x8a\x01\xff."sv) == -1);
  CHECK(integer("\x80\x02\x8a\x06\0\0\0\0\0\x01."sv) == int64_t{1} << 40);
  CHECK(integer("\x80\x02\x8a\x08\0\0\0\0\0\0\0\x80."sv) == INT64_MIN);
  CHECK(PickleTree("\x80\x02G\x3f\xe0\0\0\0\0\0\0."sv, "data.pkl").root().real == 0.5);
  const std::string many = "\x80\x02(" + std::string(1000, 'N') + "t.";
  CHECK_NOTHROW(PickleTree(many, "data.pkl", 1001));
  CHECK_THROWS_AS(PickleTree(many, "data.pkl", 1000), Error);
}

TEST_CASE("random damage never does worse than a refusal") {
  const std::string whole = sample_bytes();
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string bad = whole;
    for (int n = 0; n < 3; ++n) bad[random() % bad.size()] = static_cast<char>(random());
    refusal(bad);
    std::string pickle = pickle_of(kFour);
    pickle[random() % pickle.size()] = static_cast<char>(random());
    refusal(archive_of(pickle));
  }
}

}  // namespace training_archive_test
