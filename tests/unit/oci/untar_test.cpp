#include "core/oci/untar.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/base/files.h"
#include "core/base/process.h"
#include "tests/unit/base/expect_error.h"

namespace adaptdl::oci {
namespace {

constexpr char kFile = '0', kHardLink = '1', kLink = '2', kDevice = '3', kFolder = '5', kFifo = '6';

// One entry, as ustar has it: a writer of ours would not write most of those below.
std::string entry(char type, const std::string& name, const std::string& content = "",
                  const std::string& target = "", const char* mode = "0000644") {
  std::string header(512, '\0');
  const auto put = [&](size_t at, const std::string& text) {
    header.replace(at, text.size(), text);
  };
  put(0, name);
  put(100, mode);
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", content.size()));
  put(136, "00000001750");  // 1000
  put(148, "        ");
  put(156, std::string(1, type));
  put(157, target);
  put(257, std::string("ustar\00000", 8));
  put(329, "0000001");
  put(337, "0000003");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  std::string body = content;
  body.resize((content.size() + 511) / 512 * 512);
  return header + body;
}

struct Place {
  TemporaryDirectory outer;
  const std::string here = outer.file("here");
  Place() {
    make_directories(here);
    replace_file(outer.file("victim"), "victim");
  }
  ~Place() {
    CHECK(list_directory(outer.path()) == std::vector<std::string>{"here", "victim"});
    CHECK(read_file(outer.file("victim"), 100) == "victim");
    struct stat status {};
    CHECK(stat(outer.file("victim").c_str(), &status) == 0);
    CHECK(status.st_nlink == 1);
  }
  UntarResult take(const std::string& archive, const UntarOptions& options = {}) const {
    const std::string whole = archive + std::string(1024, '\0');
    size_t at = 0;
    return untar(
        [&] {
          const std::string_view piece = std::string_view(whole).substr(at, 700);
          at += piece.size();
          return piece;
        },
        here, options);
  }
  std::string read(const std::string& name) const { return read_file(join_path(here, name), 1000); }
};

struct stat status_of(const std::string& path) {
  struct stat status {};
  REQUIRE(lstat(path.c_str(), &status) == 0);
  return status;
}

}  // namespace

TEST_CASE("files, folders and links come as they were") {
  const Place place;
  std::vector<std::string> told;
  UntarOptions options;
  options.placed = [&](const TarEntry& entry) { told.push_back(entry.path); };
  const UntarResult result = place.take(
      entry(kFolder, "./d/", "", "", "0000500") + entry(kFile, "./d/f", "hello", "", "0004751") +
          entry(kLink, "d/l", "", "f") + entry(kHardLink, "d/h", "", "./d/f") +
          entry(kFile, "new/deep/\xc3\xa4\xff", ""),
      options);
  CHECK(result.files == 4);
  CHECK(result.bytes == 5);
  CHECK(result.skipped.empty());
  CHECK(told == std::vector<std::string>{"d", "d/f", "d/l", "d/h", "new/deep/\xc3\xa4\xff"});
  CHECK(place.read("d/f") == "hello");
  CHECK(place.read("d/l") == "hello");
  const struct stat file = status_of(place.here + "/d/f");
  CHECK((file.st_mode & 07777) == 0751);  // without set-user-ID
  CHECK(file.st_mtim.tv_sec == 1000);
  CHECK(file.st_ino == status_of(place.here + "/d/h").st_ino);
  const struct stat folder = status_of(place.here + "/d");
  CHECK((folder.st_mode & 07777) == 0500);
  CHECK(folder.st_mtim.tv_sec == 1000);
  CHECK(list_directory(place.here + "/d") == std::vector<std::string>{"f", "h", "l"});
}

TEST_CASE("what another program wrote, compressed or not") {
  for (const char* how : {"--format=gnu", "--format=pax", "-z"}) {
    INFO(how);
    const Place place;
    const TemporaryDirectory from;
    const std::string name(150, 'n');
    make_directories(from.file("t/\xc3\xbc"));
    replace_file(from.file("t/\xc3\xbc/" + name), "content");
    SpawnOptions spawn;
    spawn.argv = {"tar", how, "-C", from.path(), "-cf", from.file("a.tar"), "./t"};
    REQUIRE(run_and_capture(spawn, Seconds(30)).status.success());
    const Fd file = open_file(from.file("a.tar"), O_RDONLY);
    untar(read_descriptor(file.get(), "a.tar"), place.here, {.names = {{"t", "other"}}});
    CHECK(place.read("other/\xc3\xbc/" + name) == "content");
    CHECK(list_directory(place.here) == std::vector<std::string>{"other"});
  }
}

TEST_CASE("nothing is written outside of the folder") {
  const Place place;
  CHECK_ERROR(place.take(entry(kFile, "../victim", "x")),
              "the archive contains ../victim, a path with ..");
  CHECK_ERROR(place.take(entry(kFile, "a/../../victim", "x")), "a path with ..");
  CHECK_ERROR(place.take(entry(kFolder, "..")), "a path with ..");
  CHECK_ERROR(place.take(entry(kFile, place.outer.file("victim"), "x")), "an absolute path");
  CHECK_ERROR(place.take(entry(kHardLink, "h", "", "../victim")), "a path with ..");
  CHECK_ERROR(place.take(entry(kHardLink, "h", "", place.outer.file("victim"))),
              "an absolute path");
  CHECK(list_directory(place.here).empty());
}

TEST_CASE("nothing is written through links, whoever made them") {
  const Place place;
  REQUIRE(symlink("..", (place.here + "/up").c_str()) == 0);
  REQUIRE(symlink("../victim", (place.here + "/v").c_str()) == 0);
  CHECK_ERROR(place.take(entry(kFile, "up/victim", "x")), "refusing to write through it");
  CHECK_ERROR(place.take(entry(kFolder, "up")), "refusing to write through it");
  CHECK_ERROR(place.take(entry(kFolder, "up/more")), "refusing to write through it");
  CHECK_ERROR(place.take(entry(kLink, "up/l", "", "x")), "refusing to write through it");
  CHECK(place.take(entry(kHardLink, "h", "", "up/victim")).skipped.size() == 1);
  CHECK(place.take(entry(kHardLink, "h", "", "v")).skipped.size() == 1);
  // A link itself is replaced, and what it leads to stays.
  place.take(entry(kFile, "v", "mine"));
  CHECK(place.read("v") == "mine");
  // Even one that is let in on purpose is no way.
  UntarOptions options;
  options.any_links = true;
  CHECK_ERROR(place.take(entry(kLink, "w", "", "..") + entry(kFile, "w/victim", "x"), options),
              "refusing to write through it");
}

TEST_CASE("links that lead out, devices and strangers are left out") {
  const Place place;
  const UntarResult result = place.take(
      entry(kLink, "a/out", "", "../../victim") + entry(kLink, "a/abs", "", "/etc/passwd") +
      entry(kLink, "a/in", "", "../b") + entry(kLink, "a/loop", "", "in/../..") +
      entry(kDevice, "a/null") + entry(kFifo, "a/fifo") + entry(kFile, "a/f", "x"));
  CHECK(list_directory(place.here + "/a") == std::vector<std::string>{"f", "in"});
  CHECK(result.skipped ==
        std::vector<std::string>{"a/out: leads to ../../victim, outside of what is copied",
                                 "a/abs: leads to /etc/passwd, outside of what is copied",
                                 "a/loop: leads to in/../.., outside of what is copied",
                                 "a/null: not a regular file", "a/fifo: not a regular file"});
  const UntarOptions named{.names = {{"t", "u"}}};
  CHECK_ERROR(place.take(entry(kFile, "other", "x"), named), "which was not requested");
  CHECK(place.take(entry(kLink, "t", "", "victim"), named).skipped.size() == 1);
  CHECK(place.take(entry(kLink, "t/l", "", ".."), named).skipped.size() == 1);
  CHECK(place.take(entry(kLink, "t/l", "", "../t"), named).skipped.size() == 1);
  CHECK(place.take(entry(kLink, "t/l", "", "x"), named).skipped.empty());
}

TEST_CASE("damaged archives, and what is none") {
  const Place place;
  const std::string whole = entry(kFile, "f", std::string(5000, 'x'));
  const auto cut = [&](size_t size) {
    bool given = false;
    untar(
        [&]() -> std::string_view {
          return std::exchange(given, true) ? std::string_view()
                                            : std::string_view(whole).substr(0, size);
        },
        place.here);
  };
  CHECK_ERROR(cut(0), "cannot read the archive");
  CHECK_ERROR(cut(700), "cannot read the archive");
  CHECK_ERROR(cut(3000), "cannot read the archive");
  CHECK_ERROR(place.take(std::string(2000, 'x')), "cannot read the archive");
  CHECK_ERROR(untar([]() -> std::string_view { fail("the line is dead"); }, place.here),
              "the line is dead");
  CHECK(list_directory(place.here).empty());
}

TEST_CASE("links that may lead out") {
  CHECK_FALSE(leads_out("a/b", 0));
  CHECK_FALSE(leads_out("../a", 1));
  CHECK_FALSE(leads_out(".././../a/.", 2));
  CHECK(leads_out("..", 0));
  CHECK(leads_out("../../a", 1));
  CHECK(leads_out("a/..", 5));
  CHECK(leads_out("/a", 5));
  CHECK(leads_out("", 5));
}

}  // namespace adaptdl::oci
