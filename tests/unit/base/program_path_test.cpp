#include "core/base/program_path.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "core/base/files.h"

namespace adaptdl {
namespace {

using Places = std::vector<std::string>;

TEST_CASE("the places of a program are those of execvp") {
  CHECK(program_places("tool", "/a:b:/c/") == Places{"/a/tool", "b/tool", "/c/tool"});
  CHECK(program_places("tool", ":/a::") == Places{"./tool", "/a/tool", "./tool", "./tool"});
  CHECK(program_places("tool", "") == Places{"./tool"});
  CHECK(program_places("tool", "/a:b:", "/job") == Places{"/a/tool", "/job/b/tool", "/job/./tool"});
  CHECK(program_places("./tool", "/a") == Places{"./tool"});
  CHECK(program_places("bin/tool", "/a", "/job") == Places{"/job/bin/tool"});
  CHECK(program_places("/x/tool", "/a", "/job") == Places{"/x/tool"});
}

TEST_CASE("an executable file wins, then any file; folders do not count") {
  const TemporaryDirectory folder;
  for (const char* name : {"folder", "plain", "good"}) make_directories(folder.file(name));
  make_directories(folder.file("folder/tool"));
  write_file_atomic(folder.file("plain/tool"), "");
  const std::string plain = folder.file("plain"), good = folder.file("good");
  const std::string search = folder.file("folder") + ":" + plain + ":" + good;
  CHECK(find_in_path("tool", search).path == plain + "/tool");
  CHECK_FALSE(find_in_path("tool", search).executable);
  write_file_atomic(good + "/tool", "");
  REQUIRE(chmod((good + "/tool").c_str(), 0700) == 0);
  CHECK(find_in_path("tool", search).path == good + "/tool");
  CHECK(find_in_path("tool", search).executable);
  CHECK(find_in_path("tool", "", good).executable);  // an empty PATH is the working directory
  CHECK(find_in_path("other", search).path.empty());
}

}  // namespace
}  // namespace adaptdl
