#include "cli/templates/templates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <utility>

#include "cli/templates/template_data.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/formats/compression.h"

namespace adaptdl::templates {
namespace {

constexpr std::array<Template, 4> kTemplates = {{
    {"digits", "a convolutional net on 1797 real images of handwritten digits", false, true},
    {"chars", "a small transformer that learns to continue a text", true, true},
    {"linear", "linear regression on generated numbers, the smallest example", false, true},
    {"library", "a C++ program with a loop of its own, on the digits", false, false},
}};

constexpr size_t kMaxText = 256u << 20;
constexpr size_t kMinText = 20'000;       // 300 windows of 64 bytes
constexpr size_t kEnoughText = 1u << 20;  // of the texts found on this machine

struct File {
  std::string name, content;
};

// numpy's .npy, version 1.
std::string npy(const std::string& descr, const std::string& shape, std::string_view data) {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  file += data;
  return file;
}

template <typename T>
std::string bytes_of_all(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// data.zst holds 1797 images of 8 x 8 bytes, then 1797 labels of one byte.
std::vector<File> digits() {
  constexpr size_t kCount = 1797, kPixels = 64;
  const std::string_view packed = embedded_file("digits/data.zst");
  const std::string data =
      zstd_decompress({reinterpret_cast<const std::byte*>(packed.data()), packed.size()},
                      kCount * (kPixels + 1), "the digits");
  ADAPTDL_CHECK(data.size() == kCount * (kPixels + 1));
  std::vector<int64_t> labels;
  for (size_t i = kCount * kPixels; i < data.size(); ++i) labels.push_back(data[i]);
  return {{"images.npy", npy("|u1", "(1797, 1, 8, 8)", data.substr(0, kCount * kPixels))},
          {"labels.npy", npy("<i8", "(1797,)", bytes_of_all(labels))}};
}

// Numbers in [-1, 1) from a linear congruential generator (Knuth's MMIX): the same everywhere.
class Numbers {
 public:
  double next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 11) * 0x1p-52 - 1.0;
  }

 private:
  uint64_t state_ = 2;
};

std::vector<File> linear() {
  constexpr size_t kCount = 4096, kInputs = 8;
  Numbers numbers;
  std::vector<double> weights(kInputs);
  for (double& weight : weights) weight = 2.0 * numbers.next();
  std::vector<float> inputs, targets;
  for (size_t i = 0; i < kCount; ++i) {
    double target = 0.5;
    for (const double weight : weights) {
      const double input = numbers.next();
      inputs.push_back(static_cast<float>(input));
      target += weight * input;
    }
    targets.push_back(static_cast<float>(target + 0.1 * numbers.next()));
  }
  return {{"inputs.npy", npy("<f4", "(4096, 8)", bytes_of_all(inputs))},
          {"targets.npy", npy("<f4", "(4096,)", bytes_of_all(targets))}};
}

// The texts of licences that Linux distributions install, the largest first.
std::vector<std::string> licence_texts() {
  namespace fs = std::filesystem;
  std::vector<std::pair<uint64_t, std::string>> found;
  for (const char* folder : {"/usr/share/common-licenses", "/usr/share/licenses"}) {
    std::error_code error;
    fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied,
                                           error);
    for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
      std::error_code unreadable;
      if (entry->is_symlink(unreadable) || !entry->is_regular_file(unreadable)) continue;
      const uint64_t size = entry->file_size(unreadable);
      if (!unreadable) found.emplace_back(size, entry->path().string());
      if (found.size() >= 10'000) break;
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::vector<std::string> paths;
  uint64_t total = 0;
  for (const auto& [size, path] : found) {
    if (total >= kEnoughText) break;
    if (size > kEnoughText) continue;
    paths.push_back(path);
    total += size;
  }
  return paths;
}

std::vector<File> chars(const Options& options, std::string& about) {
  const bool given = !options.text_files.empty();
  const auto paths = given ? options.text_files : licence_texts();
  std::string text;
  for (const std::string& path : paths) text += read_file(path, kMaxText - text.size());
  if (text.size() < kMinText) {
    if (given) {
      fail("the text has {} bytes; training needs at least {}", text.size(), kMinText);
    }
    fail("no licence texts found under /usr/share/common-licenses; give a text file with --text");
  }
  about =
      fmt::format("{} of text from {}", format_bytes(text.size()),
                  given ? (paths.size() == 1 ? paths[0] : std::to_string(paths.size()) + " files")
                        : "the licences installed on this machine");
  return {{"text.npy", npy("|u1", "(" + std::to_string(text.size()) + ",)", text)}};
}

}  // namespace

std::span<const Template> all() {
  return kTemplates;
}

const Template* find(std::string_view name) {
  for (const Template& entry : kTemplates) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

Written write(std::string_view name, const std::string& folder, const Options& options) {
  ADAPTDL_CHECK(find(name) != nullptr);
  Written written;
  std::vector<File> files;
  const std::vector<std::string> parts =
      find(name)->is_archive
          ? std::vector<std::string>{"train.pt", "adaptdl.yaml", "model.py"}
          : std::vector<std::string>{"train.cpp", options.meson ? "meson.build" : "CMakeLists.txt"};
  for (const std::string& file : parts) {
    files.push_back({file, std::string(embedded_file(std::string(name) + "/" + file))});
    ADAPTDL_CHECK(!files.back().content.empty());
  }
  std::vector<File> data;
  if (name == "digits" || name == "library") {
    data = digits();
    written.about = "1797 images of 8 x 8 pixels with their labels (UCI, CC BY 4.0)";
  } else if (name == "chars") {
    data = chars(options, written.about);
  } else {
    data = linear();
    written.about = "4096 generated samples of 8 inputs and one target";
  }
  files.insert(files.begin() + 1, std::make_move_iterator(data.begin()),
               std::make_move_iterator(data.end()));
  if (!options.force) {
    for (const File& file : files) {
      const std::string path = join_path(folder, file.name);
      if (path_exists(path)) {
        fail("{} already exists; choose another folder, or give --force to replace it", path);
      }
    }
  }
  make_directories(folder);
  for (const File& file : files) {
    write_file_atomic(join_path(folder, file.name), file.content);
    written.files.push_back(file.name);
  }
  return written;
}

}  // namespace adaptdl::templates
