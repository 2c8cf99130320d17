#include "runtime/data/image_folder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <memory>
#include <sys/stat.h>

#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl::data {
namespace {

constexpr std::array<std::string_view, 3> kRead = {"jpg", "jpeg", "png"};
// Images to those who have the folder, which would be missing without a word.
constexpr std::array<std::string_view, 8> kOther = {"webp", "bmp", "gif", "tif",
                                                    "tiff", "ppm", "pgm", "avif"};

template <size_t Size>
bool ends_in(std::string_view name, const std::array<std::string_view, Size>& suffixes) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || name.size() - dot > 6) return false;
  std::string suffix(name.substr(dot + 1));
  for (char& c : suffix) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  return std::find(suffixes.begin(), suffixes.end(), suffix) != suffixes.end();
}

struct Entry {
  std::string name;
  bool folder;
};

}  // namespace

struct ImageFolder::Walk {
  ImageFolder& found;
  std::vector<std::pair<dev_t, ino_t>> above;  // the folders around the present one

  // The images and folders in a folder, in order.
  std::vector<Entry> list(const std::string& path) {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
    struct stat status = {};
    if (!folder || ::fstat(::dirfd(folder.get()), &status) != 0) {
      fail_errno(errno, path + ": cannot list the folder");
    }
    const std::pair<dev_t, ino_t> place(status.st_dev, status.st_ino);
    if (std::find(above.begin(), above.end(), place) != above.end()) {
      fail("{}: a symlink leads back to a folder around it; remove it", path);
    }
    above.push_back(place);
    std::vector<Entry> entries;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(folder.get());
      if (entry == nullptr && errno != 0) fail_errno(errno, path + ": cannot list the folder");
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name.starts_with('.')) continue;
      const bool image = ends_in(name, kRead), other = ends_in(name, kOther);
      if (entry->d_type == DT_REG && !image && !other) continue;
      bool is_folder = entry->d_type == DT_DIR;
      if (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN) {
        if (::fstatat(::dirfd(folder.get()), entry->d_name, &status, 0) != 0) {
          fail_errno(errno, join_path(path, entry->d_name) + ": cannot read");
        }
        is_folder = S_ISDIR(status.st_mode);
      }
      if (!is_folder && !image && !other) continue;
      if (!is_folder && other) {
        fail("{}: images of this format are not read; convert it to PNG or JPEG, or move it away",
             join_path(path, entry->d_name));
      }
      entries.push_back({std::string(name), is_folder});
    }
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.name < b.name; });
    return entries;
  }

  // `place`: the folder below the first one; "" for that itself.
  void walk(const std::string& place) {
    const std::string path = place.empty() ? found.path_ : join_path(found.path_, place);
    for (const Entry& entry : list(path)) {
      const std::string inside = place.empty() ? entry.name : place + '/' + entry.name;
      if (!entry.folder) {
        found.paths_ += inside;
        found.ends_.push_back(found.paths_.size());
        continue;
      }
      if (place.empty()) {
        found.classes_.push_back(entry.name);
        found.starts_.push_back(found.size());
      }
      walk(inside);
    }
    above.pop_back();
  }
};

ImageFolder::ImageFolder(const std::string& path) : path_(path) {
  if (!path_exists(path)) {
    fail(
        "{}: folder of images not found; a relative path starts at the folder of the training "
        "archive",
        path);
  }
  if (!is_directory(path)) fail("{}: is a file; images are read from a folder", path);
  Walk{*this, {}}.walk("");
  if (ends_.empty()) fail("{}: holds no images (.jpg, .jpeg or .png)", path);
  Digest digest;
  digest.add(paths_);
  digest.add(std::as_bytes(std::span(ends_)));
  for (const std::string& name : classes_) digest.add(name);
  content_ = digest.value();
}

std::string_view ImageFolder::place(size_t i) const {
  const uint64_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(paths_).substr(begin, ends_[i] - begin);
}

std::string ImageFolder::name(int64_t i) const {
  return join_path(path_, std::string(place(static_cast<size_t>(i))));
}

Array ImageFolder::labels() const {
  for (size_t i = 0; i < ends_.size(); ++i) {
    if (place(i).find('/') != std::string_view::npos) continue;
    fail("{}: is in no folder of a class; image_labels need every image in a folder of {}",
         name(static_cast<int64_t>(i)), path_);
  }
  auto numbers = std::make_shared<std::vector<int64_t>>(ends_.size());
  for (size_t c = 0; c < classes_.size(); ++c) {
    const int64_t begin = starts_[c], end = c + 1 < classes_.size() ? starts_[c + 1] : size();
    if (begin == end) {
      fail("{}: holds no images, so that its class has none; remove the folder",
           join_path(path_, classes_[c]));
    }
    std::fill(numbers->begin() + begin, numbers->begin() + end, static_cast<int64_t>(c));
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(numbers->data());
  return {path_, DType::int64, false, {size()}, bytes, numbers, nullptr, content_};
}

}  // namespace adaptdl::data
