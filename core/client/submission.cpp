#include "core/client/submission.h"

#include <cerrno>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/job/training_archive.h"
#include "core/job/training_spec.h"
#include "core/launch/run/worker_choice.h"

namespace adaptdl::client {
namespace {

using Kind = JobSpec::Kind;
using Source = Submission::Source;

constexpr size_t kMaxJobText = 1u << 20;

std::string read_standard_input() {
  std::string text;
  char chunk[16384];
  for (;;) {
    const ssize_t count = ::read(STDIN_FILENO, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno(errno, "standard input");
    if (count == 0) return text;
    text.append(chunk, static_cast<size_t>(count));
    if (text.size() > kMaxJobText) fail("standard input: too long for a job file");
  }
}

JobFile command_of(const std::vector<std::string>& words) {
  JobFile job{.spec = {}, .program_place = "COMMAND"};
  job.spec.kind = Kind::command;
  job.spec.program = words[0];
  job.spec.arguments.assign(words.begin() + 1, words.end());
  job.spec.max_replicas = 1;  // several replicas are not known to work; --replicas permits them
  return job;
}

JobFile archive_of_folder() {
  JobFile job{.spec = {}, .program_place = kArchiveName};
  job.spec.kind = Kind::archive;
  job.spec.program = kArchiveName;
  return job;
}

JobFile job_of_file(const std::string& path, const std::vector<std::string>& words) {
  JobFile job{.spec = {}, .program_place = path};
  job.spec.program = "./" + file_name(absolute_path(path));
  job.spec.arguments = words;
  switch (launch::program_kind(path)) {
    case launch::ProgramKind::archive:
      job.spec.kind = Kind::archive;
      break;
    case launch::ProgramKind::executable:
      job.spec.kind = Kind::executable;
      break;
    case launch::ProgramKind::other:
      job.spec.kind = Kind::command;
      job.spec.max_replicas = 1;
      if (access(path.c_str(), X_OK) != 0) {
        fail(
            "{}: neither a training archive nor an executable program; run a script with its "
            "interpreter: `adaptdl submit DIR -- python3 {}`",
            path, file_name(path));
      }
  }
  return job;
}

class Resolver {
 public:
  explicit Resolver(SubmitOptions options) { result_.options = std::move(options); }

  Submission run() {
    find_source();
    find_job();
    apply_flags();
    if (result_.job.only_in_cluster.empty()) check_job_spec(result_.spec(), "this job");
    check_gpus();
    check_arguments();
    check_settings();
    return std::move(result_);
  }

 private:
  // More would stay idle; only commands can use them.
  void check_gpus() const {
    const JobSpec& spec = result_.spec();
    const int64_t gpus = spec.request.gpus.value_or(0);
    if (spec.kind == Kind::command || gpus <= 1) return;
    fail(
        "{}: resources.gpu: is {}, but each replica of an {} trains on one GPU; ask for replicas "
        "instead, with `gpu: 1`",
        result_.where.empty() ? "this job" : result_.where, gpus, job_kind_name(spec.kind));
  }

  void check_arguments() const {
    const JobSpec& spec = result_.spec();
    if (spec.kind != Kind::archive || spec.arguments.empty()) return;
    if (options_.words.empty()) fail("{}: args: {}", result_.where, launch::kNoArchiveArguments);
    throw UsageError(fmt::format("{}.", launch::kNoArchiveArguments));
  }

  // As the training will read them. Where only an image has the archive, its pods check them.
  void check_settings() const {
    const JobSpec& spec = result_.spec();
    if (spec.kind != Kind::archive || !options_.image.empty()) return;
    if (result_.source_kind == Source::none) return;
    const bool folder = result_.source_kind == Source::folder;
    const std::string inside = join_path(spec.directory, spec.program);
    const std::string path = folder ? join_path(result_.source, inside) : result_.source;
    if (!path_exists(path)) return;  // find_program() tells that, or a Dockerfile makes it
    const std::string shown = folder ? join_path(*options_.source, inside) : *options_.source;
    const std::string text = read_settings(path);
    try {
      parse_training_spec(text, join_path(shown, kSettingsFile), spec.settings);
    } catch (const Error& error) {
      refuse_setting_of_file(error.what());
      throw;
    }
  }

  // The error names a setting of the job file as if it were a flag.
  void refuse_setting_of_file(const std::string& problem) const {
    constexpr std::string_view kFlag = "--set ";
    const std::vector<std::string>& all = result_.spec().settings;
    for (size_t i = 0; i + options_.settings.size() < all.size(); ++i) {
      if (!problem.starts_with(fmt::format("{}{}: ", kFlag, all[i]))) continue;
      fail("{}: set: {}", result_.where, problem.substr(kFlag.size()));
    }
  }

  void find_source() {
    const auto& source = options_.source;
    if (!source) return;
    if (!path_exists(*source)) {
      fail("{}: no such file or folder; give a command after --: `adaptdl submit -- {}`", *source,
           *source);
    }
    result_.source_kind = is_directory(*source) ? Source::folder : Source::file;
    result_.source = user_path(*source);
  }

  void find_job() {
    const std::vector<std::string>& words = options_.words;
    if (result_.source_kind == Source::file) {
      if (options_.file) throw UsageError("--file: a job file needs a folder as SOURCE.");
      result_.job = job_of_file(*options_.source, words);
    } else if (const std::string path = job_file(); !path.empty()) {
      result_.where = path == "-" ? "standard input" : path;
      result_.job = parse_job_file(
          path == "-" ? read_standard_input() : read_file(path, kMaxJobText), result_.where);
      if (!words.empty()) replace_arguments(result_.job, words);
    } else if (!words.empty()) {
      result_.job = command_of(words);
    } else if (result_.source_kind == Source::none) {
      throw UsageError(
          "SOURCE is missing: a folder, a train.pt or a program; or a COMMAND after --.");
    } else if (path_exists(join_path(result_.source, kArchiveName))) {
      result_.job = archive_of_folder();
    } else {
      fail(
          "{}: contains neither {} nor {}. Write a job file (adaptdl-job(5)), name another with "
          "--file, or give a command to run: `adaptdl submit {} -- COMMAND`",
          *options_.source, kJobFileName, kArchiveName, *options_.source);
    }
  }

  // "-" is standard input; "": none.
  std::string job_file() const {
    if (options_.file) return *options_.file;
    if (result_.source_kind != Source::folder) return "";
    const std::string path = join_path(result_.source, kJobFileName);
    return path_exists(path) ? path : "";
  }

  void apply_flags() {
    JobSpec& spec = result_.job.spec;
    if (options_.name) {
      spec.name.clear();
      spec.name_prefix = *options_.name + "-";
      if (!valid_job_name_prefix(spec.name_prefix)) {
        throw UsageError(fmt::format(
            "--name: invalid prefix {}; use at most {} lower-case letters, digits and '-'.",
            *options_.name, kMaxJobName - kJobNameSuffix - 1));
      }
    }
    if (spec.name.empty() && spec.name_prefix.empty()) spec.name_prefix = job_name_prefix(title());
    if (options_.replicas) {
      result_.replicas = replica_range_argument(*options_.replicas, "--replicas", {.open = true});
      set_replicas(spec, *result_.replicas);
    }
    if (!options_.accelerators.empty()) spec.request.accelerators = options_.accelerators;
    if (!options_.settings.empty() && spec.kind == Kind::command) {
      throw UsageError(fmt::format(
          "--set: {} runs a command, which has no settings; give it arguments after --.",
          result_.where.empty() ? "this job" : result_.where));
    }
    apply_command_flags();
    spec.settings.insert(spec.settings.end(), options_.settings.begin(), options_.settings.end());
    if (options_.tensorboard) {
      spec.tensorboard = *options_.tensorboard;
      if (!valid_job_name(spec.tensorboard)) {
        throw UsageError(fmt::format(
            "--tensorboard: invalid instance name {}; use lower-case letters, digits and '-'.",
            spec.tensorboard));
      }
    }
  }

  // Those of torchrun.
  void apply_command_flags() {
    JobSpec& spec = result_.job.spec;
    const auto only_commands = [&](const char* flag) {
      if (spec.kind == Kind::command) return;
      throw UsageError(fmt::format("--{}: only for commands; {} is an {}.", flag, spec.program,
                                   job_kind_name(spec.kind)));
    };
    if (options_.max_restarts) spec.retries = *options_.max_restarts;
    if (options_.restartable) {
      only_commands("restartable");
      spec.restartable = true;
    }
    if (options_.role) {
      only_commands("role");
      spec.environment[kRoleVariable] = *options_.role;
    }
  }

  // The base of the job's name if the user gives none.
  std::string title() const {
    if (result_.source_kind == Source::folder) return file_name(result_.source);
    return file_stem(result_.spec().program);
  }

  Submission result_;
  const SubmitOptions& options_ = result_.options;
};

}  // namespace

Submission resolve_submission(SubmitOptions options) {
  return Resolver(std::move(options)).run();
}

}  // namespace adaptdl::client
