#include "cli/submission.h"

#include <climits>
#include <unistd.h>

#include "cli/replica_range.h"
#include "cli/run_setup.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/job/job_file.h"
#include "core/launch/run.h"

namespace adaptdl::cli {
namespace {

constexpr size_t kMaxJobFile = 1u << 20;

// What a command needs to find its program and libraries as here, and not as where the service was
// started.
constexpr const char* kVariables[] = {"PATH",          "VIRTUAL_ENV",     "CONDA_PREFIX",
                                      "PYTHONPATH",    "LD_LIBRARY_PATH", "ADAPTDL_LIBTORCH",
                                      "ADAPTDL_WORKER"};

void keep_surroundings(JobSpec& spec) {
  for (const char* name : kVariables) {
    if (const auto value = environment_variable(name)) spec.environment.emplace(name, *value);
  }
}

std::string current_folder() {
  char path[PATH_MAX];
  if (::getcwd(path, sizeof path) == nullptr) fail_errno(errno, "the current folder");
  return path;
}

std::string read_standard_input() {
  std::string text;
  char chunk[16384];
  for (;;) {
    const ssize_t count = ::read(STDIN_FILENO, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno(errno, "standard input");
    if (count == 0) return text;
    text.append(chunk, static_cast<size_t>(count));
    if (text.size() > kMaxJobFile) fail("standard input: too long for a job file");
  }
}

void set_command(JobSpec& spec, const std::vector<std::string>& words) {
  spec.kind = JobSpec::Kind::command;
  spec.program = words[0];
  spec.arguments.assign(words.begin() + 1, words.end());
  spec.max_replicas = 1;  // it is not known that it can be several; --replicas says so
}

// A command as it stands, here: nothing is copied.
Submission of_command(const std::vector<std::string>& words) {
  JobFile job{.spec = {}, .program_place = "COMMAND"};
  set_command(job.spec, words);
  const std::string folder = current_folder();
  Submission submission;
  submission.notes = find_program(job, folder);  // that it is there
  submission.spec = std::move(job.spec);
  submission.spec.directory = folder;
  return submission;
}

Submission of_folder(const std::string& folder, const Arguments& arguments) {
  Submission submission;
  submission.source = absolute_path(folder);
  std::string path = arguments.text("file");
  if (path.empty()) path = join_path(submission.source, kJobFileName);
  if (!arguments.given("file") && !path_exists(path)) {
    if (arguments.rest().empty() && set_archive(submission.spec, submission.source)) {
      return submission;
    }
    if (arguments.rest().empty()) {
      fail(
          "{}: there is neither {} nor {} in it. Write a job file (adaptdl-job(5)), name another "
          "with --file, or say what to run there: `adaptdl submit {} -- COMMAND`",
          folder, kJobFileName, kArchiveName, folder);
    }
    set_command(submission.spec, arguments.rest());
    return submission;
  }
  const std::string where = path == "-" ? "standard input" : path;
  JobFile job = parse_job_file(read_job_text(path), where);
  if (!arguments.rest().empty()) replace_arguments(job, arguments.rest());
  submission.notes = find_program(job, submission.source);
  if (!job.ignored.empty()) {
    submission.notes.push_back(fmt::format("{}: of no use on one machine, and ignored: {}", where,
                                           fmt::join(job.ignored, ", ")));
  }
  submission.spec = std::move(job.spec);
  return submission;
}

Submission of_file(const std::string& path, const Arguments& arguments) {
  Submission submission;
  submission.source = absolute_path(path);
  submission.spec.program = "./" + file_name(submission.source);
  submission.spec.arguments = arguments.rest();
  switch (program_kind(path)) {
    case ProgramKind::archive:
      submission.spec.kind = JobSpec::Kind::archive;
      break;
    case ProgramKind::executable:
      submission.spec.kind = JobSpec::Kind::executable;
      break;
    case ProgramKind::other:
      submission.spec.kind = JobSpec::Kind::command;
      submission.spec.max_replicas = 1;
      if (access(path.c_str(), X_OK) != 0) {
        fail(
            "{}: is neither a training archive nor a program that can be executed; a script is run "
            "by its interpreter: `adaptdl submit DIR -- python3 {}`",
            path, file_name(path));
      }
  }
  return submission;
}

void apply_flags(const Arguments& arguments, JobSpec& spec) {
  if (arguments.given("name")) {
    spec.name.clear();
    spec.name_prefix = arguments.text("name") + "-";
    if (!valid_job_name_prefix(spec.name_prefix)) {
      throw UsageError(fmt::format(
          "--name: {} cannot begin the name of a job; allowed are up to {} lower-case letters, "
          "digits and '-'.",
          arguments.text("name"), kMaxJobName - kJobNameSuffix - 1));
    }
  }
  if (arguments.given("replicas")) {
    const std::string text = arguments.text("replicas");
    const ReplicaRange range = parse_replica_range(text, "--replicas", launch::kMaxReplicas);
    spec.min_replicas = range.min;
    spec.max_replicas = range.max;
    spec.requested_replicas.reset();
    if (range.min == range.max) spec.requested_replicas = range.max;
  }
  for (const std::string& setting : arguments.list("set")) spec.settings.push_back(setting);
  if (arguments.given("tensorboard")) spec.tensorboard = arguments.text("tensorboard");
}

}  // namespace

bool set_archive(JobSpec& spec, const std::string& folder) {
  if (!path_exists(join_path(folder, kArchiveName))) return false;
  spec.kind = JobSpec::Kind::archive;
  spec.program = kArchiveName;
  if (spec.name_prefix.empty()) spec.name_prefix = job_name_prefix(file_name(folder));
  return true;
}

std::string read_job_text(const std::string& path) {
  return path == "-" ? read_standard_input() : read_file(path, kMaxJobFile);
}

Submission read_submission(const Arguments& arguments) {
  const std::optional<std::string> source = arguments.positional("SOURCE");
  Submission submission;
  if (!source) {
    if (arguments.given("file"))
      throw UsageError("SOURCE is missing: the folder that the job file is for.");
    if (arguments.rest().empty()) {
      throw UsageError(
          "SOURCE is missing: a folder, a train.pt or a program; or a COMMAND behind --.");
    }
    submission = of_command(arguments.rest());
  } else if (!path_exists(*source)) {
    fail("{}: there is no such file or folder; a command goes behind --: `adaptdl submit -- {}`",
         *source, *source);
  } else if (is_directory(*source)) {
    submission = of_folder(*source, arguments);
  } else {
    if (arguments.given("file")) throw UsageError("--file: a job file is for a folder.");
    submission = of_file(*source, arguments);
  }
  apply_flags(arguments, submission.spec);
  check_job_spec(submission.spec, "this job");
  keep_surroundings(submission.spec);
  return submission;
}

}  // namespace adaptdl::cli
