// Tensors that torch.save wrote, as data.

#include "runtime/archive/saved_tensor.h"

#include <cstring>
#include <doctest/doctest.h>
#include <fstream>

#include <torch/csrc/jit/serialization/pickle.h>

#include "core/base/files.h"
#include "core/formats/zip.h"
#include "runtime/torch_compat.h"
#include "tests/unit/base/expect_error.h"
#include "tests/unit/formats/make_zip.h"

namespace saved_tensor_test {

using namespace adaptdl;

namespace {

// A file with what torch.save makes of `value` (torch::pickle_save is the same in C++).
std::string save(const TemporaryDirectory& folder, const at::IValue& value) {
  const auto bytes = torch::jit::pickle_save(value);
  const std::string path = join_path(folder.path(), "saved.pt");
  write_file_atomic(path, std::string(bytes.begin(), bytes.end()));
  return path;
}

template <typename T>
std::vector<T> elements(const data::Array& array) {
  std::vector<T> result(static_cast<size_t>(array.elements()));
  std::memcpy(result.data(), array.bytes, result.size() * sizeof(T));
  return result;
}

// The archive at `path` with the content of some members replaced.
void replace(const std::string& path, const std::string& suffix, const std::string& content) {
  const std::string old = read_file(path, 1 << 20);
  const ZipReader zip(std::as_bytes(std::span(old)), path);
  std::vector<ZipInput> members;
  for (const auto& member : zip.members()) {
    const bool hit = member.name.ends_with(suffix);
    members.push_back({member.name, hit ? content : zip.read(member, 1 << 20)});
  }
  write_file_atomic(path, make_zip(members));
}

}  // namespace

TEST_CASE("tensors and dictionaries of them") {
  const TemporaryDirectory folder("adaptdl-saved");
  const at::Tensor numbers = at::arange(12, at::kFloat).view({4, 3});
  auto array = read_saved_tensor(save(folder, numbers), "");
  CHECK((array.shape == std::vector<int64_t>{4, 3}));
  CHECK((array.dtype == data::DType::float32));
  CHECK(elements<float>(array)[11] == 11.0f);

  array = read_saved_tensor(save(folder, numbers.t()), "");  // copied into order
  CHECK((array.shape == std::vector<int64_t>{3, 4}));
  CHECK(elements<float>(array)[1] == 3.0f);

  array = read_saved_tensor(save(folder, numbers.slice(0, 1, 3)), "");
  CHECK((array.shape == std::vector<int64_t>{2, 3}));
  CHECK(elements<float>(array)[0] == 3.0f);

  c10::Dict<std::string, at::Tensor> both;
  both.insert("x", numbers);
  both.insert("y", at::arange(4));
  const std::string path = save(folder, both);
  CHECK(elements<int64_t>(read_saved_tensor(path, "y"))[3] == 3);
  CHECK((read_saved_tensor(path, "x").shape == std::vector<int64_t>{4, 3}));
  CHECK_ERROR(read_saved_tensor(path, ""), "name the entry with `key`");
  CHECK_ERROR(read_saved_tensor(path, "z"), "no entry \"z\"");
  CHECK_ERROR(read_saved_tensor(save(folder, numbers), "x"), "not a dictionary");
}

TEST_CASE("what is no tensor, or not all there, is refused with a sentence") {
  const TemporaryDirectory folder("adaptdl-saved");
  CHECK_ERROR(read_saved_tensor(save(folder, at::IValue("text")), ""), "not a tensor; save");
  const at::Tensor complex = at::zeros({2}, at::kComplexFloat);
  CHECK_ERROR(read_saved_tensor(save(folder, complex), ""), "not supported");

  const std::string path = save(folder, at::arange(100));
  const std::string whole = read_file(path, 1 << 20);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{30}, whole.size() / 2, whole.size() - 1}) {
    write_file_atomic(path, whole.substr(0, size));
    const std::string message = error_of([&] { read_saved_tensor(path, ""); });
    CHECK(contains(message, "saved.pt"));
    CHECK_FALSE(contains(message, "\n"));
  }
  // Sound as an archive, but with fewer elements than its pickle says.
  write_file_atomic(path, whole);
  replace(path, "/data/0", "short");
  CHECK_ERROR(read_saved_tensor(path, ""), "promises 800 bytes of elements, but holds 5");
  write_file_atomic(path, whole);
  replace(path, "/data.pkl", "\x80\x02}.");
  CHECK_ERROR(read_saved_tensor(path, ""), "dictionary");
  replace(path, "/data.pkl", "nonsense");
  CHECK_ERROR(read_saved_tensor(path, ""), "not a tensor written by torch.save");
}

}  // namespace saved_tensor_test
