// Disks that fail and files that change while they are read.

#include "runtime/data/guarded_read.h"

#include <cstring>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>

#include "core/base/clock.h"
#include "runtime/data/loader.h"
#include "tests/unit/data/fixtures.h"

namespace guarded_read_test {

using namespace adaptdl;
using namespace adaptdl::data;
using fixtures::contains;
using fixtures::error_of;

namespace {

constexpr int64_t kRow = 1024, kRows = 64;  // int32 of a row: a page

// A file without a name, mapped whole, that holds its elements' numbers. cut() makes its second
// half unreadable, as a failing disk does: the data set does not watch it.
class Mapped {
 public:
  Mapped() : file_(memfd_create("numbers", MFD_CLOEXEC)) {
    REQUIRE(ftruncate(file_.get(), kBytes) == 0);
    void* data = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    REQUIRE(data != MAP_FAILED);
    data_ = static_cast<int32_t*>(data);
    fill();
  }
  ~Mapped() { munmap(data_, kBytes); }

  void cut() { REQUIRE(ftruncate(file_.get(), kBytes / 2) == 0); }
  void mend() {
    REQUIRE(ftruncate(file_.get(), kBytes) == 0);
    fill();
  }
  const int32_t* data() const { return data_; }
  Array array() const {
    return {
        "numbers", DType::int32, false, {kRows, kRow}, reinterpret_cast<const std::byte*>(data_),
        nullptr,   nullptr};
  }

 private:
  static constexpr int64_t kBytes = kRows * kRow * 4;
  void fill() {
    for (int32_t i = 0; i < kRows * kRow; ++i) data_[i] = i;
  }

  Fd file_;
  int32_t* data_ = nullptr;
};

DataSource source_of(const std::string& path) {
  DataSource source;
  source.path = path;
  return source;
}

// A .npy file of kRows rows of ones, in a folder of its own.
std::string numbers_file(const TemporaryDirectory& folder) {
  return fixtures::write(
      folder, "x.npy",
      fixtures::npy("<i4", "(64, 1024)", fixtures::raw(std::vector<int32_t>(kRows * kRow, 1))));
}

void set_time(const std::string& path, int64_t second) {
  const timespec times[] = {{0, UTIME_OMIT}, {second, 0}};
  REQUIRE(utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

}  // namespace

TEST_CASE("a read that fails is told, with its address, and the next one works") {
  Mapped mapped;
  int32_t value = 0;
  const auto read = [&](int64_t at) { return read_guarded([&] { value = mapped.data()[at]; }); };
  CHECK(read(5) == nullptr);
  CHECK(value == 5);
  mapped.cut();
  const int64_t beyond = kRows * kRow - 3;
  for (int attempt = 0; attempt < 3; ++attempt) CHECK(read(beyond) == mapped.data() + beyond);
  CHECK(read(6) == nullptr);
  const auto place = mapped_place(mapped.data() + beyond);
  REQUIRE(place.has_value());
  CHECK(place->offset == 4 * beyond);
  CHECK(contains(place->path, "numbers"));
  const int here = 0;
  CHECK_FALSE(mapped_place(&here).has_value());
  CHECK_FALSE(mapped_place(nullptr).has_value());
}

TEST_CASE("a disk that fails for a moment is asked again") {
  Mapped mapped;
  const auto column = make_column(mapped.array(), source_of("numbers"));
  mapped.cut();
  std::thread repair([&] {
    std::this_thread::sleep_for(Seconds(0.2));
    mapped.mend();
  });
  const auto row = fixtures::rows<int32_t>(*column, {kRows - 1});
  repair.join();
  CHECK(row.front() == (kRows - 1) * kRow);
  CHECK(row.back() == kRows * kRow - 1);
}

TEST_CASE("a disk that stays broken: the loader names file and offset, on any thread") {
  Mapped mapped;
  mapped.cut();
  const Dataset dataset({make_column(mapped.array(), source_of("numbers"))});
  for (const int threads : {0, 2}) {
    LoaderOptions options;
    options.threads = threads;
    SamplerOptions order;
    order.shuffle = false;
    Loader loader(dataset, Sampler(kRows, order), options);
    loader.configure({}, 1, 0, kRows / 2);
    const auto good = loader.next();
    REQUIRE(good.has_value());
    CHECK(reinterpret_cast<const int32_t*>(good->columns[0].memory.get())[kRow] == kRow);
    try {
      loader.next();
      FAIL("it was read");
    } catch (const ReadFailed& failed) {
      CHECK(contains(failed.what(), "numbers: cannot read the data at offset 131072 of "));
      CHECK(contains(failed.what(), "memfd:numbers"));
    }
  }
}

TEST_CASE("a file that changes under a run is refused, however it changes") {
  const auto refused = [](const std::function<void(const std::string& path)>& change) {
    const TemporaryDirectory folder;
    const std::string path = numbers_file(folder);
    const auto column = open_column(source_of("x.npy"), folder.path());
    CHECK(fixtures::rows<int32_t>(*column, {1}).front() == 1);
    change(path);
    const std::string error = error_of([&] { fixtures::rows<int32_t>(*column, {kRows - 1}); });
    CHECK(contains(error, path + ": changed while the run uses it: "));
    return error;
  };
  CHECK(
      contains(refused([](const std::string& path) { REQUIRE(truncate(path.c_str(), 4096) == 0); }),
               "now 4096 bytes of "));
  refused([](const std::string& path) {  // in place
    const Fd file = open_file(path, O_WRONLY);
    REQUIRE(pwrite(file.get(), "\7", 1, 8192) == 1);
    set_time(path, 12345);  // the clock of a file system may be coarse
  });
  CHECK(contains(refused([](const std::string& path) { set_time(path, 1000000000); }),
                 "2001-09-09T01:46:40"));
  refused([](const std::string& path) { write_file_atomic(path, "something else"); });
}

TEST_CASE("a file that stays, and one that was removed, can be read") {
  const TemporaryDirectory folder;
  const std::string path = numbers_file(folder);
  const auto column = open_column(source_of("x.npy"), folder.path());
  REQUIRE(chmod(path.c_str(), 0600) == 0);
  CHECK(fixtures::rows<int32_t>(*column, {3}).front() == 1);
  remove_tree(path);
  CHECK(fixtures::rows<int32_t>(*column, {4}).front() == 1);
}

}  // namespace guarded_read_test
