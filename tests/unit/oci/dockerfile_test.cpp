#include "core/oci/dockerfile.h"

#include <sys/stat.h>
#include <unistd.h>

#include "core/base/files.h"
#include "core/oci/context.h"
#include "tests/unit/base/expect_error.h"

namespace adaptdl::oci {
namespace {

// "LINE NAME [--FLAG=VALUE] TEXT" of each instruction.
std::vector<std::string> read(std::string_view text) {
  std::vector<std::string> lines;
  for (const Instruction& one : parse_dockerfile(text, "D").instructions) {
    std::string flags;
    for (const auto& [name, value] : one.flags) flags += fmt::format(" [{}={}]", name, value);
    lines.push_back(fmt::format("{} {}{} {}", one.line, one.name, flags, one.text));
  }
  return lines;
}

std::string expanded(std::string_view text) {
  return expand(
      text, '\\',
      [](const std::string& name, char quote) -> std::optional<std::string> {
        if (name == "A") return "a b";
        if (name == "QUOTE") return quote == '\0' ? "none" : std::string(1, quote);
        if (name == "EMPTY") return "";
        return std::nullopt;
      },
      "D:1");
}

}  // namespace

TEST_CASE("instructions go over lines, comments and blank lines between them") {
  CHECK(read("# c\n\nfrom a:1 AS x\r\nCOPY --chown=1:2 --link a \\\n  # not here\n\n  b c\nenv "
             "A=\\\nb") == std::vector<std::string>{"3 FROM a:1 AS x",
                                                    "4 COPY [chown=1:2] [link=] a   b c",
                                                    "8 ENV A=b"});
  CHECK(read("# escape=`\nFROM a\nCMD c:\\dir\\\nUSER `\nme") ==
        std::vector<std::string>{"2 FROM a", "3 CMD c:\\dir\\", "4 USER me"});
  CHECK(read("# c\n# escape=`\nFROM \\\na") == std::vector<std::string>{"3 FROM a"});
  CHECK(read("FROM a\\") == std::vector<std::string>{"1 FROM a"});
  CHECK(read("").empty());
  CHECK(read("RUN <<-\"A\" 3<<B cat $((1<<2)) <<<x\n a\n# b\n A\nc\nB\nUSER me") ==
        std::vector<std::string>{"1 RUN <<-\"A\" 3<<B cat $((1<<2)) <<<x", "7 USER me"});
  CHECK_ERROR(read("FROM a\n\nFORM b"), "D:3: FORM is not an instruction");
  CHECK_ERROR(read("FROM"), "D:1: FROM has no arguments");
}

TEST_CASE("variables are put in but for single quotes and escapes") {
  CHECK(expanded("$A-${A}-$B-${B}") == "a b-a b--");
  CHECK(expanded("'$A' \"$A\" \\$A") == "'$A' \"a b\" $A");
  CHECK(expanded("${B:-other} ${EMPTY:-other} ${A:-other} ${EMPTY}") == "other other a b ");
  CHECK(expanded("${A:+there} ${B:+there}") == "there ");
  CHECK(expanded("$ 5$") == "$ 5$");
  CHECK(expanded("$QUOTE \"$QUOTE ${B:-$QUOTE}\" $QUOTE") == "none \"\" \"\" none");
  CHECK_ERROR(expanded("${A"), "D:1: ${ has no name or no }");
  CHECK_ERROR(expanded("${A%x}"), "is not supported");
}

TEST_CASE("words lose quotes and escapes; lists in JSON's form stay") {
  using Words = std::vector<std::string>;
  CHECK(split_words("a=\"b c\" 'd \\' e\\ f  \"\"", '\\', "D:1") ==
        Words{"a=b c", "d \\", "e f", ""});
  CHECK(split_words(escaped("a 'b\\\" c", '\\'), '\\', "D:1") == Words{"a 'b\\\" c"});
  CHECK(split_words("\"a\\\"b \\\\c\\$d \\d+\\.txt\" \\d", '\\', "D:1") ==
        Words{"a\"b \\c$d \\d+\\.txt", "d"});
  const std::string value = "a 'b\\\" \\d $c";
  CHECK(split_words("\"" + escaped(value, '\\', '"') + "\"", '\\', "D:1") == Words{value});
  CHECK(unquoted("\"C.UTF-8\"  one\\ two 'x  y' ", '\\', "D:1") == "C.UTF-8  one two x  y ");
  CHECK(unquoted("", '\\', "D:1") == "");
  CHECK_ERROR(unquoted("it's", '\\', "D:1"), "D:1: the quote ' is not closed");
  CHECK_ERROR(split_words("a 'b", '\\', "D:1"), "D:1: the quote ' is not closed");
  Words words;
  CHECK(json_words(" [\"a b\", \"c\"]", words));
  CHECK(words == Words{"a b", "c"});
  for (const char* text : {"[1]", "[a]", "a", "[\"a\"", "{}"}) CHECK_FALSE(json_words(text, words));
}

TEST_CASE(".dockerignore is for whole paths, and takes back from within folders") {
  const DockerIgnore rules("# c\n*.pyc\n**/*.log\n/data\n!data/keep\nout/\n  sub/./x\n");
  for (const char* path : {"a.pyc", "x.log", "a/b/x.log", "data", "data/a/b", "out", "out/a"}) {
    CAPTURE(path);
    CHECK(rules.ignored(path));
  }
  for (const char* path : {"a/a.pyc", "data/keep", "data/keep/x", "a/data", "a/out"}) {
    CAPTURE(path);
    CHECK_FALSE(rules.ignored(path));
  }
}

TEST_CASE("a context is what is left of a folder, links as links") {
  TemporaryDirectory folder;
  for (const char* name : {"data/keep", "data/drop", "src"}) make_directories(folder.file(name));
  for (const char* name : {"data/keep/a", "data/drop/b", "src/c", "d.tmp"}) {
    replace_file(folder.file(name), name);
  }
  replace_file(folder.file(".dockerignore"), "data\n!data/keep\n.dockerignore\n*.tmp\n");
  REQUIRE(symlink("/etc/passwd", folder.file("link").c_str()) == 0);
  REQUIRE(mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  const BuildContext context =
      read_context(folder.path(), [](const std::string& path, bool) { return path == "src/c"; });
  std::vector<std::string> paths;
  for (const ContextFile& file : context.files) paths.push_back(file.path);
  CHECK(paths == std::vector<std::string>{"data", "data/keep", "data/keep/a", "link", "src"});
  CHECK(context.files[3].target == "/etc/passwd");
  REQUIRE(context.warnings.size() == 1);
  CHECK(contains(context.warnings[0], "pipe: left out: not a file"));
}

TEST_CASE("the ignore file of a Dockerfile stands in for the folder's") {
  TemporaryDirectory folder, other;
  replace_file(folder.file(".dockerignore"), "a\n.*\n");
  replace_file(folder.file("a"), "a");
  replace_file(folder.file("b"), "b");
  replace_file(other.file("one.Dockerfile.dockerignore"), "b\n.*\n");
  const auto paths = [&](const std::string& dockerfile) {
    std::string all;
    for (const ContextFile& file : read_context(folder.path(), {}, dockerfile).files) {
      all += file.path;
    }
    return all;
  };
  CHECK(paths(other.file("one.Dockerfile")) == "a");
  CHECK(paths(other.file("two.Dockerfile")) == "b");
  CHECK(paths("") == "b");
  replace_file(other.file("two.Dockerfile.dockerignore"), "");
  CHECK(paths(other.file("two.Dockerfile")) == ".dockerignoreab");
}

}  // namespace adaptdl::oci
