#include "core/job/project_copy.h"

#include <algorithm>
#include <climits>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/files.h"
#include "tests/unit/base/expect_error.h"
#include "tests/unit/formats/make_zip.h"

using namespace adaptdl;

namespace {

using Texts = std::vector<std::string>;

const CopyOptions kQuick = {.durable = false};

std::string link_target(const std::string& path) {
  char target[PATH_MAX] = {};
  REQUIRE(::readlink(path.c_str(), target, sizeof target - 1) >= 0);
  return target;
}

struct stat status_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return status;
}

// A folder `p` for the project and a place `c` for its copy.
struct Folder {
  Folder() { make_directories(project()); }
  std::string project() const { return dir.file("p"); }
  std::string copy() const { return dir.file("c"); }
  std::string in_project(const std::string& name) const { return project() + "/" + name; }
  std::string in_copy(const std::string& name) const { return copy() + "/" + name; }
  void write(const std::string& name, const std::string& text = "x") const {
    make_directories(parent_directory(in_project(name)));
    write_file_atomic(in_project(name), text);
  }
  void link(const std::string& target, const std::string& name) const {
    make_directories(parent_directory(in_project(name)));
    REQUIRE(::symlink(target.c_str(), in_project(name).c_str()) == 0);
  }
  ProjectCopy run(const Texts& data = {}, const CopyOptions& options = kQuick) const {
    return copy_project(ProjectFiles(project(), data), copy(), options);
  }
  TemporaryDirectory dir;
};

// All paths of a tree, sorted; folders end with '/', links are followed by their target.
Texts tree(const std::string& folder, const std::string& prefix = "") {
  Texts paths;
  for (const std::string& name : list_directory(folder)) {
    const std::string path = folder + "/" + name;
    const mode_t mode = status_of(path).st_mode;
    if (S_ISDIR(mode)) {
      paths.push_back(prefix + name + "/");
      const Texts inner = tree(path, prefix + name + "/");
      paths.insert(paths.end(), inner.begin(), inner.end());
    } else {
      paths.push_back(prefix + name + (S_ISLNK(mode) ? " -> " + link_target(path) : ""));
    }
  }
  return paths;
}

}  // namespace

TEST_CASE("a snapshot is the project, with modes and times") {
  const Folder folder;
  folder.write("train.py", "print()");
  folder.write("a/b/run.sh", "#!/bin/sh");
  make_directories(folder.in_project("empty"));
  REQUIRE(::chmod(folder.in_project("a/b/run.sh").c_str(), 0755) == 0);
  REQUIRE(::chmod(folder.in_project("a/b").c_str(), 0500) == 0);
  const struct timespec times[2] = {{1000, 0}, {2000, 5}};
  for (const char* name : {"train.py", "a/b", "a", "empty"}) {
    REQUIRE(::utimensat(AT_FDCWD, folder.in_project(name).c_str(), times, 0) == 0);
  }
  Texts heard;
  const ProjectCopy copied = folder.run(
      {}, {.progress = [&](uint64_t files,
                           uint64_t bytes) { heard.push_back(fmt::format("{} {}", files, bytes)); },
           .durable = true});
  CHECK(tree(folder.copy()) == Texts{"a/", "a/b/", "a/b/run.sh", "empty/", "train.py"});
  CHECK(read_file(folder.in_copy("train.py"), 100) == "print()");
  CHECK(copied.files == 2);
  CHECK(copied.bytes == 16);
  CHECK(copied.warnings.empty());
  REQUIRE_FALSE(heard.empty());
  CHECK(heard.back() == "2 16");
  CHECK((status_of(folder.in_copy("a/b/run.sh")).st_mode & 07777) == 0755);
  CHECK((status_of(folder.in_copy("a/b")).st_mode & 07777) == 0700);
  CHECK((status_of(folder.copy()).st_mode & 07777) == 0700);
  for (const char* name : {"train.py", "a/b", "a", "empty"}) {
    CAPTURE(name);
    CHECK(status_of(folder.in_copy(name)).st_mtim.tv_sec == 2000);
  }
  REQUIRE(::chmod(folder.in_project("a/b").c_str(), 0700) == 0);
}

TEST_CASE("what .adaptdlignore names, .git and folders of runs are left out") {
  const Folder folder;
  for (const char* name : {".git/HEAD", "sub/.git", "digits.run/run.lock", "keep.run/x", "x.run",
                           "a.pt", "sub/b.pt", "sub/good.pt", "cache/x/y", "train.py"}) {
    folder.write(name);
  }
  folder.write(".adaptdlignore", "*.pt\n!good.pt\n/cache/\n!keep.run/\n");
  folder.run();
  CHECK(tree(folder.copy()) == Texts{".adaptdlignore", "keep.run/", "keep.run/x", "sub/",
                                     "sub/good.pt", "train.py", "x.run"});

  const ProjectFiles files(folder.project());
  CHECK(files.left_out("cache/x/y", false));
  CHECK_FALSE(files.left_out("sub/good.pt", false));
  const ProjectSize size = measure_project(files);
  CHECK(size.files == 5);
  CHECK(size.bytes == 4 + file_size(folder.in_project(".adaptdlignore")));
  REQUIRE(size.largest.size() == 5);
  CHECK(size.largest[0].first == ".adaptdlignore");
  CHECK(size.largest[1] == std::pair<std::string, uint64_t>("keep.run/", 1));
}

TEST_CASE("links that lead out of the project, or to what is left out, lead to the original") {
  const Folder folder;
  folder.write("a/file");
  folder.write("secret");
  folder.write(".adaptdlignore", "/secret\n");
  write_file_atomic(folder.dir.file("outside"), "o");
  folder.link("a/file", "by-name");
  folder.link("../a/./file", "b/up");
  folder.link(folder.in_project("a/file"), "b/absolute");
  folder.link("../p/a", "around");
  folder.link("nowhere", "dangling");
  folder.link("../outside", "out");
  folder.link("/no-such-thing", "out-dangling");
  folder.link("secret", "to-secret");
  const ProjectCopy copied = folder.run();
  const auto target = [&](const char* name) { return link_target(folder.in_copy(name)); };
  CHECK(target("by-name") == "a/file");
  CHECK(target("b/up") == "../a/./file");
  CHECK(target("b/absolute") == "../a/file");
  CHECK(target("around") == "a");
  CHECK(target("dangling") == "nowhere");
  const std::string real = ProjectFiles(folder.project()).folder();
  CHECK(target("out") == parent_directory(real) + "/outside");
  CHECK(target("out-dangling") == "/no-such-thing");
  CHECK(target("to-secret") == real + "/secret");
  CHECK(copied.outside_links == Texts{"out", "out-dangling", "to-secret"});
  CHECK(copied.files == 2);
}

TEST_CASE("data is linked at its place, and data from elsewhere under its name") {
  const Folder folder;
  folder.write("train.py");
  folder.write("sets/images/1.png");
  folder.write("sets/notes");
  folder.write("labels.npy");
  make_directories(folder.dir.file("big"));
  write_file_atomic(folder.dir.file("big/file"), "b");
  const ProjectCopy copied = folder.run({"sets/images", "labels.npy", folder.dir.file("big"),
                                         "sets/images/1.png", folder.in_project("labels.npy")});
  CHECK(tree(folder.copy()) == Texts{"big -> " + folder.dir.file("big"),
                                     "labels.npy -> " + folder.in_project("labels.npy"), "sets/",
                                     "sets/images -> " + folder.in_project("sets/images"),
                                     "sets/notes", "train.py"});
  CHECK(copied.files == 2);
  CHECK(measure_project(ProjectFiles(folder.project(), {"sets"})).files == 2);
}

TEST_CASE("data below a folder that is left out, or behind a link") {
  const Folder folder;
  folder.write("ignored/deep/set");
  folder.write("ignored/other");
  folder.write(".adaptdlignore", "ignored/\n");
  make_directories(folder.dir.file("elsewhere"));
  write_file_atomic(folder.dir.file("elsewhere/set"), "s");
  folder.link(folder.dir.file("elsewhere"), "linked");
  folder.run({"ignored/deep/set", "linked/set"});
  const std::string elsewhere = folder.dir.file("elsewhere");
  CHECK(tree(folder.copy()) == Texts{".adaptdlignore", "ignored/", "ignored/deep/",
                                     "ignored/deep/set -> " + folder.in_project("ignored/deep/set"),
                                     "linked -> " + elsewhere});
  CHECK(read_file(folder.in_copy("linked/set"), 10) == "s");
  CHECK(list_directory(elsewhere) == Texts{"set"});
}

TEST_CASE("data that has no place is refused") {
  const Folder folder;
  folder.write("set");
  for (const char* name : {"x/set", "y/other", "z/other"}) {
    make_directories(folder.dir.file(parent_directory(name)));
    write_file_atomic(folder.dir.file(name), "");
  }
  CHECK_ERROR(folder.run({"none"}), "none does not exist");
  CHECK_ERROR(folder.run({"."}), "is the project itself");
  CHECK_ERROR(folder.run({folder.dir.file("x/set")}), "which the project already has");
  CHECK_ERROR(folder.run({"../y/other", "../z/other"}), "rename one of the two");
  CHECK_FALSE(path_exists(folder.copy()));
}

TEST_CASE("sockets, pipes and devices are left out with a warning") {
  const Folder folder;
  folder.write("file");
  REQUIRE(::mkfifo(folder.in_project("pipe").c_str(), 0600) == 0);
  const ProjectCopy copied = folder.run();
  CHECK(tree(folder.copy()) == Texts{"file"});
  REQUIRE(copied.warnings.size() == 1);
  CHECK(contains(copied.warnings[0], "pipe is not copied"));
}

TEST_CASE("a file that changes all the time is told") {
  const Folder folder;
  folder.write("log", std::string(1000, 'x'));
  const ProjectCopy copied =
      folder.run({}, {.progress =
                          [&](uint64_t files, uint64_t) {
                            if (files > 0) return;
                            const Fd log = open_file(folder.in_project("log"), O_WRONLY | O_APPEND);
                            write_all(log.get(), "more", "log");
                          },
                      .durable = false});
  REQUIRE(copied.warnings.size() == 1);
  CHECK(contains(copied.warnings[0], "changed while it was copied"));
}

TEST_CASE("a copy that fails leaves nothing behind") {
  const Folder folder;
  folder.write("a/file");
  folder.write("b/file");
  CHECK_ERROR(folder.run({}, {.progress =
                                  [](uint64_t files, uint64_t) {
                                    if (files == 2) fail("given up");
                                  },
                              .durable = false}),
              "given up");
  CHECK_FALSE(path_exists(folder.copy()));

  make_directories(folder.copy());
  CHECK_ERROR(folder.run(), "already exists");
  CHECK(path_exists(folder.copy()));  // not ours
  CHECK_ERROR(ProjectFiles(folder.in_project("a/file")), "is not a folder");
  CHECK_ERROR(ProjectFiles(folder.in_project("none")), "none: cannot open");
}

TEST_CASE("a project is not copied into itself, unless the place is left out") {
  const Folder folder;
  folder.write("state/x");
  const ProjectFiles files(folder.project());
  CHECK_ERROR(copy_project(files, folder.in_project("c"), kQuick), "which is inside this folder");
  CHECK_ERROR(copy_project(files, folder.in_project("state/c"), kQuick), "list state/ in");
  CHECK_FALSE(path_exists(folder.in_project("c")));
  // By way of a link, too.
  REQUIRE(::symlink(folder.project().c_str(), folder.dir.file("way").c_str()) == 0);
  CHECK_ERROR(copy_project(files, folder.dir.file("way/c"), kQuick), "which is inside this folder");

  folder.write(".adaptdlignore", "state/\n");
  copy_project(ProjectFiles(folder.project()), folder.in_project("state/c"), kQuick);
  CHECK(tree(folder.in_project("state/c")) == Texts{".adaptdlignore"});
}

namespace {

// An archive as far as its settings go.
std::string archive(const std::string& train) {
  return make_zip({{"m/data.pkl", "x"},
                   {"m/extra/adaptdl.yaml", "data: {train: [" + train +
                                                "]}\nbatch: {initial: 4}\n"
                                                "optimizer: {kind: sgd, lr: 0.1}\n"}});
}

}  // namespace

TEST_CASE("an archive comes with links to its data") {
  const Folder folder;
  folder.write("train.pt", archive("{path: x.npy}, {path: sets/y.npy}, {path: sets/y.npy}, "
                                   "{path: ../z.npy}, {path: /dev/null}, "
                                   "{format: synthetic, samples: 4, shape: [1]}"));
  folder.write("x.npy");
  folder.write("sets/y.npy");
  write_file_atomic(folder.dir.file("z.npy"), "z");
  folder.write("unrelated");
  const std::string file = folder.in_project("train.pt");
  const ProjectCopy copied =
      copy_program(file, JobSpec::Kind::archive, {"seed=1"}, folder.copy(), kQuick);
  CHECK(tree(folder.copy()) == Texts{"sets/", "sets/y.npy -> " + folder.in_project("sets/y.npy"),
                                     "train.pt", "x.npy -> " + folder.in_project("x.npy")});
  CHECK(copied.settings == Texts{"data.train.3.path=" + folder.dir.file("z.npy")});
  CHECK(copied.files == 1);
}

TEST_CASE("an archive brings a text's vocabulary, and the files of a pattern") {
  const Folder folder;
  for (const char* name : {"s/0.tar", "s/1.tar", "text.txt", "words.txt"}) folder.write(name, "x");
  folder.write("train.pt",
               archive("{path: text.txt, format: text, window: 1, tokens: words, "
                       "vocabulary: words.txt}, {path: 's/{0..1}.tar', format: tar, member: cls}"));
  const std::string file = folder.in_project("train.pt");
  const ProjectCopy copied =
      copy_program(file, JobSpec::Kind::archive,
                   {"data.validation=[{path: text.txt, format: text, window: 1}, "
                    "{path: '../p/s/*.tar', format: tar, member: cls}]"},
                   folder.copy(), kQuick);
  const auto linked = [&](const std::string& name) {
    return name + " -> " + folder.in_project(name);
  };
  CHECK(tree(folder.copy()) == Texts{"s/", linked("s/0.tar"), linked("s/1.tar"), linked("text.txt"),
                                     "train.pt", linked("words.txt")});
  CHECK(copied.settings == Texts{"data.validation.1.path=" + folder.in_project("s/*.tar")});
  CHECK_ERROR(copy_program(file, JobSpec::Kind::archive, {"data.train.1.path=s/{1..2}.tar"},
                           folder.copy() + "2", kQuick),
              "s/2.tar does not exist");
}

TEST_CASE("an archive in a folder whose name looks like a pattern, or behind a symlink") {
  const Folder folder;
  for (const char* name : {"r[1]{a,b}/s/0.tar", "r[1]{a,b}/s/1.tar", "r[1]{a,b}/x*.tar"}) {
    folder.write(name);
  }
  folder.write("r[1]{a,b}/train.pt",
               archive("{path: './s/*.tar', format: tar, member: cls}, {path: 'x*.tar', format: "
                       "tar, member: cls}, {path: ., format: images, shape: [1, 2, 2]}, "
                       "{path: ../z.npy}"));
  folder.write("z.npy");
  folder.link("r[1]{a,b}/s", "link");
  write_file_atomic(folder.dir.file("z.npy"), "wrong");
  REQUIRE(::symlink("p/r[1]{a,b}", folder.dir.file("way").c_str()) == 0);
  const std::string place = real_path(folder.in_project("r[1]{a,b}"));
  const std::string beside = parent_directory(place) + "/z.npy";
  const auto copy = [&](const std::string& file) {
    return copy_program(file, JobSpec::Kind::archive, {}, folder.copy(), kQuick);
  };
  const ProjectCopy copied = copy(folder.in_project("link/../train.pt"));
  CHECK(tree(folder.copy()) == Texts{"s/", "s/0.tar -> " + place + "/s/0.tar",
                                     "s/1.tar -> " + place + "/s/1.tar", "train.pt",
                                     "x*.tar -> " + place + "/x*.tar"});
  CHECK(copied.settings.back() == "data.train.3.path=" + beside);
  CHECK(copied.settings.front() == "data.train.2.path=" + place);
  remove_tree(folder.copy());
  // As the runtime finds it: above the folder itself, not above the symlink.
  CHECK(copy(folder.dir.file("way/train.pt")).settings.back() == "data.train.3.path=" + beside);
}

TEST_CASE("an archive that cannot train is refused") {
  const Folder folder;
  folder.write("train.pt", archive("{path: x.npy}"));
  const std::string file = folder.in_project("train.pt");
  const auto copy = [&](const Texts& settings) {
    return copy_program(file, JobSpec::Kind::archive, settings, folder.copy(), kQuick);
  };
  CHECK_ERROR(copy({}), "data.train.0.path: " + folder.in_project("x.npy") + " does not exist");
  CHECK_ERROR(copy({"epochs=-1"}), "epochs");
  CHECK_ERROR(copy({"epoch=1"}), "did you mean epochs?");
  CHECK_FALSE(path_exists(folder.copy()));
  CHECK(copy({"data.train.0.path=/dev/null"}).settings.empty());
  CHECK_ERROR(copy_program(folder.in_project("none.pt"), JobSpec::Kind::archive, {}, folder.copy()),
              "does not exist");
}

TEST_CASE("an executable comes alone, also by way of a link") {
  const Folder folder;
  folder.write("bin/tool", "#!/bin/sh");
  REQUIRE(::chmod(folder.in_project("bin/tool").c_str(), 0755) == 0);
  folder.link("bin/tool", "train");
  copy_program(folder.in_project("train"), JobSpec::Kind::executable, {}, folder.copy(), kQuick);
  CHECK(tree(folder.copy()) == Texts{"train"});
  CHECK((status_of(folder.in_copy("train")).st_mode & 07777) == 0755);
  CHECK_ERROR(copy_program(folder.project(), JobSpec::Kind::executable, {}, folder.copy(), kQuick),
              "is a folder");
}
