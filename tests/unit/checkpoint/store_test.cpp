#include "runtime/checkpoint/store.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <random>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "core/formats/crc32c.h"
#include "core/formats/json.h"
#include "tests/unit/checkpoint/sample.h"

namespace store_test {

using namespace adaptdl;
using test::Sample;

namespace {

void write(CheckpointStore& store, int64_t step, size_t weights = 3000) {
  const Sample sample(step, weights);
  store.write(sample.header, sample.tensors());
}

void overwrite(const std::string& path, const std::string& bytes) {
  const Fd fd = open_file(path, O_WRONLY | O_TRUNC);
  write_all(fd.get(), bytes, path);
}

std::vector<std::string> folders(const std::string& path) {
  return list_directory(path);
}

}  // namespace

TEST_CASE("a checkpoint reads back, aligned, with all that was said") {
  const TemporaryDirectory folder;
  CheckpointStore store(folder.file("a/b"), 3);
  CHECK_FALSE(store.latest().has_value());
  CHECK_FALSE(store.peek().has_value());
  Sample sample(5);
  sample.header.finished = true;
  const auto written = store.write(sample.header, sample.tensors());
  CHECK(written.path == folder.file("a/b/step-000000000005"));
  CHECK(written.bytes == 3000 * 4 + 8);
  const auto loaded = store.latest();
  REQUIRE(loaded.has_value());
  CHECK(Sample::matches(*loaded));
  CHECK(loaded->header.finished);
  CHECK(loaded->header.generation == 7);
  CHECK(loaded->header.created.size() == 24);
  CHECK(loaded->header.settings == sample.header.settings);
  for (const TensorView& tensor : loaded->tensors) {
    CHECK(reinterpret_cast<uintptr_t>(tensor.bytes.data()) % kCheckpointAlignment == 0);
  }
  CHECK(loaded->find("layer.steps") == &loaded->tensors[2]);
  CHECK(loaded->find("none") == nullptr);
  CHECK(store.peek()->step == 5);
}

TEST_CASE("a checkpoint never holds numbers that are not finite where they must be") {
  const TemporaryDirectory folder;
  CheckpointStore store(folder.path(), 3);
  write(store, 5);
  // Beyond the first chunk that is checksummed at once.
  std::vector<float> values(3 << 20, 1.0f);
  values.back() = INFINITY;
  std::vector<TensorView> tensors = {
      {"mask", "float32", {3 << 20}, std::as_bytes(std::span(values))}};
  store.write(Sample(6).header, tensors);  // it may be
  tensors.push_back({"weight", "float32", {3 << 20}, std::as_bytes(std::span(values)), true});
  try {
    store.write(Sample(7).header, tensors);
    FAIL("it was written");
  } catch (const NotFinite& error) {
    CHECK(error.tensor == "weight");
  }
  CHECK(folders(folder.path()) ==
        std::vector<std::string>{"step-000000000005", "step-000000000006"});
  values.back() = 0;
  store.write(Sample(7).header, tensors);
  CHECK(store.latest()->header.step == 7);
}

TEST_CASE("a checkpoint without tensors") {
  const TemporaryDirectory folder;
  CheckpointStore store(folder.path(), 1);
  store.write(Sample(1).header, {});
  CHECK(store.latest()->tensors.empty());
}

TEST_CASE("the newest ones are kept, and later steps of another history go") {
  const TemporaryDirectory folder;
  CheckpointStore store(folder.path(), 2);
  for (const int64_t step : {10, 20, 30}) write(store, step);
  CHECK(folders(folder.path()) ==
        std::vector<std::string>{"step-000000000020", "step-000000000030"});
  write(store, 25);
  CHECK(folders(folder.path()) ==
        std::vector<std::string>{"step-000000000020", "step-000000000025"});
  CHECK(store.latest()->header.step == 25);
}

TEST_CASE("a checkpoint of the same step is replaced") {
  const TemporaryDirectory folder;
  CheckpointStore store(folder.path(), 2);
  write(store, 10);
  Sample sample(10);
  sample.header.finished = true;
  store.write(sample.header, sample.tensors());
  CHECK(store.latest()->header.finished);
  CHECK(folders(folder.path()).size() == 1);
}

TEST_CASE("a loaded checkpoint survives its removal") {
  const TemporaryDirectory folder;
  CheckpointStore store(folder.path(), 1);
  write(store, 1);
  const auto loaded = store.latest();
  write(store, 2);
  CHECK(folders(folder.path()).size() == 1);
  CHECK(Sample::matches(*loaded));
}

TEST_CASE("a damaged checkpoint falls back to the one before, and says so") {
  const TemporaryDirectory folder;
  CheckpointStore store(folder.path(), 3);
  for (const int64_t step : {10, 20, 30}) write(store, step);
  const std::string newest = folder.file("step-000000000030");
  const std::string data = join_path(newest, "data.bin");
  const std::string manifest = join_path(newest, "manifest.json");
  const std::string good_data = read_file(data, 1 << 20);
  const std::string good_manifest = read_file(manifest, 1 << 20);

  const auto expect = [&](const std::string& part) {
    std::vector<std::string> problems;
    const auto loaded = store.latest(&problems);
    REQUIRE(loaded.has_value());
    CHECK(loaded->header.step == 20);
    CHECK(Sample::matches(*loaded));
    REQUIRE(problems.size() == 1);
    CHECK_MESSAGE(problems[0].find(part) != std::string::npos, problems[0]);
    CHECK(problems[0].find("step-000000000030") != std::string::npos);
  };

  SUBCASE("bit flips in the data") {
    std::mt19937 random(1);
    for (int i = 0; i < 50; ++i) {
      std::string bad = good_data;
      // Bytes between tensors belong to nobody.
      const size_t at = random() % 12'000;
      bad[at] = static_cast<char>(bad[at] ^ (1 << (random() % 8)));
      overwrite(data, bad);
      expect("checksum of layer.weight differs");
    }
  }
  SUBCASE("bit flips in the manifest") {
    std::mt19937 random(2);
    for (int i = 0; i < 50; ++i) {
      std::string bad = good_manifest;
      const size_t at = random() % bad.size();
      bad[at] = static_cast<char>(bad[at] ^ (1 << (random() % 8)));
      overwrite(manifest, bad);
      std::vector<std::string> problems;
      const auto loaded = store.latest(&problems);
      REQUIRE(loaded.has_value());
      CHECK(Sample::matches(*loaded));
      CHECK((loaded->header.step == 30) == problems.empty());
    }
  }
  SUBCASE("truncated data") {
    for (const size_t size : {size_t{0}, size_t{1}, good_data.size() - 1}) {
      overwrite(data, good_data.substr(0, size));
      expect("its manifest says");
    }
  }
  SUBCASE("longer data") {
    overwrite(data, good_data + "x");
    expect("its manifest says");
  }
  SUBCASE("truncated manifest") {
    overwrite(manifest, good_manifest.substr(0, good_manifest.size() / 2));
    expect("manifest.json");
  }
  SUBCASE("no data") {
    remove_tree(data);
    expect("data.bin");
  }
  SUBCASE("no manifest") {
    remove_tree(manifest);
    expect("manifest.json");
  }
  SUBCASE("another step's manifest") {
    overwrite(manifest, read_file(folder.file("step-000000000010/manifest.json"), 1 << 20));
    expect("the folder's name");
  }
  SUBCASE("a link in place of the data") {
    remove_tree(data);
    REQUIRE(::symlink("/dev/zero", data.c_str()) == 0);
    expect("not a regular file");
  }
  SUBCASE("a pipe in place of the data does not hang") {
    remove_tree(data);
    REQUIRE(::mkfifo(data.c_str(), 0600) == 0);
    expect("not a regular file");
  }
}

TEST_CASE("a checkpoint of a newer version is not passed over for an older one") {
  const TemporaryDirectory folder;
  CheckpointStore store(folder.path(), 3);
  for (const int64_t step : {10, 20}) write(store, step);
  const std::string manifest = folder.file("step-000000000020/manifest.json");
  Json json = parse_json(read_file(manifest, 1 << 20), manifest);
  json.erase("checksum");
  json["format"] = kCheckpointFormat + 1;
  json["checksum"] = fmt::format("{:08x}", crc32c(json.dump()));
  overwrite(manifest, json.dump());
  std::vector<std::string> problems;
  CHECK_THROWS_AS(store.latest(&problems), NewerCheckpointFormat);
  CHECK_THROWS_AS(store.peek(), NewerCheckpointFormat);
  CHECK(folders(folder.path()).size() == 2);
}

TEST_CASE("checkpoints are read while others replace them") {
  const TemporaryDirectory folder;
  CheckpointStore store(folder.path(), 1);
  write(store, 1);
  std::atomic<bool> over = false;
  std::thread writer([&] {
    CheckpointStore other(folder.path(), 1);
    for (int64_t step = 2; step <= 60; ++step) write(other, step);
    over = true;
  });
  int64_t newest = 0;
  int reads = 0;
  for (; !over; ++reads) {
    std::vector<std::string> problems;
    const auto loaded = store.latest(&problems);
    REQUIRE(loaded.has_value());
    CHECK(Sample::matches(*loaded));
    CHECK(loaded->header.step >= newest);
    CHECK(problems.empty());
    newest = loaded->header.step;
    for (int i = 0; i < 20; ++i) {  // soon, so that the writer comes between
      const auto peeked = store.peek();
      CHECK(peeked.has_value());
      if (!peeked) continue;
      CHECK(peeked->step >= newest);
      newest = peeked->step;
    }
  }
  writer.join();
  CHECK(reads > 0);
  CHECK(store.latest()->header.step == 60);
}

TEST_CASE("when all are damaged there is none, and a problem for each") {
  const TemporaryDirectory folder;
  CheckpointStore store(folder.path(), 3);
  for (const int64_t step : {10, 20}) {
    write(store, step);
    overwrite(folder.file(fmt::format("step-{:012}/data.bin", step)), "");
  }
  std::vector<std::string> problems;
  CHECK_FALSE(store.latest(&problems).has_value());
  CHECK(problems.size() == 2);
}

TEST_CASE("leftovers of the dead are removed, a living writer's and a stranger's files are not") {
  const TemporaryDirectory folder;
  CheckpointStore store(folder.path(), 1);
  make_directories(folder.file(".partial-abcdef"));
  make_directories(folder.file(".partial-locked"));
  make_directories(folder.file("step-5"));
  write_file_atomic(folder.file("notes.txt"), "mine");
  const Fd held(::open(folder.file(".partial-locked").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  REQUIRE(::flock(held.get(), LOCK_EX) == 0);
  write(store, 1);
  const auto names = folders(folder.path());
  const auto has = [&](const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  CHECK(names.size() == 4);
  CHECK(has(".partial-locked"));
  CHECK(has("notes.txt"));
  CHECK(has("step-5"));
  store.clear();
  CHECK(folders(folder.path()).size() == 3);
  CHECK_FALSE(store.latest().has_value());
}

TEST_CASE("a disk that is full leaves everything as it was") {
  const TemporaryDirectory folder;
  // RLIMIT_FSIZE stands in for a full disk; in a child, since it holds for the whole process.
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int result = 1;
    try {
      CheckpointStore store(folder.path(), 2);
      write(store, 1);
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit = {4096, 4096};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      try {
        write(store, 2);
      } catch (const Error& error) {
        const bool says = std::string(error.what()).find("data.bin") != std::string::npos;
        if (says && list_directory(folder.path()).size() == 1) result = 0;
      }
    } catch (...) {
    }
    ::_exit(result);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(CheckpointStore(folder.path(), 2).latest()->header.step == 1);
}

}  // namespace store_test
