#include "core/oci/build_tool.h"

#include <stdlib.h>

#include "core/base/files.h"
#include "core/base/process.h"
#include "tests/unit/base/expect_error.h"

namespace adaptdl::oci::build_tool_test {
namespace {

const Platform kPlatform{"linux", "amd64", ""};
const Reference kName{"localhost", "kept", "h", ""};
const std::string kId(64, 'a'), kDigest = "sha256:" + std::string(64, 'd');

using Command = std::vector<std::string>;
using Commands = std::vector<Command>;

// Programs before all others in PATH.
struct Programs {
  TemporaryDirectory folder;
  const std::string path = getenv("PATH");  // NOLINT: every process here has one
  Programs() { setenv("PATH", (folder.path() + ":/bin:/usr/bin").c_str(), 1); }
  ~Programs() { setenv("PATH", path.c_str(), 1); }
  void write(const std::string& name, const std::string& script) {
    replace_file(folder.file(name), "#!/bin/sh\n" + script, 0755);
  }
};

// A docker whose store is the file "stored", with the ID of its one image. `build` stores if the
// file "loads" exists. It notes how it is called.
struct FakeDocker : Programs {
  explicit FakeDocker(const std::string& help) {
    write("docker", "cd '" + folder.path() + "'; echo \"$*\" >> calls\n" + R"(case "$1 $2 $4" in
build\ --help*) echo ')" +
                        help + R"(';;
build\ *) [ ! -e loads ] || cat loads > stored;;
image\ rm*) [ "$#" = 3 ] || rm stored;;
*.Id*) cat stored;;
*RepoDigests*) echo '["localhost/other@)" +
                        kDigest + R"(", "r.io/a/b@)" + kDigest + R"("]';;
push*) [ ! -e refuses ];;
esac
)");
  }
  void store(const std::string& file, const std::string& id) {
    replace_file(folder.file(file), id + "\n");
  }
  std::string calls() {
    const std::string text = read_file(folder.file("calls"), 10'000);
    remove_tree(folder.file("calls"));
    return text;
  }
};

ToolRequest docker_request() {
  return {
      .tool = "docker", .folder = "/p", .dockerfile = "/p/D", .name = kName, .platform = kPlatform};
}

}  // namespace

TEST_CASE("docker, podman and buildctl are told the same") {
  ToolRequest request{
      "docker", "/p", "/p/D", kName, kPlatform, {{"X", "1"}}, Reference{"r.io", "a/b", "t", ""},
      "/o.tar", "/n"};
  CHECK(build_command(request, true) == Command{"docker", "build", "--platform", "linux/amd64",
                                                "-f", "/p/D", "-t", "localhost/kept:h", "--load",
                                                "--build-arg", "X=1", "/p"});
  CHECK(output_commands(request) == Commands{{"docker", "tag", "localhost/kept:h", "r.io/a/b:t"},
                                             {"docker", "push", "r.io/a/b:t"},
                                             {"docker", "save", "-o", "/o.tar", "r.io/a/b:t"}});
  request.tool = "podman";
  CHECK(build_command(request, false) == Command{"podman", "build", "--platform", "linux/amd64",
                                                 "-f", "/p/D", "-t", "localhost/kept:h",
                                                 "--build-arg", "X=1", "/p"});
  CHECK(output_commands(request) ==
        Commands{{"podman", "tag", "localhost/kept:h", "r.io/a/b:t"},
                 {"podman", "push", "--digestfile", "/n", "r.io/a/b:t"},
                 {"podman", "save", "--format", "docker-archive", "-o", "/o.tar", "r.io/a/b:t"}});
  request.tool = "buildctl";
  request.output = "";
  CHECK(build_command(request, false) ==
        Command{"buildctl", "build", "--frontend", "dockerfile.v0", "--local", "context=/p",
                "--local", "dockerfile=/p", "--opt", "filename=D", "--opt", "platform=linux/amd64",
                "--opt", "build-arg:X=1", "--output", "type=image,name=r.io/a/b:t,push=true",
                "--metadata-file", "/n"});
  CHECK(output_commands(request).empty());
  request.where.reset();
  request.output = "/o.tar";
  CHECK(build_command(request, false).back() == "type=docker,name=localhost/kept:h,dest=/o.tar");
  request.tool = "docker";
  CHECK(output_commands(request) ==
        Commands{{"docker", "save", "-o", "/o.tar", "localhost/kept:h"}});
}

TEST_CASE("the first tool that answers builds, and says the digest") {
  Programs programs;
  programs.write("docker", "echo no daemon >&2; exit 1");
  programs.write("podman", "case $1 in version) exit 0;; push) echo " + kDigest +
                               " > $3;; image) echo " + kId + ";; esac");
  CHECK(find_build_tool().tool == "podman");
  ToolRequest request{"podman",
                      "/p",
                      "/p/D",
                      kName,
                      kPlatform,
                      {},
                      Reference{"r.io", "a/b", "t", ""},
                      "",
                      programs.folder.file("notes")};
  CHECK(build_with_tool(request) == Reference{"r.io", "a/b", "t", kDigest});
  request.where->tag = "";
  CHECK(build_with_tool(request).tag == "adaptdl-" + kId.substr(0, 20));
  programs.write("podman", "exit 3");
  CHECK_ERROR(build_with_tool(request), "`podman build` failed: exit code 3");
}

TEST_CASE("an image that docker's builder does not load is an error, not an earlier image") {
  FakeDocker docker("      --load    Shorthand for ...");
  ToolRequest request = docker_request();
  request.output = "/o.tar";
  docker.store("stored", kId);
  const std::string error = error_of([&] { build_with_tool(request); });
  CHECK(contains(error,
                 "`docker build` succeeded, but docker does not have the image "
                 "localhost/kept:h: "));
  CHECK(contains(error, "`docker buildx use default`"));
  const std::string calls = docker.calls();
  CHECK(contains(calls, "-t localhost/kept:h --load /p\n"));
  CHECK_FALSE(contains(calls, "save"));

  docker.store("loads", "sha256:" + kId);
  CHECK(build_with_tool(request) == kName);
  CHECK(contains(docker.calls(), "save -o /o.tar localhost/kept:h\n"));
}

TEST_CASE("docker's legacy builder, which does not know --load, keeps its cache") {
  FakeDocker docker("      --tag list   Name");
  ToolRequest request = docker_request();
  request.output = "/o.tar";
  docker.store("loads", "sha256:" + kId);
  build_with_tool(request);
  CHECK(docker.calls() ==
        "build --help\nbuild --platform linux/amd64 -f /p/D -t localhost/kept:h /p\n"
        "image inspect --format {{.Id}} localhost/kept:h\nsave -o /o.tar localhost/kept:h\n");
}

TEST_CASE(
    "without a tag an image is pushed under one of its ID, which does not stay in the store") {
  FakeDocker docker("      --load");
  ToolRequest request = docker_request();
  request.where = Reference{"r.io", "a/b", "", ""};
  docker.store("loads", "sha256:" + kId);
  const std::string tag = "adaptdl-" + kId.substr(0, 20);
  for (int i = 0; i < 2; ++i) {
    CHECK(build_with_tool(request) == Reference{"r.io", "a/b", tag, kDigest});
    const std::string calls = docker.calls();
    CHECK(contains(calls,
                   "\ntag localhost/kept:h r.io/a/b:" + tag + "\npush r.io/a/b:" + tag + "\n"));
    CHECK(calls.ends_with("\nimage rm r.io/a/b:" + tag + "\n"));
  }
  docker.store("loads", "sha256:" + std::string(64, 'b'));
  CHECK(build_with_tool(request).tag == "adaptdl-" + std::string(20, 'b'));
  docker.calls();
  docker.store("refuses", "");
  CHECK_ERROR(build_with_tool(request), "`docker push` failed: exit code 1");
  CHECK(docker.calls().ends_with("\nimage rm r.io/a/b:adaptdl-" + std::string(20, 'b') + "\n"));

  remove_tree(docker.folder.file("refuses"));
  request.where->tag = "v1";
  CHECK(build_with_tool(request) == Reference{"r.io", "a/b", "v1", kDigest});
  CHECK_FALSE(contains(docker.calls(), "image rm r.io"));
}

}  // namespace adaptdl::oci::build_tool_test
