#include "core/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "tests/unit/base/expect_error.h"

namespace adaptdl {

TEST_CASE("a lock is held by one descriptor, and a byte of a file by another each") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("lock");
  auto held = try_lock(path);
  CHECK(held.has_value());
  CHECK_FALSE(try_lock(path).has_value());
  held.reset();
  CHECK(try_lock(path).has_value());
  auto first = try_lock_byte(path, 7);
  CHECK(first.has_value());
  CHECK_FALSE(try_lock_byte(path, 7).has_value());
  CHECK(try_lock_byte(path, 8).has_value());
  first.reset();
  CHECK(try_lock_byte(path, 7).has_value());
  CHECK_ERROR(try_lock(folder.file("none/lock")), "cannot open");
}

TEST_CASE("a file is written and read back, and replaced whole") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("a");
  write_file_atomic(path, "one");
  CHECK(read_file(path, 3) == "one");
  write_file_atomic(path, std::string(100'000, 'x'));
  CHECK(read_file(path, 100'000).size() == 100'000);
  CHECK(list_directory(folder.path()) == std::vector<std::string>{"a"});  // no temporary left
  CHECK_ERROR(read_file(path, 99'999), "larger than 99999 bytes");
  CHECK_ERROR(read_file(folder.path(), 10), "is a folder");
  CHECK_ERROR(read_file(folder.file("none"), 10), "none: cannot open: No such file");
  CHECK_ERROR(write_file_atomic(folder.file("no/such"), ""), "No such file");
}

TEST_CASE("a full disk is told from other reasons") {
  const Fd full = open_file("/dev/full", O_WRONLY), other = open_file("/dev/full", O_RDONLY);
  CHECK_THROWS_AS(write_all(full.get(), "x", "a"), DiskFull);
  CHECK_THROWS_AS(fail_errno(EDQUOT, "a"), DiskFull);
  bool otherwise = false;
  try {
    write_all(other.get(), "x", "a");
  } catch (const DiskFull&) {
  } catch (const Error&) {
    otherwise = true;
  }
  CHECK(otherwise);
}

TEST_CASE("a failed replacement leaves the old file and no temporary") {
  const TemporaryDirectory folder;
  make_directories(folder.file("busy/inside"));
  CHECK_ERROR(write_file_atomic(folder.file("busy"), "x"), "cannot replace");
  CHECK(list_directory(folder.path()) == std::vector<std::string>{"busy"});
}

TEST_CASE("a reader sees the old or the new content, never a mixture") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("a");
  const std::string contents[2] = {std::string(50'000, 'a'), std::string(70'000, 'b')};
  write_file_atomic(path, contents[0]);
  std::thread writer([&] {
    for (int i = 0; i < 30; ++i) write_file_atomic(path, contents[i % 2]);
  });
  for (int i = 0; i < 200; ++i) {
    const std::string seen = read_file(path, 100'000);
    CHECK((seen == contents[0] || seen == contents[1]));
  }
  writer.join();
}

TEST_CASE("files of /proc, which state no size, are read") {
  CHECK(contains(read_file("/proc/self/status", 1 << 20), "Name:"));
}

TEST_CASE("folders are made and removed with all they hold, links not followed") {
  const TemporaryDirectory folder;
  make_directories(folder.file("a/b/c"));
  make_directories(folder.file("a/b/c"));
  write_file_atomic(folder.file("a/b/f"), "1");
  write_file_atomic(folder.file("kept"), "1");
  REQUIRE(symlink(folder.path().c_str(), folder.file("a/link").c_str()) == 0);
  remove_tree(folder.file("a"));
  CHECK(list_directory(folder.path()) == std::vector<std::string>{"kept"});
  remove_tree(folder.file("a"));
  CHECK_ERROR(make_directories(folder.file("kept/x")), "cannot create this folder");
  CHECK_ERROR(list_directory(folder.file("a")), "cannot list");
}

TEST_CASE("a mapped file shows the file's bytes, an empty one too") {
  const TemporaryDirectory folder;
  write_file_atomic(folder.file("a"), "hello");
  write_file_atomic(folder.file("empty"), "");
  MappedFile map(folder.file("a"));
  CHECK(map.text() == "hello");
  MappedFile other = std::move(map);
  CHECK(other.text() == "hello");
  CHECK(map.bytes().empty());  // NOLINT(bugprone-use-after-move): that is what is tested
  map = std::move(other);
  CHECK(map.text() == "hello");
  CHECK(MappedFile(folder.file("empty")).bytes().empty());
  CHECK_ERROR(MappedFile(folder.path()), "not a regular file");
}

TEST_CASE("a temporary folder is private and goes away") {
  std::string path;
  {
    const TemporaryDirectory folder("base-test");
    path = folder.path();
    struct stat info {};
    REQUIRE(stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0700);
    make_directories(folder.file("x/y"));
  }
  CHECK_FALSE(path_exists(path));
  {
    TemporaryDirectory folder("base-test");
    path = folder.path();
    folder.keep();
  }
  CHECK(is_directory(path));
  remove_tree(path);
}

TEST_CASE("paths are taken apart and put together") {
  CHECK(absolute_path("b/../c/./d", "/a") == "/a/c/d");
  CHECK(absolute_path("/x/", "/a") == "/x");
  CHECK(absolute_path("..", "/") == "/");
  CHECK(absolute_path("f").front() == '/');
  CHECK(join_path("a", "b") == "a/b");
  CHECK(join_path("a/", "b") == "a/b");
  CHECK(join_path("a", "/b") == "/b");
  CHECK(join_path("", "b") == "b");
  CHECK(parent_directory("a/b/c") == "a/b");
  CHECK(parent_directory("a/b/") == "a");
  CHECK(parent_directory("/a") == "/");
  CHECK(parent_directory("a") == ".");
  CHECK(parent_directory("/") == "/");
  CHECK(file_name("a/b.pt") == "b.pt");
  CHECK(file_name("a/b/") == "b");
  CHECK(file_stem("a/b.train.pt") == "b.train");
  CHECK(file_stem(".hidden") == ".hidden");
}

TEST_CASE("a user's path climbs from where a symlink leads, and is as written otherwise") {
  const TemporaryDirectory folder;
  const std::string here = real_path(folder.path());
  make_directories(here + "/far/deep/sub");
  REQUIRE(symlink("far/deep", (here + "/link").c_str()) == 0);
  REQUIRE(symlink("nowhere", (here + "/dangling").c_str()) == 0);
  CHECK(user_path("link/../train.pt", here) == here + "/far/train.pt");
  CHECK(user_path(here + "/link/sub/../../x") == here + "/far/x");
  CHECK(user_path("link/sub/../x", here) == here + "/link/x");
  for (const char* plain : {"train.pt", "./a/../train.pt", "far/deep/../x/", "link/x", "none/../x",
                            "dangling/../x", "..//.", "../../../../../..", "", "/a//b/./"}) {
    CAPTURE(plain);
    CHECK(user_path(plain, here) == absolute_path(plain, here));
    CHECK(user_path(plain) == absolute_path(plain));
  }
}

TEST_CASE("a user's file stays where its symlink leads, with its mode") {
  const TemporaryDirectory folder;
  const auto mode = [&](const char* name) {
    struct stat info {};
    REQUIRE(lstat(folder.file(name).c_str(), &info) == 0);
    return info.st_mode;
  };
  make_directories(folder.file("far"));
  REQUIRE(symlink("far/second", folder.file("first").c_str()) == 0);
  REQUIRE(symlink("file", folder.file("far/second").c_str()) == 0);
  CHECK(followed_links(folder.file("first")) == folder.file("far/file"));
  CHECK(followed_links(folder.file("far/file")) == folder.file("far/file"));
  write_user_file(folder.file("first"), "new", 0600);
  CHECK((mode("far/file") & 07777) == 0600);
  REQUIRE(chmod(folder.file("far/file").c_str(), 0666) == 0);  // more than the umask permits
  write_user_file(folder.file("first"), "newer", 0600);
  CHECK((mode("far/file") & 07777) == 0666);
  CHECK(read_file(folder.file("far/file"), 10) == "newer");
  CHECK(S_ISLNK(mode("first")));
  CHECK(S_ISLNK(mode("far/second")));
  REQUIRE(symlink("round", folder.file("round").c_str()) == 0);
  CHECK_ERROR(write_user_file(folder.file("round"), ""), "round");
}

TEST_CASE("a real path has no symlinks in it") {
  const TemporaryDirectory folder;
  const std::string here = real_path(folder.path());
  make_directories(here + "/a/b");
  REQUIRE(symlink("a", (here + "/link").c_str()) == 0);
  CHECK(real_path(here + "/link/b/../b/.") == here + "/a/b");
  CHECK_ERROR(real_path(here + "/none"), "/none: cannot open: No such file");
}

TEST_CASE("reading past a file's end says where it ended") {
  const TemporaryDirectory folder;
  write_file_atomic(folder.file("a"), "12345");
  const Fd fd = open_file(folder.file("a"), O_RDONLY);
  std::byte bytes[4];
  read_exactly_at(fd.get(), bytes, 1, "a");
  CHECK(static_cast<char>(bytes[3]) == '5');
  CHECK_ERROR(read_exactly_at(fd.get(), bytes, 2, "the file"), "the file: ends at byte 5, 1 bytes");
}

}  // namespace adaptdl
