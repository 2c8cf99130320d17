#include "core/client/local/service_unit.h"

#include <pwd.h>
#include <unistd.h>

#include "core/base/console.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/cluster/local/client.h"

namespace adaptdl::client {

namespace {

constexpr const char* kUnitName = "adaptdl.service";

// $XDG_CONFIG_HOME/systemd/user
std::string unit_folder() {
  return join_path(parent_directory(config_directory()), "systemd/user");
}

std::string user_name() {
  const passwd* entry = getpwuid(geteuid());
  return entry != nullptr ? entry->pw_name : std::to_string(geteuid());
}

// Quoted for systemd: a word may contain blanks and percent signs.
std::string quoted(const std::string& word) {
  std::string result = "\"";
  for (const char c : word) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '%' || c == '$') result += c;
    result += c;
  }
  return result + '"';
}

}  // namespace

std::string this_program() {
  char path[4096];
  const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path);
  if (size <= 0 || size == sizeof path) fail_errno(errno, "/proc/self/exe");
  std::string text(path, static_cast<size_t>(size));
  // A newer binary replaced this one meanwhile: the unit must start that.
  constexpr std::string_view kDeleted = " (deleted)";
  if (text.ends_with(kDeleted)) text.resize(text.size() - kDeleted.size());
  return text;
}

std::string service_unit(const std::string& path, const std::vector<std::string>& flags) {
  std::string command = quoted(path) + " serve";
  for (const std::string& flag : flags) command += " " + quoted(flag);
  return fmt::format(
      "[Unit]\n"
      "Description=adaptdl: shares this machine among training jobs\n"
      "Documentation=man:adaptdl-serve(1)\n"
      "# While another service runs for this user, it tries again.\n"
      "StartLimitIntervalSec=0\n"
      "\n"
      "[Service]\n"
      "ExecStart={}\n"
      "ExecReload=/bin/kill -HUP $MAINPID\n"
      "Restart=on-failure\n"
      "RestartSec=5\n"
      "# Jobs outlive the service; the next one finds them again.\n"
      "KillMode=process\n"
      "\n"
      "[Install]\n"
      "WantedBy=default.target\n",
      command);
}

int install_unit(const std::vector<std::string>& flags, bool quiet) {
  const std::string file = join_path(unit_folder(), kUnitName);
  make_directories(unit_folder());
  write_file_atomic(file, service_unit(this_program(), flags));
  print_line(file);
  if (quiet) return 0;
  talk(fmt::format(
      "Start it now, and with each session:\n{}  systemctl --user daemon-reload\n"
      "  systemctl --user enable --now adaptdl",
      local::service_runs() ? "  adaptdl serve --stop   # the running service; jobs keep running\n"
                            : ""));
  if (!path_exists("/run/systemd/system")) {
    talk("systemd is not running here; start the service by hand with `adaptdl serve`.");
  } else if (!path_exists("/var/lib/systemd/linger/" + user_name())) {
    talk(
        fmt::format("It ends when you log out, and does not start with the machine, until "
                    "lingering is enabled:\n  loginctl enable-linger {}",
                    user_name()));
  }
  return 0;
}

}  // namespace adaptdl::client
