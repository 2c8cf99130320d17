#include "core/cluster/local/runner/line_file.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <sys/stat.h>

#include "core/base/files.h"
#include "core/cluster/local/runner/job_folder.h"

using namespace adaptdl;
using namespace adaptdl::local;

TEST_CASE("runner: a file of lines stays within its bound, and is its user's alone") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("lines");
  {
    LineFile lines(path, 100);
    for (int i = 0; i < 50; ++i) lines.add("0123456789");
  }
  CHECK(file_size(path) <= 100);
  CHECK(file_size(path + ".1") <= 100);
  CHECK(file_size(path + ".1") > 80);
  struct stat info {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  LineFile nowhere(folder.file("no/such/folder"), 100);
  nowhere.add("lost");
}

TEST_CASE("runner: steps are thinned, other events are not") {
  const TemporaryDirectory folder;
  EventFileSink sink(folder.file("events"));
  for (int i = 0; i < 100; ++i) sink.event({{"event", "step"}, {"step", i}});
  sink.event({{"event", "end"}});
  const std::string text = read_file(folder.file("events"), 1 << 20);
  CHECK(std::count(text.begin(), text.end(), '\n') <= 4);
  CHECK(text.find("\"step\":0") != std::string::npos);
  CHECK(text.find("\"end\"") != std::string::npos);
}

TEST_CASE("runner: one at a time has the folder") {
  const TemporaryDirectory folder;
  {
    const auto one = lock_job_folder({folder.path()});
    CHECK(one);
    CHECK_FALSE(lock_job_folder({folder.path()}));
  }
  CHECK(lock_job_folder({folder.path()}));
}
