#include "core/oci/layer.h"

#include <algorithm>
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <zlib.h>

#include "core/base/files.h"
#include "core/oci/digest.h"
#include "tests/unit/base/expect_error.h"

namespace adaptdl::oci {
namespace {

using Kind = TarEntry::Kind;

std::string unzipped(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  REQUIRE(file != nullptr);
  std::string result, piece(1 << 16, '\0');
  for (int size; (size = gzread(file, piece.data(), 1 << 16)) > 0;) {
    result.append(piece, 0, static_cast<size_t>(size));
  }
  gzclose(file);
  return result;
}

// A line for each entry: type, mode, owner, time, name, content or target.
std::vector<std::string> listing(const std::string& path) {
  archive* reader = archive_read_new();
  archive_read_support_format_tar(reader);
  archive_read_support_filter_gzip(reader);
  archive_read_set_options(reader, "hdrcharset=BINARY");
  REQUIRE(archive_read_open_filename(reader, path.c_str(), 4096) == ARCHIVE_OK);
  std::vector<std::string> lines;
  archive_entry* entry = nullptr;
  while (archive_read_next_header(reader, &entry) == ARCHIVE_OK) {
    std::string content(static_cast<size_t>(archive_entry_size(entry)), '\0');
    archive_read_data(reader, content.data(), content.size());
    const char* link = archive_entry_symlink(entry);
    lines.push_back(fmt::format("{:o} {}:{} {} {} {}", archive_entry_mode(entry),
                                archive_entry_uid(entry), archive_entry_gid(entry),
                                archive_entry_mtime(entry), archive_entry_pathname(entry),
                                link != nullptr ? link : content));
  }
  archive_read_free(reader);
  return lines;
}

std::vector<TarEntry> some_entries(const std::string& file) {
  return {{"/app/b.py", Kind::file, file, 0644},
          {"app", Kind::folder, "", 0755},
          {"app/a.sh", Kind::bytes, "echo\n", 0755, 7, 8},
          {"app/b", Kind::folder, "", 0700},
          {"app/b/c", Kind::link, "../b.py"},
          {"app/b-d", Kind::bytes, "old", 0600},
          {"app/b-d", Kind::bytes, "new", 0600}};
}

}  // namespace

TEST_CASE("a layer is sorted, owned by root and of one time, and digests are those of its bytes") {
  TemporaryDirectory folder;
  replace_file(folder.file("source"), "print()\n");
  const LayerFile layer =
      write_layer(some_entries(folder.file("source")), folder.file("layer"), {.time = 42});
  CHECK(listing(layer.path) ==
        std::vector<std::string>{"40755 0:0 42 app/ ", "100755 7:8 42 app/a.sh echo\n",
                                 "40700 0:0 42 app/b/ ", "120777 0:0 42 app/b/c ../b.py",
                                 "100600 0:0 42 app/b-d new", "100644 0:0 42 app/b.py print()\n"});
  CHECK(layer.digest == digest_of_file(layer.path));
  CHECK(layer.size == file_size(layer.path));
  CHECK(layer.diff_id == digest_of(unzipped(layer.path)));
}

TEST_CASE("the same entries give the same bytes, in any order, at any time, in any locale") {
  TemporaryDirectory folder;
  replace_file(folder.file("source"), "print()\n");
  std::vector<TarEntry> entries = some_entries(folder.file("source"));
  entries.pop_back();
  const std::string first = write_layer(entries, folder.file("one")).digest;
  const timespec old[2] = {{1, 0}, {1, 0}};
  REQUIRE(utimensat(AT_FDCWD, folder.file("source").c_str(), old, 0) == 0);
  std::reverse(entries.begin(), entries.end());
  CHECK(write_layer(entries, folder.file("two")).digest == first);
  CHECK(write_layer(entries, folder.file("two"), {.time = 1}).digest != first);
}

TEST_CASE("names may be long, and of any bytes") {
  TemporaryDirectory folder;
  const std::string odd = "app/\xc3\xa4\xff " + std::string(200, 'x') + "/" + std::string(200, 'y');
  const LayerFile layer =
      write_layer({{odd, Kind::bytes, "1"}, {"app/k", Kind::link, odd}}, folder.file("layer"));
  const std::vector<std::string> lines = listing(layer.path);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "120777 0:0 0 app/k " + odd);
  CHECK(lines[1] == "100644 0:0 0 " + odd + " 1");
}

TEST_CASE("large files pass through whole") {
  TemporaryDirectory folder;
  std::string bytes;
  for (int i = 0; bytes.size() < 3'000'000; ++i) bytes += fmt::format("{} ", i % 10007 * 7919);
  replace_file(folder.file("source"), bytes);
  LayerOptions options;
  std::vector<uint64_t> packed;
  options.progress = [&](uint64_t so_far) { packed.push_back(so_far); };
  const LayerFile layer =
      write_layer({{"a", Kind::file, folder.file("source")}}, folder.file("layer"), options);
  CHECK(listing(layer.path) == std::vector<std::string>{"100644 0:0 0 a " + bytes});
  REQUIRE(packed.size() > 2);
  CHECK(std::is_sorted(packed.begin(), packed.end()));
  CHECK(packed.back() == unzipped(layer.path).size());
}

TEST_CASE("an empty layer is a sound archive") {
  TemporaryDirectory folder;
  const LayerFile layer = write_layer({}, folder.file("layer"));
  CHECK(listing(layer.path).empty());
  CHECK(unzipped(layer.path).size() == 1024);
}

TEST_CASE("what would harm the image, or cannot be read, is refused") {
  TemporaryDirectory folder;
  const auto write = [&](const std::string& path, Kind kind = Kind::bytes,
                         const std::string& source = "") {
    write_layer({{path, kind, source}}, folder.file("layer"));
  };
  CHECK_ERROR(write("app/.wh.bin"), ".wh.");
  CHECK_ERROR(write("app/.wh..wh..opq/x"), ".wh.");
  for (const char* path : {"", "/", "a//b", "../a", "a/./b", "a/.."}) {
    CAPTURE(path);
    CHECK_ERROR(write(path), "is not a path in an image");
  }
  CHECK_ERROR(write("a", Kind::file, folder.file("none")), "none");
  CHECK_ERROR(write("a", Kind::file, folder.path()), "is not a regular file");
  CHECK_ERROR(write("a", Kind::file, "/dev/null"), "is not a regular file");
  CHECK_ERROR(
      write_layer({{"a", Kind::link, "/bin"}, {"a-b", Kind::bytes, ""}, {"a/b", Kind::bytes, ""}},
                  folder.file("layer")),
      "cannot put a/b into an image below a");
}

TEST_CASE("SOURCE_DATE_EPOCH is the time, 0 without it") {
  unsetenv("SOURCE_DATE_EPOCH");
  CHECK(source_date_epoch() == 0);
  setenv("SOURCE_DATE_EPOCH", "1700000000", 1);
  CHECK(source_date_epoch() == 1700000000);
  setenv("SOURCE_DATE_EPOCH", "yesterday", 1);
  CHECK_ERROR(source_date_epoch(), "SOURCE_DATE_EPOCH");
  unsetenv("SOURCE_DATE_EPOCH");
}

}  // namespace adaptdl::oci
