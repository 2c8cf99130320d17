#include <doctest/doctest.h>
#include <sys/stat.h>

#include "core/base/files.h"
#include "core/job/job_file.h"
#include "tests/unit/base/expect_error.h"

using namespace adaptdl;

namespace {

using Texts = std::vector<std::string>;

struct Project {
  Project() {
    make_directories(dir.file("deep/src"));
    make_directories(dir.file("bin"));
    for (const char* path : {"train.py", "deep/src/train.py", "deep/main.py", "model.pt"}) {
      write_file_atomic(dir.file(path), "");
    }
    for (const char* path : {"run.sh", "bin/tool", "deep/run.sh"}) {
      write_file_atomic(dir.file(path), "");
      REQUIRE(::chmod(dir.file(path).c_str(), 0755) == 0);
    }
  }
  TemporaryDirectory dir;
};

// As if from a pod template: [program, arguments...].
JobFile image_job(const Texts& words, const std::string& directory = "") {
  JobFile job;
  job.in_image = true;
  job.program_place = "job.yaml:3: command";
  job.spec.program = words[0];
  job.spec.arguments.assign(words.begin() + 1, words.end());
  job.spec.directory = directory;
  return job;
}

}  // namespace

TEST_CASE("paths of an image are taken as the project's files that end alike") {
  const Project project;
  struct Case {
    Texts words;
    std::string directory;
    Texts found;
    std::string found_in;
    size_t notes;
  };
  const Case cases[] = {
      {{"sh", "/no-root/tutorial/train.py", "--x=/no-root/data"},
       "",
       {"sh", "train.py", "--x=/no-root/data"},
       "",
       1},
      {{"sh", "-u", "/no-root/deep/src/train.py"}, "", {"sh", "-u", "deep/src/train.py"}, "", 1},
      {{"/no-root/x/run.sh"}, "", {"./run.sh"}, "", 1},
      {{"/no-root/x/bin/tool"}, "", {"bin/tool"}, "", 1},
      {{"sh", "/no-root/train.py"}, "/no-root/deep", {"sh", "../train.py"}, "deep", 2},
      {{"/no-root/deep/run.sh"}, "/no-root/deep", {"./run.sh"}, "deep", 2},
      {{"sh", "main.py"}, "/no-root/elsewhere", {"sh", "main.py"}, "", 1},
      // No script: left alone.
      {{"sh", "-c", "/no-root/x.sh"}, "", {"sh", "-c", "/no-root/x.sh"}, "", 0},
      {{"cat", "/no-root/x"}, "", {"cat", "/no-root/x"}, "", 0},
      // On this machine.
      {{"/bin/sh", "/dev/null"}, "", {"/bin/sh", "/dev/null"}, "", 0},
  };
  for (const Case& c : cases) {
    CAPTURE(c.words);
    JobFile job = image_job(c.words, c.directory);
    const Texts notes = find_program(job, project.dir.path());
    CHECK(notes.size() == c.notes);
    Texts words = {job.spec.program};
    words.insert(words.end(), job.spec.arguments.begin(), job.spec.arguments.end());
    CHECK(words == c.found);
    CHECK(job.spec.directory == c.found_in);
  }
}

TEST_CASE("what exists only in an image is refused with that reason") {
  const Project project;
  for (const Texts& words : {Texts{"/no-root/tool"}, Texts{"sh", "/no-root/other.py"},
                             Texts{"sh", "/no-root/train.py/"} /* names train.py */}) {
    CAPTURE(words);
    JobFile job = image_job(words);
    if (words.back().ends_with('/')) {
      CHECK(find_program(job, project.dir.path()).size() == 1);
      continue;
    }
    CHECK_ERROR(find_program(job, project.dir.path()), "job.yaml:3: command: /no-root/");
    job = image_job(words);
    CHECK_ERROR(find_program(job, project.dir.path()), "exists only in the job's image");
  }
  JobFile job = image_job({"no-such-command-here"});
  CHECK_ERROR(find_program(job, project.dir.path()), "written for an image that has it");
}

TEST_CASE("a program is looked for where it will be started") {
  const Project project;
  const auto check = [&](JobSpec::Kind kind, const std::string& program,
                         const std::string& directory = "") {
    JobFile job;
    job.program_place = "the command line";
    job.spec.kind = kind;
    job.spec.program = program;
    job.spec.directory = directory;
    const Texts notes = find_program(job, project.dir.path());
    CHECK(notes.empty());
    CHECK(job.spec.program == program);
  };
  using Kind = JobSpec::Kind;
  check(Kind::command, "sh");
  check(Kind::command, "./run.sh");
  check(Kind::command, "bin/tool");
  check(Kind::command, project.dir.file("run.sh"));
  check(Kind::command, "./run.sh", "deep");
  check(Kind::executable, "run.sh");
  check(Kind::archive, "model.pt");
  check(Kind::archive, "../model.pt", "deep");

  CHECK_ERROR(check(Kind::command, "run.sh"), "write ./run.sh");
  CHECK_ERROR(check(Kind::command, "no-such-command-here"), "install it, or give a path");
  CHECK_ERROR(check(Kind::command, "./none.sh"), "neither in the project");
  CHECK_ERROR(check(Kind::command, "./train.py"), "chmod +x");
  CHECK_ERROR(check(Kind::command, "./deep"), "is a folder");
  CHECK_ERROR(check(Kind::command, "/no-root/x"), "neither in the project");
  CHECK_ERROR(check(Kind::archive, "none.pt"), "the command line: none.pt");
  CHECK_ERROR(check(Kind::executable, "model.pt"), "is not executable");
  CHECK_ERROR(check(Kind::command, "sh", "none"), "the working directory");

  JobFile job;
  job.program_place = "x";
  job.spec.program = "tool";
  job.spec.environment["PATH"] = "/nowhere:" + project.dir.file("bin");
  CHECK(find_program(job, project.dir.path()).empty());
  job.spec.environment["PATH"] = "";
  CHECK_ERROR(find_program(job, project.dir.path()), "not in PATH");
}
