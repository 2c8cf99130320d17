#include "core/client/config_file.h"

#include <cstdlib>
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/formats/yaml.h"

namespace adaptdl::client {
namespace {

using Path = std::vector<std::string>;

std::string with(const std::string& text, const Path& path, const std::string& value) {
  const std::string result = with_yaml_value(text, path, value, "config.yaml");
  // Whatever the text looks like, the value is where it was put.
  YamlNode node = parse_yaml(result, "config.yaml");
  for (const std::string& key : path) node = YamlMapping(node).require(key);
  CHECK(node.text() == value);
  return result;
}

TEST_CASE("a key is added to a file without it") {
  CHECK(with("", {"cluster"}, "local") == "cluster: local\n");
  CHECK(with("a: 1\n", {"cluster"}, "local") == "a: 1\ncluster: local\n");
  CHECK(with("a: 1", {"cluster"}, "local") == "a: 1\ncluster: local\n");
  CHECK(with("", {"local", "policy"}, "sia") == "local:\n  policy: sia\n");
  CHECK(with("# mine\n", {"local", "policy"}, "sia") == "# mine\nlocal:\n  policy: sia\n");
  CHECK(with("local:\na: 1\n", {"local", "policy"}, "sia") == "local:\n  policy: sia\na: 1\n");
  CHECK(with("local:\n    slots: 2\n\n# of a\na: 1\n", {"local", "policy"}, "sia") ==
        "local:\n    slots: 2\n    policy: sia\n\n# of a\na: 1\n");
}

TEST_CASE("a value is replaced; comments and other keys stay") {
  CHECK(with("cluster: there  # why\nb: 2\n", {"cluster"}, "local") ==
        "cluster: local  # why\nb: 2\n");
  CHECK(with("cluster: \"a # b\"\n", {"cluster"}, "local") == "cluster: local\n");
  CHECK(with("'cluster': x\n", {"cluster"}, "local") == "cluster: local\n");
  const std::string text =
      "# top\nlocal:\n  # the policy\n  policy: pollux   # good\n  options:\n    fairness: -1\n"
      "    # more\n    x: 2\n  slots: 4\ncluster: local\n";
  CHECK(with(text, {"local", "policy"}, "sia") ==
        "# top\nlocal:\n  # the policy\n  policy: sia   # good\n  options:\n    fairness: -1\n"
        "    # more\n    x: 2\n  slots: 4\ncluster: local\n");
  CHECK(with(text, {"local", "options"}, "none") ==
        "# top\nlocal:\n  # the policy\n  policy: pollux   # good\n  options: none\n  slots: 4\n"
        "cluster: local\n");
}

TEST_CASE("a key of the same name elsewhere is left alone") {
  CHECK(with("other:\n  policy: a\nlocal:\n  deep:\n    policy: b\n  policy: c\n",
             {"local", "policy"},
             "d") == "other:\n  policy: a\nlocal:\n  deep:\n    policy: b\n  policy: d\n");
  CHECK(with("clusters: 1\ncluster-x: 2\n", {"cluster"}, "local") ==
        "clusters: 1\ncluster-x: 2\ncluster: local\n");
}

TEST_CASE("a list at its key's own depth belongs to it") {
  CHECK(with("cluster:\n- a\n- b\nc: 1\n", {"cluster"}, "local") == "cluster: local\nc: 1\n");
}

TEST_CASE("a mapping in braces is not touched") {
  CHECK_THROWS_WITH_AS(
      with_yaml_value("a: 1\nlocal: {policy: sia}\n", {"local", "policy"}, "x", "config.yaml"),
      doctest::Contains("config.yaml:2: local is written on one line"), Error);
  for (const char* text : {"# x\n{cluster: there}\n", "\n--- {a: 1}\n", "%YAML 1.1\n{\n}\n"}) {
    CHECK_THROWS_WITH_AS(with_yaml_value(text, {"cluster"}, "local", "config.yaml"),
                         doctest::Contains("config.yaml:2: the mapping is written on one line"),
                         Error);
  }
}

TEST_CASE("empty braces are an empty mapping, and ... ends the document") {
  CHECK(with("{}\n", {"cluster"}, "local") == "cluster: local\n");
  CHECK(with("# mine\n{ } # none\n", {"cluster"}, "local") == "# mine\n # none\ncluster: local\n");
  CHECK(with("--- {}\r\n...\n", {"cluster"}, "local") == "---\ncluster: local\n...\n");
  CHECK(with("local: {}  # none\na: 1\n", {"local", "policy"}, "sia") ==
        "local:  # none\n  policy: sia\na: 1\n");
  CHECK(with("a: 1\n...\n", {"local", "policy"}, "sia") == "a: 1\nlocal:\n  policy: sia\n...\n");
  CHECK(with("cluster: x\n... # end\n", {"cluster"}, "local") == "cluster: local\n... # end\n");
}

TEST_CASE("the file of a symlink is changed, and keeps its mode") {
  const TemporaryDirectory folder;
  const std::string dotfile = folder.file("dotfile"), link = folder.file("adaptdl/config.yaml");
  write_file_atomic(dotfile, "a: 1\n");
  REQUIRE(::chmod(dotfile.c_str(), 0644) == 0);
  make_directories(folder.file("adaptdl"));
  REQUIRE(::symlink("../dotfile", link.c_str()) == 0);
  const auto before = environment_variable("XDG_CONFIG_HOME");
  ::setenv("XDG_CONFIG_HOME", folder.path().c_str(), 1);
  change_config({{{"cluster"}, "local"}}, [](const std::string&, const std::string&) {});
  before ? ::setenv("XDG_CONFIG_HOME", before->c_str(), 1) : ::unsetenv("XDG_CONFIG_HOME");
  CHECK(read_file(dotfile, 100) == "a: 1\ncluster: local\n");
  struct stat info {};
  REQUIRE(::lstat(link.c_str(), &info) == 0);
  CHECK(S_ISLNK(info.st_mode));
  REQUIRE(::stat(dotfile.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0644);
}

}  // namespace
}  // namespace adaptdl::client
