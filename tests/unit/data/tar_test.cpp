#include "runtime/data/formats/tar.h"

#include <cstdlib>
#include <doctest/doctest.h>

#include "runtime/data/tar_shards.h"
#include "runtime/data/watched_file.h"
#include "tests/unit/data/fixtures.h"
#include "tests/unit/data/make_image.h"
#include "tests/unit/data/make_tar.h"

using namespace adaptdl::data;
using adaptdl::DataSource;
using adaptdl::DataSpec;
using adaptdl::TemporaryDirectory;
using namespace fixtures;

namespace {

DataSource member(const std::string& path, const std::string& kind,
                  std::vector<int64_t> shape = {}) {
  DataSource source;
  source.format = DataSource::Format::tar;
  source.path = path;
  source.member = kind;
  source.shape = std::move(shape);
  return source;
}

std::string sample(const std::string& key, uint8_t grey, int label) {
  const std::string image = png(painted(4, 4, 1, [&](int, int, int) { return grey; }));
  return tar_entry(key + ".png", image) + tar_entry(key + ".cls", std::to_string(label) + "\n");
}

// Names and contents of the members.
std::string listed(const std::string& file) {
  const auto read = [&](uint64_t offset, std::span<std::byte> out) {
    REQUIRE(offset + out.size() <= file.size());
    std::memcpy(out.data(), file.data() + offset, out.size());
  };
  TarReader reader(read, file.size(), "x.tar");
  std::string list;
  while (const auto found = reader.next()) {
    list += found->name + "=" + file.substr(found->content, found->size) + ";";
  }
  return list;
}

std::string tar_error(const std::string& file) {
  return error_of([&] { listed(file); });
}

}  // namespace

TEST_CASE("tar: members of samples in several files") {
  const TemporaryDirectory folder;
  write(folder, "s-001.tar", sample("x/c", 30, 2) + tar_end());
  write(folder, "s-000.tar",
        tar_entry("x/", "", '5') + sample("x/a.b", 10, 5) + tar_entry("x/.skip.png", "no image") +
            sample("x/b", 20, -1) + tar_end());
  DataSpec spec;
  spec.train = {member("s-*.tar", "cls")};
  // The kind of "x/a.b.png" is b.png, so that sample x/a has no member .cls.
  CHECK(contains(error_of([&] { open_data(spec, folder.path()); }),
                 "s-000.tar: sample \"x/a\" has no member .cls"));
  write(folder, "s-000.tar", sample("x/a", 10, 5) + sample("x/b", 20, -1) + tar_end());
  for (const char* pattern : {"s-*.tar", "s-{000..001}.tar", "s-00{1,0}.tar"}) {
    spec.train = {member(pattern, "png", {1, 2, 2}), member(pattern, "cls")};
    const Data data = open_data(spec, folder.path());
    const auto& columns = data.train.columns();
    CHECK(rows<uint8_t>(*columns[0], {2, 0}) ==
          std::vector<uint8_t>{30, 30, 30, 30, 10, 10, 10, 10});
    CHECK(rows<int64_t>(*columns[1], {0, 1, 2}) == std::vector<int64_t>{5, -1, 2});
  }
  CHECK(contains(error_of([&] { open_column(member("s-{000..002}.tar", "cls"), folder.path()); }),
                 "s-002.tar: data file not found"));
  CHECK(contains(error_of([&] { open_column(member("t-*.tar", "cls"), folder.path()); }),
                 "t-*.tar: no such file"));
}

TEST_CASE("tar: the folder's name is no pattern") {
  const TemporaryDirectory parent;
  const std::string folder = parent.file("run[1]{a,b}");
  adaptdl::make_directories(folder);
  for (const char* name : {"/s-0.tar", "/s-1.tar"}) {
    adaptdl::write_file_atomic(folder + name, sample("a", 10, 5) + tar_end());
  }
  for (const char* pattern : {"s-*.tar", "s-{0..1}.tar"}) {
    CHECK(open_column(member(pattern, "cls"), folder)->rows() == 2);
  }
  CHECK(open_column(member("s-0.tar", "cls"), folder)->rows() == 1);
}

TEST_CASE("tar: another file or member is another data set") {
  const TemporaryDirectory folder, other;
  const std::string first = sample("a", 10, 0) + tar_end(), second = sample("b", 20, 1) + tar_end();
  for (const TemporaryDirectory* each : {&folder, &other}) {
    write(*each, "s-0.tar", first);
    write(*each, "s-1.tar", second);
  }
  const auto print = [](const TemporaryDirectory& where) {
    DataSpec spec;
    spec.train = {member("s-*.tar", "cls")};
    return open_data(spec, where.path()).train.fingerprint();
  };
  const Fingerprint before = print(folder);
  CHECK(print(other) == before);
  write(folder, "s-2.tar", sample("c", 30, 2) + tar_end());
  CHECK(print(folder).samples == 3);
  CHECK(print(folder).content != before.content);
  write(other, "s-1.tar", sample("x", 20, 1) + tar_end());
  CHECK(print(other).samples == 2);
  CHECK(print(other).content != before.content);
}

TEST_CASE("tar: arrays and errors of members") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("a.tar");
  const std::string little = npy("<i2", "(2,)", raw(std::vector<int16_t>{1, 2}));
  const std::string big = npy(">i2", "(2,)", raw(std::vector<int16_t>{3, 4}, true));
  write(folder, "a.tar",
        tar_entry("0.NPY", little) + tar_entry("1.npy", big) +
            tar_entry("2.npy", npy("<i2", "(3,)", raw(std::vector<int16_t>{3, 4, 5}))) + tar_end());
  const auto column = open_column(member(path, "npy"), "");
  CHECK(rows<int16_t>(*column, {0, 1}) == std::vector<int16_t>{1, 2, 3, 4});
  CHECK(contains(error_of([&] { rows<int16_t>(*column, {2}); }),
                 "a.tar:2.npy: differs in type or shape from " + path + ":0.NPY"));

  write(folder, "b.tar", tar_entry("k.cls", "one") + tar_entry("k.jpg", "x") + tar_end());
  const auto integers = open_column(member(folder.file("b.tar"), "cls"), "");
  CHECK(contains(error_of([&] { rows<int64_t>(*integers, {0}); }),
                 "b.tar:k.cls: holds \"one\", which is not an integer"));
  const auto pictures = open_column(member(folder.file("b.tar"), "jpg", {3, 8, 8}), "");
  CHECK(contains(error_of([&] { rows<uint8_t>(*pictures, {0}); }), "b.tar:k.jpg: is neither"));
  CHECK(contains(error_of([&] { open_column(member(folder.file("b.tar"), "png"), ""); }),
                 "no sample has a member .png; there are .cls, .jpg"));
  write(folder, "b.tar", tar_entry("k.cls", "1") + tar_end());
  CHECK_THROWS_AS(rows<int64_t>(*integers, {0}), DataChanged);

  write(folder, "c.tar", tar_entry("k.cls", "1") + tar_entry("k.cls", "1") + tar_end());
  CHECK(contains(error_of([&] { open_column(member(folder.file("c.tar"), "cls"), ""); }),
                 "sample \"k\" has two members .cls"));
  write(folder, "d.tar", tar_entry("readme", "1") + tar_end());
  CHECK(contains(error_of([&] { open_column(member(folder.file("d.tar"), "cls"), ""); }),
                 "d.tar: holds no samples"));
  write(folder, "e.tar",
        tar_entry("k.cls", "1") + tar_entry("l.cls", "1") + tar_entry("l.png", "") + tar_end());
  CHECK(contains(error_of([&] { open_column(member(folder.file("e.tar"), "png"), ""); }),
                 "e.tar: sample \"k\" has no member .png"));
}

TEST_CASE("tar: archives as tar writes them") {
  const TemporaryDirectory folder;
  const std::string deep = std::string(90, 'd') + "/" + std::string(90, 'e'),
                    name = deep + "/" + std::string(150, 'n') + ".txt";
  adaptdl::make_directories(folder.file("in/" + deep));
  write(folder, "in/" + name, "content");
  for (const char* format : {"gnu", "pax"}) {
    const std::string command = "tar -C " + folder.file("in") + " --format=" + format + " -cf " +
                                folder.file("x.tar") + " .";
    REQUIRE(std::system(command.c_str()) == 0);
    CHECK(listed(adaptdl::read_file(folder.file("x.tar"), 1 << 20)) == name + "=content;");
  }
  const std::string command =
      "tar -C " + folder.file("in") + " -czf " + folder.file("x.tar") + " .";
  REQUIRE(std::system(command.c_str()) == 0);
  CHECK(contains(tar_error(adaptdl::read_file(folder.file("x.tar"), 1 << 20)), "is compressed"));
}

TEST_CASE("tar: damaged archives") {
  const std::string file = tar_entry("a.cls", "12345") + tar_entry("b.cls", "6") + tar_end();
  CHECK(listed(file) == "a.cls=12345;b.cls=6;");
  for (size_t size = 0; size + 512 < file.size(); ++size) {
    CHECK(contains(tar_error(file.substr(0, size)), "truncated"));
  }
  std::string damaged = file;
  damaged[1024] = 'c';
  CHECK(contains(tar_error(damaged), "damaged: no header of a member at byte 1024"));
  CHECK(contains(tar_error(std::string(2000, 'x')), "is not a tar file"));
  CHECK(contains(tar_error(tar_entry("s", "", 'S') + tar_end()), "sparse"));
  CHECK(contains(tar_error(tar_entry("p", "12 path", 'x') + tar_end()), "damaged: a pax header"));
  CHECK(listed(tar_entry("p", "12 path=a.x\n9 size=1\n", 'x') + tar_entry("b", "1") + tar_end()) ==
        "a.x=1;");
}
