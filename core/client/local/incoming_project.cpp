#include "core/client/local/incoming_project.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/console.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/system.h"
#include "core/cluster/local/paths.h"
#include "core/job/project_copy.h"

namespace adaptdl::client {
namespace {

constexpr double kQuick = 0.5;  // seconds without a progress line
constexpr double kRedrawInterval = 0.1;
constexpr uint64_t kLarge = 1u << 30;  // bytes of a copy that deserves a note

volatile std::sig_atomic_t interrupted = 0;

// Ctrl-C, SIGTERM and the end of the terminal take effect between two files, so that the partial
// copy can be removed. The second time they end the process at once.
class Interruptible {
 public:
  Interruptible() {
    interrupted = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    for (size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
    }
  }
  ~Interruptible() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  static constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> before_{};
};

void check_interrupted() {
  if (interrupted != 0) throw Error("interrupted; nothing was submitted", ExitCode::interrupted);
}

// A progress line, on a terminal only.
class Progress {
 public:
  explicit Progress(bool shown) : shown_(shown && wants_color(STDERR_FILENO)) {}
  ~Progress() {
    if (drawn_) draw("");
  }
  void update(uint64_t files, uint64_t bytes) {
    check_interrupted();
    if (!shown_ || seconds_since(begun_) < kQuick || seconds_since(last_) < kRedrawInterval) return;
    last_ = Monotonic::now();
    draw(fmt::format("copying the project: {} files, {}", files, format_bytes(bytes)));
    drawn_ = true;
  }

 private:
  static void draw(const std::string& text) {
    const std::string all = "\r\x1b[K" + text;
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, all.data(), all.size());
  }
  bool shown_, drawn_ = false;
  TimePoint begun_ = Monotonic::now(), last_{};
};

}  // namespace

IncomingProject::IncomingProject(const std::string& source, JobSpec& spec,
                                 std::vector<std::string>& notes, bool quiet) {
  if (source.empty()) return;
  const local::LocalPaths paths = local::local_paths();
  make_directories(paths.jobs, 0700);
  const std::string path = paths.incoming();
  Interruptible interruptible;
  Progress progress(!quiet);
  CopyOptions options;
  options.progress = [&](uint64_t files, uint64_t bytes) { progress.update(files, bytes); };
  const ProjectCopy copy = is_directory(source)
                               ? copy_project(ProjectFiles(source, spec.data), path, options)
                               : copy_program(source, spec.kind, spec.settings, path, options);
  if (interrupted != 0) {  // while it was written to the disk
    remove_tree(path);
    check_interrupted();
  }
  path_ = path;
  spec.settings.insert(spec.settings.end(), copy.settings.begin(), copy.settings.end());
  notes.insert(notes.end(), copy.warnings.begin(), copy.warnings.end());
  if (!copy.outside_links.empty()) {
    notes.push_back(fmt::format(
        "symlinks that lead out of the project point to the original files, which may change: {}",
        fmt::join(copy.outside_links, ", ")));
  }
  if (copy.bytes >= kLarge) {
    notes.push_back(
        fmt::format("{} were copied; .adaptdlignore excludes files, and `data` of the job file "
                    "links them instead",
                    format_bytes(copy.bytes)));
  }
}

IncomingProject::~IncomingProject() {
  try {
    if (!path_.empty()) remove_tree(path_);
  } catch (const Error&) {  // the service removes it later
  }
}

}  // namespace adaptdl::client
