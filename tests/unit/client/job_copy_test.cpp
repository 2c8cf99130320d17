#include "core/client/job_copy.h"

#include <atomic>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl::client {
namespace {

struct Job {
  TemporaryDirectory folder{"adaptdl-copy"};
  std::string job = folder.file("job"), here = folder.file("here");

  Job() {
    make_directories(job + "/output/deep");
    make_directories(here);
    write_file_atomic(job + "/output/model.pt", "model");
    write_file_atomic(job + "/output/deep/log", "log");
    write_file_atomic(folder.file("secret"), "secret");
    write_file_atomic(job + "/job.json", "{}");
  }
  std::string read(const std::string& path) const { return read_file(here + "/" + path, 100); }
};

TEST_CASE("paths of a job stay in its folders") {
  CHECK(path_in_job("/jobs/x", "/output/model.pt") == "/jobs/x/output/model.pt");
  CHECK(path_in_job("/jobs/x", "output//./a") == "/jobs/x/output/a");
  CHECK(path_in_job("/jobs/x", "/") == "/jobs/x");
  CHECK(path_in_job("/jobs/x", "") == "/jobs/x");
  for (const char* out : {"..", "/..", "/output/../../y", "/../x/output", "output/.."}) {
    CHECK_THROWS_AS(path_in_job("/jobs/x", out), UsageError);
  }
  CHECK_THROWS_AS(path_in_job("/jobs/x", "/job.json"), Error);
  CHECK(path_in_job("/jobs/x", "/output/..a/b..") == "/jobs/x/output/..a/b..");
}

TEST_CASE("the paths of the storage in pods name the job's folders") {
  CHECK(path_in_job("/jobs/x", "/adaptdl/share/a/b") == "/jobs/x/share/a/b");
  CHECK(path_in_job("/jobs/x", "adaptdl/checkpoint") == "/jobs/x/checkpoints");
  CHECK(path_in_job("/jobs/x", "//adaptdl/./checkpoint/") == "/jobs/x/checkpoints");
  for (const char* out : {"/adaptdl/share/..", "/adaptdl/share/../../job.json",
                          "/adaptdl/../job.json", "/adaptdl/checkpoint/../../../y"}) {
    CHECK_THROWS_AS(path_in_job("/jobs/x", out), UsageError);
  }
  for (const char* elsewhere : {"/adaptdl", "/adaptdl/shared", "/adaptdl/job.json",
                                "/adaptdl/output/model.pt", "/adaptdl/adaptdl/share"}) {
    CHECK_THROWS_WITH_AS(path_in_job("/jobs/x", elsewhere),
                         doctest::Contains("/adaptdl/checkpoint, /adaptdl/share"), Error);
  }
}

TEST_CASE("files and folders are copied, with modes and times") {
  const Job job;
  chmod((job.job + "/output/model.pt").c_str(), 0750);
  const timespec times[2] = {{1000, 0}, {2000, 0}};
  utimensat(AT_FDCWD, (job.job + "/output/model.pt").c_str(), times, 0);
  CopyResult result = copy_below(job.job + "/output/model.pt", job.job, job.here, "");
  CHECK(result.files == 1);
  CHECK(result.bytes == 5);
  CHECK(job.read("model.pt") == "model");
  struct stat status {};
  stat((job.here + "/model.pt").c_str(), &status);
  CHECK((status.st_mode & 07777) == 0750);
  CHECK(status.st_mtime == 2000);
  result = copy_below(job.job + "/output", job.job, job.here + "/all", "");
  CHECK(result.files == 2);
  CHECK(job.read("all/deep/log") == "log");
  copy_below(job.job + "/output", job.job, job.here, "");  // into a folder that is there
  CHECK(job.read("output/deep/log") == "log");
  for (int twice = 0; twice < 2; ++twice) {
    copy_below(job.job + "/output", job.job, job.here, "", "named");
    CHECK(job.read("named/deep/log") == "log");
    CHECK_FALSE(path_exists(job.here + "/named/named"));
  }
}

TEST_CASE("files that disappear during the copy do not end it") {
  const Job job;
  // Of the open descriptors, that with which they were listed is gone afterwards.
  const std::string facts = "/proc/self/fdinfo";
  const CopyResult result = copy_below(facts, facts, job.here + "/all", "");
  REQUIRE(result.skipped.size() == 1);
  CHECK(result.skipped[0].ends_with(": was removed while the others were copied"));
  CHECK(result.files >= 2);
  // What was named itself must be there.
  CHECK_THROWS_AS(copy_below(job.job + "/output/none", job.job, job.here, ""), Error);
}

TEST_CASE("a file that changes during the copy is named") {
  const Job job;
  const std::string log = job.job + "/output/log";
  replace_file(log, std::string(8u << 20, 'x'));
  const Fd file = open_file(log, O_WRONLY | O_APPEND);
  std::atomic<bool> over = false;
  std::thread program([&] {
    while (!over) write_all(file.get(), "x", log);
  });
  CopyResult result;
  const TimePoint begun = Monotonic::now();
  while (result.changed.empty() && seconds_since(begun) < 20) {
    result = copy_below(log, job.job, job.here, "");
  }
  over = true;
  program.join();
  REQUIRE(result.changed.size() == 1);
  CHECK(result.changed[0].starts_with(log + ": changed while it was copied"));
  CHECK(result.files == 1);
}

TEST_CASE("links that lead out are not followed") {
  const Job job;
  const std::string output = job.job + "/output/";
  symlink("../../../secret", (output + "deep/out").c_str());
  symlink("/etc/passwd", (output + "absolute").c_str());
  symlink("model.pt", (output + "newest").c_str());
  symlink("nowhere", (output + "dangling").c_str());
  const CopyResult result = copy_below(job.job + "/output", job.job, job.here, "");
  CHECK(result.skipped.size() == 3);
  CHECK(result.files == 3);
  CHECK(job.read("output/newest") == "model");
  CHECK_FALSE(path_exists(job.here + "/output/deep/out"));
  // Nor when one is named, or on the way.
  CHECK_THROWS_AS(copy_below(output + "deep/out", job.job, job.here, ""), Error);
  symlink("../..", (output + "up").c_str());
  CHECK_THROWS_AS(copy_below(output + "up/secret", job.job, job.here, ""), Error);
}

TEST_CASE("nothing is written through links that lead out") {
  const Job job;
  write_file_atomic(job.here + "/new", "new");
  symlink(job.here.c_str(), (job.job + "/output/away").c_str());
  CHECK_THROWS_AS(copy_below(job.here + "/new", job.here, job.job + "/output/away/x", job.job),
                  Error);
  CHECK_THROWS_AS(copy_below(job.here + "/new", job.here, job.job + "/output/away", job.job),
                  Error);
  copy_below(job.here + "/new", job.here, job.job + "/output/", job.job);
  CHECK(read_file(job.job + "/output/new", 100) == "new");
  // A link in the place of a file is replaced, not followed.
  symlink((job.folder.file("secret")).c_str(), (job.job + "/output/link").c_str());
  copy_below(job.here + "/new", job.here, job.job + "/output/link", job.job);
  CHECK(read_file(job.folder.file("secret"), 100) == "secret");
  CHECK(read_file(job.job + "/output/link", 100) == "new");
}

TEST_CASE("a folder is not copied into itself") {
  const Job job;
  CHECK_THROWS_AS(copy_below(job.job + "/output", job.job, job.job + "/output/deep", job.job),
                  Error);
}

}  // namespace
}  // namespace adaptdl::client
