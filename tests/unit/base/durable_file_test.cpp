#include "core/base/durable_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include "core/base/files.h"
#include "tests/unit/base/expect_error.h"

using namespace adaptdl;

namespace {

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a durable file has its name once it is committed, and leaves nothing else") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("model.pt");
  for (const std::string text : {"old", "new"}) {
    DurableFile file(path);
    file.write(text.substr(0, 1));
    CHECK(path_exists(path) == (text == "new"));
    file.write(text.substr(1));
    file.commit();
    CHECK(read_file(path, 10) == text);
    CHECK(list_directory(folder.path()) == Names{"model.pt"});
  }
  {
    DurableFile abandoned(path);
    abandoned.write("half");
  }
  CHECK(read_file(path, 10) == "new");
  CHECK(list_directory(folder.path()) == Names{"model.pt"});
}

TEST_CASE("a durable file replaces what a killed writer left") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("model.pt");
  write_file_atomic(part_path(path), "longer than the new one");
  DurableFile file(path);
  file.write("short");
  file.commit();
  CHECK(read_file(path, 10) == "short");
  CHECK(list_directory(folder.path()) == Names{"model.pt"});
}

TEST_CASE("what a library has written becomes the file, and what is missing is an Error") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("model.pt");
  CHECK_ERROR(commit_part(path), "model.pt.part: cannot open");
  write_file_atomic(part_path(path), "text");
  commit_part(path);
  CHECK(read_file(path, 10) == "text");
  CHECK_ERROR(DurableFile(folder.file("none/model.pt")), "model.pt.part: cannot open");
}

TEST_CASE("a write that only the end of the file reports is an Error") {
  const Fd pipe = open_file("/dev/full", O_WRONLY);
  CHECK_ERROR(write_all(pipe.get(), "text", "/dev/full"), "/dev/full: cannot write");
  // What cannot be synced is not announced.
  CHECK_ERROR(sync_and_close(open_file("/dev/null", O_WRONLY), "null"), "null: cannot write");
}

TEST_CASE("durable folders are there, and again") {
  const TemporaryDirectory folder;
  for (int time = 0; time < 2; ++time) make_durable_directories(folder.file("a/b"), 0700);
  CHECK(is_directory(folder.file("a/b")));
}
