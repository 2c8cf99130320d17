#include "core/client/local/tensorboard_process.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/base/text.h"
#include "core/cluster/local/paths.h"

namespace adaptdl::client {
namespace {

constexpr Seconds kPythonPatience{20};

bool can_execute(const std::string& path) {
  return access(path.c_str(), X_OK) == 0 && !is_directory(path);
}

bool is_in_path(const std::string& program) {
  const std::string path = environment_variable("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  const std::vector<std::string> folders = split(path, ':');
  return std::any_of(folders.begin(), folders.end(), [&](const std::string& folder) {
    return can_execute(join_path(folder, program));
  });
}

bool has_module() {
  try {
    return run_and_capture({.argv = {"python3", "-c",
                                     "import importlib.util as u, sys\n"
                                     "sys.exit(0 if u.find_spec('tensorboard') else 1)"}},
                           kPythonPatience, true)
        .status.success();
  } catch (const Error&) {  // no python3
    return false;
  }
}

}  // namespace

std::string tensorboard_folder(const std::string& name) {
  return local::local_paths().tensorboard(name);
}

std::vector<std::string> tensorboard_names() {
  const std::string all = parent_directory(tensorboard_folder("x"));
  std::vector<std::string> names;
  if (!is_directory(all)) return names;
  for (const std::string& name : list_directory(all)) {
    if (is_directory(join_path(all, name))) names.push_back(name);
  }
  return names;
}

std::vector<std::string> tensorboard_command() {
  if (const auto environment = environment_variable("VIRTUAL_ENV")) {
    const std::string path = join_path(*environment, "bin/tensorboard");
    if (can_execute(path)) return {path};
  }
  if (is_in_path("tensorboard")) return {"tensorboard"};
  if (has_module()) return {"python3", "-m", "tensorboard.main"};
  fail(
      "TensorBoard is not installed: no `tensorboard` in PATH, and python3 has no module of that "
      "name. `python3 -m venv ~/tensorboard && ~/tensorboard/bin/pip install tensorboard` installs "
      "it; then run this again with VIRTUAL_ENV=~/tensorboard, or after `. "
      "~/tensorboard/bin/activate`");
}

bool tensorboard_is_shown(const std::string& name) {
  const Fd folder = open_file(tensorboard_folder(name), O_RDONLY | O_DIRECTORY);
  return flock(folder.get(), LOCK_EX | LOCK_NB) != 0;
}

TensorBoardLock::TensorBoardLock(const std::string& name) {
  const std::string path = tensorboard_folder(name);
  if (!is_directory(path)) {
    const std::vector<std::string> names = tensorboard_names();
    fail("TensorBoard instance {} not found.{} Create it with `adaptdl tensorboard create {}`.",
         name, did_you_mean(name, std::vector<std::string_view>(names.begin(), names.end())), name);
  }
  folder_ = open_file(path, O_RDONLY | O_DIRECTORY);
  if (flock(folder_.get(), LOCK_SH | LOCK_NB) != 0) fail("{}: is being deleted", path);
}

}  // namespace adaptdl::client
