#include "core/cluster/local/sweep.h"

#include <csignal>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/files.h"

using namespace adaptdl;
using namespace adaptdl::local;

namespace {

// A folder jobs/, and the number of a process that has ended.
struct JobsFolder {
  TemporaryDirectory folder;
  LocalPaths paths;
  pid_t ended = fork();

  JobsFolder() {
    if (ended == 0) _exit(0);
    REQUIRE(waitpid(ended, nullptr, 0) == ended);
    paths.jobs = folder.file("jobs");
    make_directories(paths.jobs);
  }
  void file(const std::string& name, const std::string& text = "") const {
    const std::string path = join_path(paths.jobs, name);
    make_directories(parent_directory(path));
    write_file_atomic(path, text);
  }
  std::vector<std::string> swept() const {
    sweep_jobs(paths, [](const std::string& name) { return name == "known"; });
    return list_directory(paths.jobs);
  }
};

}  // namespace

TEST_CASE("what was cut off is swept up; what may be somebody's work stays") {
  const JobsFolder jobs;
  const std::string incoming = ".incoming-" + std::to_string(jobs.ended) + "-ab";
  const std::string live = ".incoming-" + std::to_string(getpid()) + "-ab";
  jobs.file(incoming + "/train.py");
  jobs.file(live + "/train.py");
  jobs.file("known/job.json", R"({"name":"known"})");
  jobs.file("cut-off/job.json", R"({"name":"cut-off"})");
  jobs.file("cut-off/project/train.py");
  jobs.file("new-cut-off/job.json", R"({"format":2,"grant":{"name":"new-cut-off"}})");
  make_directories(jobs.paths.job("empty"));
  jobs.file("blank/job.json");
  // Their store was lost, or there was never one.
  jobs.file("ran/job.json", R"({"name":"ran"})");
  jobs.file("ran/run.lock");
  jobs.file("ran/checkpoints/step-7/state");
  jobs.file("strange/job.json", R"({"name":"other"})");
  jobs.file("new-strange/job.json", R"({"format":2,"name":"new-strange","grant":{"name":"x"}})");
  jobs.file("torn/job.json", "{");
  jobs.file("thesis/chapter-1");
  jobs.file("file");
  CHECK(jobs.swept() == std::vector<std::string>{live, "file", "known", "new-strange", "ran",
                                                 "strange", "thesis", "torn"});
  CHECK(path_exists(jobs.paths.job("ran") + "/checkpoints/step-7/state"));
}

TEST_CASE("a deletion that was cut off before the store knew is undone") {
  const JobsFolder jobs;
  const std::string removed = ".incoming-" + std::to_string(jobs.ended) + "-ab";
  jobs.file(removed + "/job.json", R"({"format":2,"grant":{"name":"known"}})");
  jobs.file(removed + "/checkpoints/step-7/state");
  CHECK(jobs.swept() == std::vector<std::string>{"known"});
  CHECK(path_exists(jobs.paths.job("known") + "/checkpoints/step-7/state"));
  // One that is in the way of a newer job of the name is removed.
  jobs.file(removed + "/job.json", R"({"format":2,"grant":{"name":"known"}})");
  CHECK(jobs.swept() == std::vector<std::string>{"known"});
}

TEST_CASE("between submissions only what has not changed for a while is swept up") {
  const JobsFolder jobs;
  const std::string prefix = ".incoming-" + std::to_string(jobs.ended);
  const std::string removed = file_name(jobs.paths.outgoing());
  jobs.file(prefix + "-new/train.py");
  jobs.file(prefix + "-old/train.py");
  jobs.file(removed + "/job.json", R"({"format":2,"grant":{"name":"gone"}})");
  jobs.file("cut-off/job.json", R"({"name":"cut-off"})");  // not of incoming()
  const timespec times[2] = {{1000, 0}, {1000, 0}};
  for (const std::string& name : {prefix + "-old", removed}) {
    REQUIRE(utimensat(AT_FDCWD, jobs.paths.job(name).c_str(), times, 0) == 0);
  }
  const auto known = [](const std::string& name) { return name == "known"; };
  sweep_incoming(jobs.paths, known, Seconds(3600));
  CHECK(list_directory(jobs.paths.jobs).size() == 3);  // one at a time
  sweep_incoming(jobs.paths, known, Seconds(3600));
  CHECK(list_directory(jobs.paths.jobs) == std::vector<std::string>{prefix + "-new", "cut-off"});
}

TEST_CASE("a leftover that cannot be removed stays, and the others go") {
  const JobsFolder jobs;
  const std::string prefix = ".incoming-" + std::to_string(jobs.ended);
  jobs.file(prefix + "-a/inside/file");
  jobs.file(prefix + "-b/file");
  // Another user's, or a mount: here, one in a folder of root's. Others cannot make such.
  if (geteuid() != 0) return;
  constexpr uid_t kNobody = 65534;
  for (const char* mine : {"", "/jobs"}) {
    REQUIRE(chown((jobs.folder.path() + mine).c_str(), kNobody, kNobody) == 0);
  }
  REQUIRE(chown(jobs.paths.job(prefix + "-b").c_str(), kNobody, kNobody) == 0);
  bool one_by_one = false;  // as between submissions: those behind it are reached
  SUBCASE("at the start") {}
  SUBCASE("later") {
    one_by_one = true;
    const timespec times[2] = {{1000, 0}, {1000, 0}};
    for (const char* end : {"-a", "-b"}) {
      REQUIRE(utimensat(AT_FDCWD, jobs.paths.job(prefix + end).c_str(), times, 0) == 0);
    }
  }
  const pid_t child = fork();
  if (child == 0) {
    int code = 1;
    if (setgid(kNobody) == 0 && setuid(kNobody) == 0) {
      if (access(jobs.paths.jobs.c_str(), W_OK) != 0) _exit(0);  // TMPDIR is root's own
      try {
        if (one_by_one) {
          sweep_incoming(
              jobs.paths, [](const std::string&) { return false; }, Seconds(3600));
        } else {
          jobs.swept();
        }
        code = list_directory(jobs.paths.jobs) == std::vector<std::string>{prefix + "-a"} ? 0 : 2;
      } catch (const std::exception&) {
        code = 3;
      }
    }
    _exit(code);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a job's folders that it made read-only are removed") {
  const JobsFolder jobs;
  jobs.file("folder/data/part/file");
  const std::string data = jobs.paths.job("folder") + "/data";
  for (const std::string& path : {data + "/part", data}) REQUIRE(chmod(path.c_str(), 0500) == 0);
  constexpr uid_t kNobody = 65534;
  if (geteuid() == 0) {  // for whom no folder is read-only
    for (const std::string& path :
         {jobs.folder.path(), jobs.paths.jobs, jobs.paths.job("folder"), data, data + "/part"}) {
      REQUIRE(chown(path.c_str(), kNobody, kNobody) == 0);
    }
  }
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) _exit(1);
    if (access(jobs.paths.jobs.c_str(), W_OK) != 0) _exit(0);  // TMPDIR is root's own
    try {
      remove_tree(jobs.paths.job("folder"));
    } catch (const std::exception&) {
      _exit(2);
    }
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(list_directory(jobs.paths.jobs).empty());
}
