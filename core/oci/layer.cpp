#include "core/oci/layer.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <zlib.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/system.h"
#include "core/oci/digest.h"

namespace adaptdl::oci {
namespace {

constexpr int kGzip = 15 + 16;  // window bits, and a gzip header: without name and time
constexpr std::string_view kWhiteout = ".wh.";

// Processes the tar piece by piece: computes its digest, compresses it, computes the digest of the
// result, and writes the file.
class Sink {
 public:
  Sink(const std::string& path, int level)
      : path_(path), file_(open_file(path, O_WRONLY | O_CREAT | O_TRUNC)) {
    ADAPTDL_CHECK(deflateInit2(&stream_, level, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  }
  ~Sink() { deflateEnd(&stream_); }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  void add(std::string_view tar) {
    tar_digest_.add(tar);
    deflate_all(tar, Z_NO_FLUSH);
  }
  LayerFile finish() {
    deflate_all({}, Z_FINISH);
    return {path_, tar_digest_.finish(), file_digest_.finish(), size_};
  }

 private:
  void deflate_all(std::string_view bytes, int flush) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());  // libarchive's pieces are small
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(out_.data());
      stream_.avail_out = static_cast<uInt>(out_.size());
      ADAPTDL_CHECK(deflate(&stream_, flush) != Z_STREAM_ERROR);
      const std::string_view made(out_.data(), out_.size() - stream_.avail_out);
      file_digest_.add(made);
      size_ += made.size();
      write_all(file_.get(), made, path_);
    } while (stream_.avail_out == 0);
  }

  std::string path_;
  Fd file_;
  z_stream stream_{};
  std::array<char, 1 << 16> out_;
  Digester tar_digest_, file_digest_;
  uint64_t size_ = 0;
};

// Sorts by path components, so that a folder comes before its content.
bool stands_before(const TarEntry& a, const TarEntry& b) {
  return std::lexicographical_compare(
      a.path.begin(), a.path.end(), b.path.begin(), b.path.end(), [](char x, char y) {
        const auto rank = [](char c) { return c == '/' ? 0 : static_cast<unsigned char>(c) + 1; };
        return rank(x) < rank(y);
      });
}

void sort_entries(std::vector<TarEntry>& entries) {
  for (TarEntry& entry : entries) entry.path = checked_layer_path(entry.path);
  std::stable_sort(entries.begin(), entries.end(), stands_before);
  // Of equal paths the last one stays.
  const auto first = std::unique(entries.rbegin(), entries.rend(),
                                 [](const auto& a, const auto& b) { return a.path == b.path; });
  entries.erase(entries.begin(), first.base());
  std::vector<const TarEntry*> above;
  for (const TarEntry& entry : entries) {
    while (!above.empty() && !entry.path.starts_with(above.back()->path + "/")) above.pop_back();
    if (!above.empty() && above.back()->kind != TarEntry::Kind::folder) {
      fail("cannot put {} into an image below {}, which is not a folder", entry.path,
           above.back()->path);
    }
    above.push_back(&entry);
  }
}

}  // namespace

int64_t source_date_epoch() {
  const auto text = environment_variable("SOURCE_DATE_EPOCH");
  return text ? parse_int(*text, "SOURCE_DATE_EPOCH", 0, int64_t{1} << 40) : 0;
}

std::string checked_layer_path(const std::string& path) {
  std::string result = path;
  while (result.starts_with('/')) result.erase(0, 1);
  while (result.ends_with('/')) result.pop_back();
  if (result.empty()) fail("{}: is not a path in an image", path.empty() ? "\"\"" : path);
  for (size_t begin = 0; begin <= result.size();) {
    const size_t end = std::min(result.find('/', begin), result.size());
    const std::string_view name = std::string_view(result).substr(begin, end - begin);
    if (name.empty() || name == "." || name == ".." || name.find('\0') != name.npos) {
      fail("{}: is not a path in an image", path);
    }
    if (name.starts_with(kWhiteout)) {
      fail(
          "{}: a name that begins with .wh. would remove files of the image; rename the file, or "
          "exclude it in .dockerignore",
          path);
    }
    begin = end + 1;
  }
  return result;
}

LayerFile write_layer(std::vector<TarEntry> entries, const std::string& file,
                      const LayerOptions& options) {
  sort_entries(entries);
  Sink sink(file, options.level);
  uint64_t packed = 0;
  TarWriter tar([&](std::string_view bytes) {
    sink.add(bytes);
    packed += bytes.size();
    if (options.progress) options.progress(packed);
  });
  for (const TarEntry& entry : entries) tar.add(entry, options.time);
  tar.close();
  return sink.finish();
}

}  // namespace adaptdl::oci
