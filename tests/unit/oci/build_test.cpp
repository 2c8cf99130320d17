#include "core/oci/build.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/files.h"
#include "core/base/process.h"
#include "core/oci/image_output.h"
#include "tests/unit/base/expect_error.h"

namespace adaptdl::oci {
namespace {

const Platform kPlatform{"linux", "amd64", ""};

struct Project {
  TemporaryDirectory folder, layers;
  Project() {
    make_directories(folder.file("src/deep"));
    for (const char* name : {"main.py", "src/a.py", "src/deep/b.py", "data.tar.gz"}) {
      replace_file(folder.file(name), name);
    }
    REQUIRE(chmod(folder.file("main.py").c_str(), 0700) == 0);
  }
  Image build(const std::string& text, std::map<std::string, std::string> arguments = {}) {
    BuildOptions options;
    options.platform = kPlatform;
    options.arguments = std::move(arguments);
    options.layers = layers.path();
    options.base = [](const Reference& reference, const Platform& platform) {
      Image image = empty_image(platform);
      append_layer(image, {"/nowhere", "sha256:1", "sha256:2", 3}, to_string(reference));
      settings(image) = {{"Env", {"PATH=/bin"}}, {"Cmd", {"sh"}}};
      if (reference.repository == "notebook") {
        settings(image) = {{"Env", {"PATH=/opt/conda/bin:/usr/bin", "HOME=/home/me"}},
                           {"WorkingDir", "/work/books/"}};
      }
      return image;
    };
    return build_dockerfile(parse_dockerfile(text, "D"), read_context(folder.path()), options);
  }
  // What `tar` lists of the newest layer: "MODE OWNER PATH".
  std::string listing(const Image& image) {
    const std::string digest = image.manifest["layers"].back()["digest"];
    SpawnOptions options;
    options.argv = {"tar", "--numeric-owner", "-tvzf", image.files.at(digest)};
    std::string lines;
    std::string output = run_and_capture(options, Seconds(30)).output;
    for (size_t at = 0; at < output.size();) {
      const size_t end = output.find('\n', at);
      const std::string line = output.substr(at, end - at);
      const std::string owner = line.substr(11, line.find(' ', 11) - 11);
      lines += line.substr(0, 10) + " " + owner + " " + line.substr(line.find("00:00 ") + 6) + "\n";
      at = end + 1;
    }
    return lines;
  }
};

Json config(const Image& image) {
  return image.config["config"];
}

}  // namespace

TEST_CASE("settings of a Dockerfile become those of the image") {
  Project project;
  const Image image = project.build(
      "ARG TAG=1\nFROM base.io/a:$TAG\nARG WHO=me\nENV A=1 B=\"$WHO $PATH\" C='$A'\nENV OLD a  b\n"
      "WORKDIR /srv\nWORKDIR app\nLABEL x.y=\"1 2\"\nEXPOSE 80 90/udp $A\nUSER $WHO\n"
      "ENTRYPOINT [\"python3\", \"-u\"]\n",
      {{"WHO", "you there"}});
  CHECK(image.config["history"][0]["created_by"] == "base.io/a:1");
  CHECK(config(image) ==
        Json({{"Env", {"PATH=/bin", "A=1", "B=you there /bin", "C=$A", "OLD=a  b"}},
              {"WorkingDir", "/srv/app"},
              {"Labels", {{"x.y", "1 2"}}},
              {"ExposedPorts",
               {{"80/tcp", Json::object()}, {"90/udp", Json::object()}, {"1/tcp", Json::object()}}},
              {"User", "you there"},
              {"Entrypoint", {"python3", "-u"}}}));
  CHECK(
      config(project.build("FROM a\nENV LANG \"C.UTF-8\"\nENV X one\\ two  'a  b'\n"
                           "ENV PATTERN=\"\\d+\\.txt\" AT='\\d \"it\"'\n"
                           "ENV BOTH=\"<$PATTERN $AT>\" BARE=$AT\nENV OLD \"$AT\" $AT\n"))["Env"] ==
      Json({"PATH=/bin", "LANG=C.UTF-8", "X=one two  a  b", "PATTERN=\\d+\\.txt", "AT=\\d \"it\"",
            "BOTH=<\\d+\\.txt \\d \"it\">", "BARE=\\d \"it\"", "OLD=\\d \"it\" \\d \"it\""}));
  CHECK(config(project.build("FROM a\nCMD python3 main.py"))["Cmd"] ==
        Json({"/bin/sh", "-c", "python3 main.py"}));
}

TEST_CASE("the platforms are arguments that nobody has to give") {
  Project project;
  make_directories(project.folder.file("bin/amd64"));
  replace_file(project.folder.file("bin/amd64/tool"), "tool");
  const Image image = project.build(
      "ARG NAME=of-$TARGETARCH\nFROM --platform=$TARGETPLATFORM $NAME\n"
      "FROM --platform=linux/${BUILDARCH:-none} b\nENV UNSEEN=<$TARGETARCH>\n"
      "ARG TARGETARCH\nARG TARGETVARIANT\nARG BUILDPLATFORM\nARG TARGETOS=own\n"
      "ENV A=$TARGETARCH-$TARGETVARIANT-$TARGETOS B=$BUILDPLATFORM\n"
      "COPY bin/$TARGETARCH/tool /x/\n");
  CHECK(config(image)["Env"] ==
        Json({"PATH=/bin", "UNSEEN=<>", "A=amd64--own", "B=" + to_string(this_platform())}));
  CHECK(image.config["architecture"] == this_platform().architecture);
  CHECK(project.listing(image) == "-rw-r--r-- 0/0 x/tool\n");
  const Image named = project.build("ARG NAME=of-$TARGETARCH\nFROM $NAME\nENV A=1\n");
  CHECK(contains(named.config["history"][0]["created_by"].get<std::string>(), "of-amd64"));
  CHECK(project
            .build("FROM --platform=$TARGETPLATFORM a\nENV A=1\n",
                   {{"TARGETPLATFORM", "linux/arm64/v8"}})
            .config["architecture"] == "arm64");
}

TEST_CASE("copies land where docker puts them") {
  Project project;
  const auto copied = [&](const std::string& line) {
    return project.listing(project.build("FROM scratch\nWORKDIR /w\n" + line));
  };
  CHECK(copied("COPY main.py .") == "-rwxr-xr-x 0/0 w/main.py\n");
  CHECK(copied("COPY main.py /x/run.py") == "-rwxr-xr-x 0/0 x/run.py\n");
  CHECK(copied("COPY main.py /root") == "-rwxr-xr-x 0/0 root/main.py\n");
  CHECK(copied("COPY --chown=5:6 --chmod=640 src/a.py main.py x/") ==
        "-rw-r----- 5/6 w/x/a.py\n-rw-r----- 5/6 w/x/main.py\n");
  CHECK(copied("COPY src /x") ==
        "drwxr-xr-x 0/0 x/\n-rw-r--r-- 0/0 x/a.py\ndrwxr-xr-x 0/0 x/deep/\n"
        "-rw-r--r-- 0/0 x/deep/b.py\n");
  CHECK(copied("COPY [\"src/*.py\", \"/x/\"]") == "-rw-r--r-- 0/0 x/a.py\n");
  CHECK(contains(copied("COPY . ."), "w/src/deep/b.py\n"));
  CHECK(copied("ADD main.py /x") == "-rwxr-xr-x 0/0 x\n");
}

TEST_CASE("a file goes into what is a folder of the base, by its settings or by custom") {
  Project project;
  const auto copied = [&](const std::string& line) {
    return project.listing(project.build("FROM r.io/notebook AS one\nFROM one\n" + line));
  };
  for (const std::string folder : {"/work/books", "/work", "/home/me", "/opt/conda",
                                   "/opt/conda/bin", "/usr/local/bin", "/var/lib", "/tmp"}) {
    CAPTURE(folder);
    CHECK(copied("COPY main.py " + folder) == "-rwxr-xr-x 0/0 " + folder.substr(1) + "/main.py\n");
    CHECK(copied("ADD *.py " + folder) == copied("COPY main.py " + folder + "/"));
  }
  CHECK(copied("WORKDIR /new/deep\nCOPY main.py /new") == "-rwxr-xr-x 0/0 new/main.py\n");
  CHECK(copied("COPY src /new\nCOPY main.py /new/deep") == "-rwxr-xr-x 0/0 new/deep/main.py\n");
  CHECK(copied("COPY main.py /new/a.py\nFROM b\nFROM one\nCOPY main.py /tmp") ==
        "-rwxr-xr-x 0/0 tmp/main.py\n");
  CHECK(project.listing(project.build("FROM a AS one\nCOPY main.py /new/a.py\nFROM b\nFROM one\n"
                                      "COPY main.py /new")) == "-rwxr-xr-x 0/0 new/main.py\n");
}

TEST_CASE(
    "a file to a place that may be a folder of the base is refused, unless it looks like one") {
  Project project;
  for (const char* name : {"app", "entry.sh", "a.conf", "crontab"}) {
    replace_file(project.folder.file(name), name);
  }
  for (const char* line :
       {"app /app", "app /app/app", "entry.sh /entry", "entry.sh /entry.sh", "a.conf /etc/b.conf",
        "app /usr/local/bin/tool", "app /opt/x/sbin/tool", "crontab /etc/cron.d/mine",
        "a.conf /root/.bashrc", "main.py src/a.py /x/", "src /x", ". /x"}) {
    CAPTURE(line);
    CHECK_NOTHROW(project.build("FROM a\nCOPY " + std::string(line)));
  }
  for (const char* line : {"main.py /workspace", "*.conf /etc/nginx", "a.conf /etc/x/conf.d"}) {
    CAPTURE(line);
    CHECK(contains(error_of([&] { project.build("FROM a\nCOPY " + std::string(line)); }),
                   "may be a folder of the base image, which the file "));
    CHECK_NOTHROW(project.build("FROM scratch\nCOPY " + std::string(line)));
    CHECK_NOTHROW(project.build("FROM a\nCOPY " + std::string(line) + "/"));
  }
  CHECK_ERROR(project.build("FROM a\nCOPY main.py /data"),
              "D:2: /data may be a folder of the base image, which the file main.py would replace; "
              "write /data/ to copy into the folder, rename the source to data to create that "
              "file, or install docker, podman or buildctl");
}

TEST_CASE("folders of the base keep their owner and mode when something is copied into them") {
  Project project;
  const auto copied = [&](const std::string& line) {
    return project.listing(project.build("FROM r.io/notebook\n" + line));
  };
  const std::string files =
      "-rw-r--r-- 0/0 {0}/a.py\ndrwxr-xr-x 0/0 {0}/deep/\n-rw-r--r-- 0/0 "
      "{0}/deep/b.py\n";
  for (const char* place : {"work/books", "tmp", "root", "home/me"}) {
    CAPTURE(place);
    CHECK(copied(fmt::format("COPY src /{}/", place)) == fmt::format(fmt::runtime(files), place));
  }
  CHECK(copied("COPY src .") == fmt::format(fmt::runtime(files), "work/books"));
  CHECK(copied("WORKDIR /new\nCOPY src .") ==
        "drwxr-xr-x 0/0 new/\n" + fmt::format(fmt::runtime(files), "new"));
  make_directories(project.folder.file("none"));
  CHECK(copied("COPY none /new") == "drwxr-xr-x 0/0 new/\n");
  CHECK(copied("COPY none /tmp") == "");
  SpawnOptions spawn;
  spawn.argv = {"tar",
                "-C",
                project.folder.file("src"),
                "-cf",
                project.folder.file("s.tar"),
                "--owner=0",
                "--group=0",
                "a.py"};
  REQUIRE(run_and_capture(spawn, Seconds(30)).status.success());
  CHECK(copied("ADD s.tar /tmp") == "-rw-r--r-- 0/0 tmp/a.py\n");
  CHECK(copied("ADD s.tar /new") == "drwxr-xr-x 0/0 new/\n-rw-r--r-- 0/0 new/a.py\n");
}

TEST_CASE("a source that is a link is what it leads to; links below a folder stay links") {
  Project project;
  const auto link = [&](const char* target, const char* name) {
    REQUIRE(symlink(target, project.folder.file(name).c_str()) == 0);
  };
  link("src/deep/../a.py", "first.py");
  link("src", "current");
  link("/current", "indirect");
  link(".", "here");
  link("../../main.py", "src/up.py");
  link("/etc/passwd", "outside");
  link("round", "round");
  const auto copied = [&](const std::string& line) {
    return project.listing(project.build("FROM scratch\nCOPY " + line));
  };
  CHECK(copied("first.py /x/") == "-rw-r--r-- 0/0 x/first.py\n");
  CHECK(copied("fir*.py indirect/a.py /x") == "-rw-r--r-- 0/0 x/a.py\n-rw-r--r-- 0/0 x/first.py\n");
  CHECK(copied("indirect /x") == copied("src /x"));
  CHECK(contains(copied("src /x"), "x/up.py -> ../../main.py\n"));
  CHECK(copied("indirect/*.py here/main.py /x/") ==
        "-rw-r--r-- 0/0 x/a.py\n-rwxr-xr-x 0/0 x/main.py\n-rwxr-xr-x 0/0 x/up.py\n");
  CHECK(copied("here /x") == copied(". /x"));
  CHECK_ERROR(copied("outside /x"), "D:2: outside is a symlink to /etc/passwd, which is not in ");
  CHECK_ERROR(copied("out* /x"), "outside is a symlink to /etc/passwd, which is not in ");
  CHECK_ERROR(copied("round /x"), "D:2: round: its symlinks form a loop");
  CHECK_ERROR(copied("current/none /x"), "D:2: current/none is not in ");
}

TEST_CASE("ADD unpacks tar files into the folder that it names") {
  Project project;
  SpawnOptions spawn;
  REQUIRE(symlink("/etc/hosts", project.folder.file("src/hosts").c_str()) == 0);
  spawn.argv = {"tar",
                "-C",
                project.folder.path(),
                "-czf",
                project.folder.file("b.tgz"),
                "--mode=750",
                "main.py",
                "src/a.py",
                "src/hosts"};
  REQUIRE(run_and_capture(spawn, Seconds(30)).status.success());
  CHECK(project.listing(project.build("FROM scratch\nADD --chown=5 b.tgz src/deep/b.py /x")) ==
        "drwxr-xr-x 5/5 x/\n-rw-r--r-- 5/5 x/b.py\n-rwxr-x--- 5/5 x/main.py\n"
        "-rwxr-x--- 5/5 x/src/a.py\nlrwxrwxrwx 5/5 x/src/hosts -> /etc/hosts\n");
  CHECK(project.listing(project.build("FROM scratch\nCOPY b.tgz /x")) == "-rw-r--r-- 0/0 x\n");
}

TEST_CASE("what ADD unpacks keeps the archive's owners and modes, unless others are given") {
  Project project;
  const std::string archive = project.folder.file("root.tar");
  REQUIRE(link(project.folder.file("main.py").c_str(), project.folder.file("su").c_str()) == 0);
  REQUIRE(symlink("main.py", project.folder.file("link").c_str()) == 0);
  const auto pack = [&](std::vector<std::string> arguments) {
    SpawnOptions spawn;
    spawn.argv = {"tar", "-C", project.folder.path(), "-f", archive, "--no-recursion"};
    spawn.argv.insert(spawn.argv.end(), arguments.begin(), arguments.end());
    REQUIRE(run_and_capture(spawn, Seconds(30)).status.success());
  };
  pack({"-c", "--owner=1000", "--group=1001", "--mode=4755", "main.py", "su", "link"});
  pack({"-r", "--owner=0", "--group=3", "--mode=1777", "src"});
  const auto added = [&](const std::string& line) {
    return project.listing(project.build("FROM scratch\nADD " + line));
  };
  CHECK(added("root.tar src/a.py /") ==
        "-rw-r--r-- 0/0 a.py\nlrwxrwxrwx 1000/1001 link -> main.py\n"
        "-rwsr-xr-x 1000/1001 main.py\ndrwxrwxrwt 0/3 src/\n-rwsr-xr-x 1000/1001 su\n");
  CHECK(added("--chown=5:6 --chmod=711 root.tar /") ==
        "lrwxrwxrwx 5/6 link -> main.py\n-rwx--x--x 5/6 main.py\ndrwxrwxrwt 5/6 src/\n"
        "-rwx--x--x 5/6 su\n");
}

TEST_CASE("a stage goes on from another") {
  Project project;
  const Image image =
      project.build("FROM base.io/a AS one\nENV A=1\nFROM b\nENV B=2\nFROM one\nENV C=3\n");
  CHECK(config(image)["Env"] == Json({"PATH=/bin", "A=1", "C=3"}));
}

TEST_CASE("what cannot be done here is refused with its line, and what can do it") {
  Project project;
  const auto refused = [&](const std::string& line) {
    return error_of([&] { project.build("FROM a\n" + line); });
  };
  for (const char* line : {"RUN make", "COPY --from=x a b", "VOLUME /a", "SHELL [\"a\"]",
                           "RUN <<EOF\napt-get update\nEOF", "COPY <<'A' /a\nx\nA"}) {
    CAPTURE(line);
    CHECK(why_not_here(parse_dockerfile("FROM a\n" + std::string(line), "D")));
    CHECK(contains(refused(line), "install docker, podman or buildctl"));
    CHECK(contains(refused(line), "D:2: "));
  }
  CHECK_FALSE(why_not_here(parse_dockerfile("FROM a\nCOPY a b", "D")));
  CHECK(contains(refused("ADD https://a.io/b c"), "D:2: https://a.io/b is not a file"));
  CHECK(contains(refused("ADD data.tar.gz /x"),
                 "cannot unpack data.tar.gz here: cannot read the archive"));
  CHECK(contains(refused("COPY main.py /bin/"), "D:2: /bin is a symlink in most images"));
  CHECK(contains(refused("COPY main.py /lib64/x"), "is a symlink in most images"));
  CHECK(contains(refused("COPY none /x"), "none is not in "));
  CHECK(contains(refused("COPY ../../etc/passwd /x"), "is not in "));
  CHECK(contains(refused("COPY main.py"), "sources and a destination"));
  CHECK(contains(refused("COPY --chown=bob main.py /x"), "give numbers"));
  CHECK(contains(refused("COPY --chmod=u+x main.py /x"), "octal"));
  CHECK(contains(refused("COPY main.py /x/.wh.y"), "D:2: "));
  CHECK(contains(refused("ENV A"), "has no value"));
  CHECK(contains(refused("FROM a b"), "FROM IMAGE [AS NAME]"));
  CHECK_ERROR(project.build("ENV A=1"), "D:1: FROM must come first");
  CHECK_ERROR(project.build("ARG A=1"), "D: has no FROM");
}

TEST_CASE("a folder without a Dockerfile is one layer below a folder of its own") {
  Project project;
  BuildOptions options;
  options.layers = project.layers.path();
  const auto make = [&] {
    return build_project(empty_image(kPlatform), read_context(project.folder.path()), options);
  };
  const Image image = make();
  CHECK(project.listing(image) ==
        "drwxr-xr-x 0/0 adaptdl-app/\n-rw-r--r-- 0/0 adaptdl-app/data.tar.gz\n"
        "-rwxr-xr-x 0/0 adaptdl-app/main.py\ndrwxr-xr-x 0/0 adaptdl-app/src/\n"
        "-rw-r--r-- 0/0 adaptdl-app/src/a.py\ndrwxr-xr-x 0/0 adaptdl-app/src/deep/\n"
        "-rw-r--r-- 0/0 adaptdl-app/src/deep/b.py\n");
  CHECK(config(image)["WorkingDir"] == "/adaptdl-app");
  CHECK(finish_image(make()).digest == finish_image(image).digest);
}

TEST_CASE("an archive in the folder is not packed into the next image") {
  Project project;
  BuildOptions options;
  options.layers = project.layers.path();
  const auto made = [&](const std::string& archive) {
    const Image image = build_project(
        empty_image(kPlatform),
        read_context(project.folder.path(), {}, "", archive_files(project.folder.file(archive))),
        options);
    write_image_tar(image, project.folder.file(archive), {"localhost", "app", "latest", ""});
    return finish_image(image).digest;
  };
  const std::string digest = made("src/app.tar");
  CHECK(path_exists(project.folder.file("src/app.tar")));
  replace_file(project.folder.file("src/app.tar.part"), "of a killed build");
  CHECK(made("src/../src/app.tar") == digest);
  CHECK(made("other.tar") != digest);  // src/app.tar is any file then
}

}  // namespace adaptdl::oci
