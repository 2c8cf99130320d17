#include "core/base/file_copy.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/files.h"
#include "tests/unit/base/expect_error.h"

using namespace adaptdl;

namespace {

struct stat status_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return status;
}

// More than a chunk, and no two parts alike.
std::string big_text() {
  std::string text(20u << 20, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>((i * 2654435761u) >> 24);
  return text;
}

}  // namespace

TEST_CASE("a copied file has the bytes, permissions and times of the original") {
  const TemporaryDirectory dir;
  const std::string text = big_text();
  for (const std::string& content : {std::string(), std::string("x"), text}) {
    const std::string from = dir.file("from"), to = dir.file("to");
    write_file_atomic(from, content);
    REQUIRE(::chmod(from.c_str(), 04751) == 0);
    const struct timespec times[2] = {{1000, 1}, {2000, 123456789}};
    REQUIRE(::utimensat(AT_FDCWD, from.c_str(), times, 0) == 0);
    uint64_t heard = 0;
    const CopiedFile copied = copy_file(from, to, [&](uint64_t bytes) { heard += bytes; });
    CHECK(copied.found);
    CHECK_FALSE(copied.changed);
    CHECK(copied.bytes == content.size());
    CHECK(heard == content.size());
    CHECK(read_file(to, 1u << 30) == content);
    const struct stat status = status_of(to);
    CHECK((status.st_mode & 07777) == 0751);
    CHECK(status.st_mtim.tv_sec == 2000);
    CHECK(status.st_mtim.tv_nsec == 123456789);
    remove_tree(to);
  }
}

TEST_CASE("holes stay holes") {
  const TemporaryDirectory dir;
  const Fd file = open_file(dir.file("from"), O_RDWR | O_CREAT);
  constexpr off_t kSize = off_t{1} << 30;
  REQUIRE(::pwrite(file.get(), "a", 1, 0) == 1);
  REQUIRE(::pwrite(file.get(), "b", 1, kSize / 2) == 1);
  REQUIRE(::ftruncate(file.get(), kSize) == 0);
  if (status_of(dir.file("from")).st_blocks > 4096) {
    MESSAGE("this file system has no holes: not tested");
    return;
  }
  copy_file(dir.file("from"), dir.file("to"));
  const struct stat status = status_of(dir.file("to"));
  CHECK(status.st_size == kSize);
  CHECK(status.st_blocks < 4096);
  const Fd copy = open_file(dir.file("to"), O_RDONLY);
  char found = 0;
  CHECK(::pread(copy.get(), &found, 1, kSize / 2) == 1);
  CHECK(found == 'b');
}

TEST_CASE("a file that changes while it is copied is copied again, and else told") {
  const TemporaryDirectory dir;
  const std::string from = dir.file("from");
  write_file_atomic(from, big_text());
  int changes = 0;
  const auto change = [&](int times) {
    return [&changes, &from, times](uint64_t) {
      if (changes >= times) return;
      ++changes;
      const Fd file = open_file(from, O_WRONLY | O_APPEND);
      write_all(file.get(), "more", from);
    };
  };
  CHECK_FALSE(copy_file(from, dir.file("once"), change(1)).changed);
  CHECK(changes == 1);
  CHECK(read_file(dir.file("once"), 1u << 30) == read_file(from, 1u << 30));
  CHECK(copy_file(from, dir.file("always"), change(1000)).changed);

  // One that becomes shorter ends where it ends.
  const CopiedFile shorter = copy_file(
      from, dir.file("shorter"), [&](uint64_t) { REQUIRE(::truncate(from.c_str(), 3) == 0); });
  CHECK(shorter.bytes == 3);
  CHECK(file_size(dir.file("shorter")) == 3);
}

TEST_CASE("what cannot be copied") {
  const TemporaryDirectory dir;
  write_file_atomic(dir.file("file"), "x");
  REQUIRE(::symlink("file", dir.file("link").c_str()) == 0);
  REQUIRE(::mkfifo(dir.file("pipe").c_str(), 0600) == 0);
  CHECK_FALSE(copy_file(dir.file("none"), dir.file("a")).found);
  CHECK_FALSE(path_exists(dir.file("a")));
  CHECK_ERROR(copy_file(dir.file("link"), dir.file("a")), "link: cannot open");
  CHECK_ERROR(copy_file(dir.file("pipe"), dir.file("b")), "is no longer a regular file");
  CHECK_ERROR(copy_file(dir.file("file"), dir.file("file")), "cannot write");
  CHECK_ERROR(copy_file(dir.file("file"), dir.file("none/a")), "none/a: cannot write");
  CHECK_ERROR(copy_file(dir.file("file"), dir.file("c"), [](uint64_t) { fail("given up"); }),
              "given up");
}

namespace {

// Copies 1 MiB into a file system of 64 KiB, in a child that may mount one. What the child says:
constexpr int kRight = 0, kWrong = 1, kNoMount = 77;
int copy_to_small_disk(const std::string& from, const std::string& disk) {
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return kNoMount;
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kNoMount;
  if (::mount("none", disk.c_str(), "tmpfs", 0, "size=64k") != 0) return kNoMount;
  try {
    copy_file(from, disk + "/copy");
  } catch (const Error& error) {
    return contains(error.what(), "the disk is full; free space") ? kRight : kWrong;
  }
  return kWrong;
}

}  // namespace

TEST_CASE("a full disk is called that") {
  const TemporaryDirectory dir;
  write_file_atomic(dir.file("from"), std::string(1u << 20, 'x'));
  make_directories(dir.file("disk"));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(copy_to_small_disk(dir.file("from"), dir.file("disk")));
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoMount) {
    MESSAGE("no file system may be mounted here: not tested");
  } else {
    CHECK(WEXITSTATUS(status) == kRight);
  }
}
