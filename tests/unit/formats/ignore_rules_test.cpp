#include "core/formats/ignore_rules.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <random>
#include <sys/stat.h>

#include "core/base/files.h"
#include "core/base/process.h"

using namespace adaptdl;

namespace {

struct Case {
  const char* rules;
  const char* path;  // a folder if it ends with '/'
  bool ignored;
};

bool says(const IgnoreRules& rules, std::string path) {
  const bool folder = path.ends_with('/');
  if (folder) path.pop_back();
  return rules.ignored(path, folder);
}

}  // namespace

TEST_CASE("ignore rules mean what gitignore(5) says") {
  const Case cases[] = {
      // Without a slash: names anywhere.
      {"a", "a", true},
      {"a", "b/a", true},
      {"a", "b/a/", true},
      {"a", "ab", false},
      {"*.pt", "x/y.pt", true},
      {"*.pt", ".pt", true},
      {"a*c", "a/c", false},
      {"?", "a", true},
      {"?", "ab", false},
      // With one: from the top.
      {"/a", "a", true},
      {"/a", "b/a", false},
      {"a/b", "a/b", true},
      {"a/b", "x/a/b", false},
      {"/*", "a", true},
      {"a/*", "a/b", true},
      {"a/*", "a", false},
      {"a/*.c", "a/b/x.c", false},
      {"a?b", "a/b", false},
      {"/a[!b]c", "a/c", false},
      // Folders only, and what is in them.
      {"a/", "a", false},
      {"a/", "a/", true},
      {"a/", "b/a/", true},
      {"a/", "a/x/y", true},
      {"/a/", "b/a/", false},
      // ** between, before and after slashes.
      {"**/a", "a", true},
      {"**/a", "x/y/a", true},
      {"**/a/b", "x/a/b", true},
      {"a/**", "a", false},
      {"a/**", "a/x/y", true},
      {"a/**/b", "a/b", true},
      {"a/**/b", "a/x/y/b", true},
      {"a/**/b", "a/xb", false},
      {"x/a**b", "x/a/b", false},
      {"x/a**b", "x/acb", true},
      {"**", "x/y", true},
      // The last rule wins; a folder that is left out keeps all it holds.
      {"*.c\n!a.c", "a.c", false},
      {"*.c\n!a.c\na.*", "a.c", true},
      {"a/\n!a/b", "a/b", true},
      {"/*\n!/a", "a/b", false},
      {"/a/*\n!/a/b", "a/b", false},
      {"/a/*\n!/a/b", "a/c", true},
      // Escapes, comments, blanks, ends of lines.
      {"#a", "#a", false},
      {"\\#a", "#a", true},
      {"\\!a", "!a", true},
      {"!a", "!a", false},
      {"a  ", "a", true},
      {"a\\ ", "a ", true},
      {"a\\  ", "a ", true},
      {"a\\ ", "a", false},
      {" a", "a", false},
      {"a\t", "a", false},
      {"a\r\nb\r\n", "a", true},
      {"\xef\xbb\xbf"
       "a",
       "a", true},
      {"\\*", "*", true},
      {"\\*", "x", false},
      {"a\\", "a", false},
      {"a\\", "a\\", false},
      {"", "a", false},
      {"/", "a/", false},
      {"!", "a", false},
      // Sets.
      {"[ab]", "a", true},
      {"[!ab]", "a", false},
      {"[^ab]", "c", true},
      {"[a-c]x", "bx", true},
      {"[c-a]x", "bx", false},
      {"[]]", "]", true},
      {"[!]]", "]", false},
      {"[a-]", "-", true},
      {"[-a]", "-", true},
      {"[\\]]", "]", true},
      {"[a-\\c]", "b", true},
      {"[[:digit:]]", "7", true},
      {"[[:digit:]]", "a", false},
      {"[[:digit:]a]", "a", true},
      {"[[:nothing:]]", "a", false},
      {"[[:a]", "a", true},
      {"[a", "a", false},
      {"[a", "[a", false},
      {"[", "[", false},
      {"\xc3\xa9*", "\xc3\xa9t", true},
  };
  for (const Case& c : cases) {
    CAPTURE(c.rules);
    CAPTURE(c.path);
    CHECK(says(IgnoreRules(c.rules), c.path) == c.ignored);
  }
}

TEST_CASE("a verdict tells a rule that takes back from none") {
  const IgnoreRules rules("*.c\n!a.c\n");
  CHECK(rules.verdict("b.c", false) == IgnoreRules::Verdict::ignored);
  CHECK(rules.verdict("a.c", false) == IgnoreRules::Verdict::kept);
  CHECK(rules.verdict("a.h", false) == IgnoreRules::Verdict::none);
}

TEST_CASE("no pattern takes long") {
  std::string stars = "/";
  for (int i = 0; i < 2000; ++i) stars += "*a**/";
  const std::string path(4000, 'a');
  CHECK_FALSE(IgnoreRules(stars + "b").ignored(path, false));
  CHECK_FALSE(IgnoreRules(std::string(4000, '*') + "b").ignored(path, false));
}

namespace {

// Asks git about many paths at once.
std::vector<std::string> git_ignores(const std::string& folder) {
  SpawnOptions options;
  options.argv = {"/bin/sh", "-c",
                  "find . -mindepth 1 -not -path './.git*' -print0 | sed -z 's,^./,,' |"
                  "git check-ignore --no-index --stdin -z | tr '\\0' '\\n'"};
  options.directory = folder;
  options.environment = {{"PATH=/usr/bin:/bin", "HOME=" + folder, "GIT_CONFIG_NOSYSTEM=1"}};
  const CapturedRun run = run_and_capture(options, Seconds(60));
  std::vector<std::string> paths;
  std::string_view rest = run.output;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    paths.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return paths;
}

bool run_git(const std::string& folder, const char* command) {
  SpawnOptions options;
  options.argv = {"/bin/sh", "-c", command};
  options.directory = folder;
  options.environment = {{"PATH=/usr/bin:/bin", "HOME=" + folder, "GIT_CONFIG_NOSYSTEM=1"}};
  return run_and_capture(options, Seconds(60), true).status.success();
}

// Every path of three levels over a few names; names a, b, ... are folders, the others files.
std::vector<std::pair<std::string, bool>> make_tree(const std::string& folder) {
  const std::vector<std::string> names = {"a", "ab", "b", "a.c", "]", "-x", "a b", "A1"};
  std::vector<std::pair<std::string, bool>> paths;
  std::vector<std::string> level = {""};
  for (int depth = 0; depth < 3; ++depth) {
    std::vector<std::string> deeper;
    for (const std::string& above : level) {
      for (size_t i = 0; i < names.size(); ++i) {
        const std::string path = above + names[i];
        const bool is_folder = i < 3 && depth < 2;
        paths.emplace_back(path, is_folder);
        if (is_folder) {
          make_directories(folder + "/" + path);
          deeper.push_back(path + "/");
        } else {
          write_file_atomic(folder + "/" + path, "");
        }
      }
    }
    level = std::move(deeper);
  }
  return paths;
}

}  // namespace

TEST_CASE("random rules mean the same to git") {
  const TemporaryDirectory folder;
  if (!run_git(folder.path(), "git init -q .")) {
    MESSAGE("git is not there: not compared");
    return;
  }
  const auto paths = make_tree(folder.path());
  const std::vector<std::string> pieces = {
      "a", "b",  "ab",   "a.c", "*",  "**", "**/", "/",  "?",   "[",  "]",
      "!", "\\", "[ab]", "-",   " ",  "[!", "/**", ".",  "[a-", "A1", "[[:alpha:]]",
      "*", "x",  "/",    "a/",  "/a", "c",  "[[:", ":]", "#",   "a"};
  const char* rounds = std::getenv("ADAPTDL_TEST_ROUNDS");
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  CAPTURE(seed);
  size_t compared = 0;  // paths that git ignores
  for (int round = rounds != nullptr ? std::atoi(rounds) : 60; round > 0; --round) {
    std::string text;
    for (size_t line = 1 + random() % 5; line > 0; --line) {
      for (size_t piece = 1 + random() % 5; piece > 0; --piece)
        text += pieces[random() % pieces.size()];
      text += '\n';
    }
    write_file_atomic(folder.file(".gitignore"), text);
    const IgnoreRules rules(text);
    const std::vector<std::string> ignored = git_ignores(folder.path());
    compared += ignored.size();
    for (const auto& [name, is_folder] : paths) {
      const std::string& path = name;
      const bool by_git = std::find(ignored.begin(), ignored.end(), path) != ignored.end();
      CAPTURE(text);
      CAPTURE(path);
      if (rules.ignored(path, is_folder) != by_git) FAIL_CHECK("git says " << by_git);
    }
  }
  CHECK(compared > 0);
}
