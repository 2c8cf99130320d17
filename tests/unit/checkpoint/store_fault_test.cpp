// File systems that cannot exchange folders, and checkpoints that cannot be read.

#include <cerrno>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/checkpoint/faults.h"
#include "tests/unit/checkpoint/sample.h"

using namespace adaptdl;
using test::NoExchange;
using test::Sample;
using test::without_privileges;

namespace {

using Names = std::vector<std::string>;

const std::string kTen = "step-000000000010";
const std::string kAside = ".partial-abcdef.old";

void write(CheckpointStore& store, int64_t step, bool finished = false) {
  Sample sample(step);
  sample.header.finished = finished;
  store.write(sample.header, sample.tensors());
}

// What a writer leaves that is killed between the two renames: the new one and the old one.
void set_aside(const TemporaryDirectory& folder) {
  CheckpointStore store(folder.path(), 2);
  write(store, 10);
  make_directories(folder.file(".partial-abcdef"));
  REQUIRE(::rename(folder.file(kTen).c_str(), folder.file(kAside).c_str()) == 0);
}

bool says(const std::function<void()>& what, const std::string& sentence) {
  try {
    what();
  } catch (const Error& error) {
    return std::string(error.what()).find(sentence) != std::string::npos;
  }
  return false;
}

}  // namespace

TEST_CASE("no exchange: a checkpoint of the same step is replaced") {
  const TemporaryDirectory folder;
  CheckpointStore store(folder.path(), 2);
  write(store, 10);
  const NoExchange disk;
  write(store, 10, true);
  CHECK(store.latest()->header.finished);
  CHECK(list_directory(folder.path()) == Names{kTen});
}

TEST_CASE("no exchange: killed between the renames, the next finds the checkpoint") {
  for (const bool reads : {true, false}) {
    CAPTURE(reads);
    const TemporaryDirectory folder;
    CheckpointStore store(folder.path(), 2);
    write(store, 10);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const NoExchange disk([](const std::string& from, const std::string&) {
        static int replaced = 0;
        if (!from.ends_with(".old") && from.find(".partial-") != std::string::npos) ++replaced;
        if (replaced == 2) ::_exit(7);  // the first one finds the name taken
        return 0;
      });
      write(store, 10, true);
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WEXITSTATUS(status) == 7);
    CHECK_FALSE(path_exists(folder.file(kTen)));
    if (reads) {
      const auto loaded = store.latest();
      REQUIRE(loaded.has_value());
      CHECK(Sample::matches(*loaded));
      CHECK(loaded->path == folder.file(kTen));
    }
    write(store, 20);
    CHECK(list_directory(folder.path()) == Names{kTen, "step-000000000020"});
  }
}

TEST_CASE("no exchange: when the second rename fails, the old checkpoint has its name again") {
  const TemporaryDirectory folder;
  CheckpointStore store(folder.path(), 2);
  write(store, 10);
  {
    const NoExchange disk([&](const std::string& from, const std::string& to) {
      const bool taken = path_exists(to);
      return to == folder.file(kTen) && !taken && !from.ends_with(".old") ? EIO : 0;
    });
    CHECK(says([&] { write(store, 10, true); }, "cannot rename to it"));
  }
  CHECK(list_directory(folder.path()) == Names{kTen});
  CHECK(Sample::matches(*store.latest()));
}

TEST_CASE("no exchange: somebody puts the old one back while it is replaced") {
  const TemporaryDirectory folder;
  CheckpointStore store(folder.path(), 2);
  write(store, 10);
  int times = 0;
  {
    const NoExchange disk([&](const std::string& from, const std::string& to) {
      const std::string aside = from + ".old";
      if (to == folder.file(kTen) && path_exists(aside) && times < 3) {
        ++times;
        ::syscall(SYS_renameat2, AT_FDCWD, aside.c_str(), AT_FDCWD, to.c_str(), 0);
      }
      return 0;
    });
    write(store, 10, true);
  }
  CHECK(times == 3);
  CHECK(store.latest()->header.finished);
  CHECK(list_directory(folder.path()) == Names{kTen});
}

TEST_CASE("set aside: only what is complete and missing is put back") {
  const TemporaryDirectory folder;
  set_aside(folder);
  CheckpointStore store(folder.path(), 2);
  SUBCASE("damaged") {
    write_file_atomic(join_path(folder.file(kAside), "data.bin"), "");
    CHECK_FALSE(store.latest().has_value());
    write(store, 20);
    CHECK(list_directory(folder.path()) == Names{"step-000000000020"});
  }
  SUBCASE("replaced") {
    REQUIRE(::rename(folder.file(kAside).c_str(), folder.file(".partial-x").c_str()) == 0);
    const Fd held(::open(folder.file(".partial-x").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(::flock(held.get(), LOCK_EX) == 0);  // so that it is not removed
    write(store, 10, true);
    REQUIRE(::rename(folder.file(".partial-x").c_str(), folder.file(kAside).c_str()) == 0);
    CHECK(store.latest()->header.finished);
    ::flock(held.get(), LOCK_UN);
    write(store, 20);
    CHECK(list_directory(folder.path()) == Names{kTen, "step-000000000020"});
    CHECK(store.peek()->step == 20);
  }
}

TEST_CASE("set aside: read where it is while another is at it, and where nothing can be renamed") {
  const TemporaryDirectory folder;
  set_aside(folder);
  const CheckpointStore store(folder.path(), 2);
  const auto read_there = [&] {
    const auto loaded = store.latest();
    return loaded && loaded->path == folder.file(kAside) && Sample::matches(*loaded) &&
           store.peek()->step == 10 && !path_exists(folder.file(kTen));
  };
  {
    const Fd held(::open(folder.file(kAside).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(::flock(held.get(), LOCK_EX) == 0);
    CHECK(read_there());
  }
  REQUIRE(::chmod(folder.path().c_str(), 0555) == 0);
  CHECK(without_privileges(read_there));
  REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
  CHECK(store.latest()->path == folder.file(kTen));
}

TEST_CASE("what cannot be read is not damaged: no older checkpoint is taken for it") {
  const TemporaryDirectory folder;
  const std::string checkpoints = folder.file("checkpoints");
  CheckpointStore store(checkpoints, 3);
  for (const int64_t step : {5, 10}) write(store, step);
  const std::string newest = join_path(checkpoints, kTen);
  for (const std::string& locked :
       {join_path(newest, "data.bin"), join_path(newest, "manifest.json"), newest, checkpoints}) {
    CAPTURE(locked);
    REQUIRE(::chmod(locked.c_str(), 0) == 0);
    CHECK(without_privileges([&] {
      const bool latest = says([&] { store.latest(); }, "Permission denied");
      const bool data = locked.ends_with("data.bin");  // which peek() does not look at
      return latest && (data || says([&] { store.peek(); }, "Permission denied"));
    }));
    REQUIRE(::chmod(locked.c_str(), 0755) == 0);
  }
  REQUIRE(::chmod(folder.path().c_str(), 0) == 0);
  CHECK(without_privileges([&] { return says([&] { store.latest(); }, "Permission denied"); }));
  REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
  CHECK(store.latest()->header.step == 10);
}
