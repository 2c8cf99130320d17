#include "core/formats/safetensors.h"

#include <doctest/doctest.h>

#include "core/base/error.h"

namespace safetensors_test {

using namespace adaptdl;

namespace {

std::string file_of(const std::string& header, const std::string& elements) {
  std::string length;
  for (int i = 0; i < 8; ++i) length += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return length + header + elements;
}

std::vector<SafeTensor> parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file.data(), file.size())), "x.safetensors");
}

std::string refusal(const std::string& file) {
  try {
    parse(file);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void check_contains(const std::string& text, const std::string& part) {
  CHECK_MESSAGE(text.find(part) != std::string::npos, "'" << text << "' lacks '" << part << "'");
}

}  // namespace

TEST_CASE("a file is read in the order of its elements") {
  // As written by the Python library, padded with blanks.
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,1],"data_offsets":[8,12]},)"
      R"("a":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("e":{"dtype":"F32","shape":[0,7],"data_offsets":[12,12]}}   )";
  const auto tensors = parse(file_of(header, "12345678abcd"));
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[0].name == "a");
  CHECK(tensors[0].dtype == "int64");
  CHECK(tensors[0].shape.empty());
  CHECK(tensors[0].offset == 8 + header.size());
  CHECK(tensors[0].size == 8);
  CHECK(tensors[1].name == "b");
  CHECK(tensors[1].dtype == "bfloat16");
  CHECK(tensors[1].shape == std::vector<int64_t>{2, 1});
  CHECK(tensors[2].name == "e");
  CHECK(tensors[2].size == 0);
  CHECK(parse(file_of("{}", "")).empty());
}

TEST_CASE("what is written is read back") {
  const std::vector<SafeTensor> tensors = {{"w \"q\"", "float32", {3, 2}, 0, 24},
                                           {"flag", "bool", {5}, 0, 5},
                                           {"none", "float16", {0}, 0, 0}};
  const std::string header = safetensors_header(tensors, "model.pt");
  CHECK(header.size() % 8 == 0);
  const auto again = parse(header + std::string(29, 'x'));
  REQUIRE(again.size() == 3);
  for (size_t i = 0; i < tensors.size(); ++i) {
    CHECK(again[i].name == tensors[i].name);
    CHECK(again[i].dtype == tensors[i].dtype);
    CHECK(again[i].shape == tensors[i].shape);
  }
  CHECK(again[1].offset == header.size() + 24);
  CHECK_THROWS_AS(safetensors_header({{"q", "qint8", {1}, 0, 1}}, "m"), Error);
  CHECK_THROWS_AS(safetensors_header({{"a", "int8", {1}, 0, 1}, {"a", "int8", {1}, 0, 1}}, "m"),
                  Error);
}

TEST_CASE("every truncation is refused") {
  const std::string whole =
      safetensors_header({{"a", "float32", {2}, 0, 8}}, "m") + std::string(8, 'x');
  CHECK(refusal(whole).empty());
  for (size_t size = 0; size < whole.size(); ++size) {
    CHECK_FALSE(refusal(whole.substr(0, size)).empty());
  }
  check_contains(refusal(whole + "y"), "1 bytes follow its tensors");
}

TEST_CASE("what contradicts itself is refused") {
  const auto one = [](const std::string& fields, const std::string& elements = "abcdefgh") {
    return refusal(file_of(R"({"t":{)" + fields + "}}", elements));
  };
  check_contains(one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
                 "does not fit its shape");
  check_contains(one(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])"), "not in the file");
  check_contains(one(R"("dtype":"F32","shape":[0],"data_offsets":[8,0])"), "not in the file");
  check_contains(one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), "impossible shape");
  check_contains(one(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), "gap");
  check_contains(one(R"("dtype":"F99","shape":[2],"data_offsets":[0,8])"), "type F99");
  check_contains(one(R"("dtype":"F32","shape":[2])"), "data_offsets is missing");
  check_contains(one(R"("dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,8])"),
                 "does not fit its shape");
  check_contains(refusal(file_of(R"({"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},)"
                                 R"("b":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})",
                                 "abcd")),
                 "overlap");
  check_contains(refusal(file_of("[]", "")), "not a JSON object");
  check_contains(refusal(file_of("{", "")), "header");
  check_contains(refusal(std::string(8, '\xff') + "{}"), "its header would have");
  check_contains(refusal(file_of(R"({"t":3})", "")), "not an object");
}

}  // namespace safetensors_test
