#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <map>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cluster_choice.h"
#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/jobs.h"
#include "cli/local_jobs.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/tensorboard_process.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/system.h"
#include "core/job/job_spec.h"
#include "core/launch/command_environment.h"
#include "core/launch/signals.h"

namespace adaptdl::cli {
namespace {

constexpr Seconds kStartPatience{120};  // it imports a lot
constexpr Seconds kEndPatience{5};

std::string checked_name(const Arguments& arguments) {
  const std::string name = *arguments.positional("NAME");
  if (!valid_job_name(name)) {
    throw UsageError(fmt::format(
        "NAME: {} cannot name an instance; allowed are lower-case letters, digits and -.", name));
  }
  return name;
}

uint64_t size_of(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return 0;
  if (!S_ISDIR(status.st_mode)) return static_cast<uint64_t>(status.st_size);
  uint64_t size = 0;
  for (const std::string& name : list_directory(path)) size += size_of(join_path(path, name));
  return size;
}

struct Users {
  int jobs = 0;
  std::vector<std::string> unfinished;
};

// The jobs of each instance.
std::map<std::string, Users> users() {
  std::map<std::string, Users> result;
  const auto store = local::open_store();
  if (!store) return result;
  store->all([&](local::JobRecord& job) {
    const Json spec = parse_json(job.spec, "job " + job.name);
    Users& of = result[json_get_or<std::string>(spec, "tensorboard", "job " + job.name, "")];
    ++of.jobs;
    if (!job.ended()) of.unfinished.push_back(job.name);
  });
  return result;
}

int create(const Arguments& arguments) {
  require_local_cluster(arguments, "this command knows only the local one yet");
  const std::string name = checked_name(arguments);
  if (is_directory(tensorboard_folder(name)))
    fail("there is a TensorBoard instance {} already", name);
  make_directories(tensorboard_folder(name), 0700);
  print_line(fmt::format("Successfully created TensorBoard instance {}", name));
  if (!arguments.quiet()) {
    talk(fmt::format(
        "`adaptdl submit --tensorboard {}` lets a job write there, `adaptdl tensorboard "
        "proxy {}` shows it.",
        name, name));
  }
  return 0;
}

bool confirmed(const std::string& question) {
  const std::string prompt = question + " [y/N] ";
  [[maybe_unused]] const ssize_t asked = write(STDERR_FILENO, prompt.data(), prompt.size());
  char answer[16];
  const ssize_t size = read(STDIN_FILENO, answer, sizeof answer);
  return size > 0 && (answer[0] == 'y' || answer[0] == 'Y');
}

int remove(const Arguments& arguments) {
  require_local_cluster(arguments, "this command knows only the local one yet");
  const std::string name = checked_name(arguments);
  const std::string folder = tensorboard_folder(name);
  { const TensorBoardLock exists(name); }
  const Users of = users()[name];
  if (!of.unfinished.empty()) {
    fail("{} is written to by {}; cancel that first", name, fmt::join(of.unfinished, ", "));
  }
  if (tensorboard_is_shown(name))
    fail("{} is shown by `adaptdl tensorboard proxy`; end that first", name);
  if (!arguments.flag("yes") && is_terminal(STDIN_FILENO) && is_terminal(STDERR_FILENO) &&
      !confirmed(fmt::format("Delete {} ({})?", folder, format_bytes(size_of(folder))))) {
    return static_cast<int>(ExitCode::error);
  }
  remove_tree(folder);
  print_line(fmt::format("Successfully deleted TensorBoard instance {}", name));
  return 0;
}

int list(const Arguments& arguments) {
  require_local_cluster(arguments, "this command knows only the local one yet");
  std::map<std::string, Users> of = users();
  std::vector<std::vector<std::string>> rows;
  Json records = Json::array();
  for (const std::string& name : tensorboard_names()) {
    const std::string folder = tensorboard_folder(name);
    const uint64_t size = size_of(folder);
    const bool shown = tensorboard_is_shown(name);
    rows.push_back({name, std::to_string(of[name].jobs), format_bytes(size), shown ? "yes" : "no"});
    records.push_back({{"name", name},
                       {"jobs", of[name].jobs},
                       {"bytes", size},
                       {"ready", shown},
                       {"folder", folder}});
  }
  if (arguments.json()) {
    print_json({{"instances", records}});
  } else if (!rows.empty()) {
    print(table({"NAME", "JOBS", "SIZE", "READY"}, rows));
  } else if (!arguments.quiet()) {
    talk("There are no TensorBoard instances; `adaptdl tensorboard create NAME` makes one.");
  }
  return 0;
}

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// A port that nobody listens at now.
int free_port() {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (!socket || bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    fail_errno(errno, "cannot find a free port");
  }
  return ntohs(address.sin_port);
}

// Where a browser would look, which need not be loopback.
bool listens(const std::string& address, int port) {
  const bool ipv6 = address.find(':') != std::string::npos;
  return launch::answers(fmt::format("http://{}:{}", ipv6 ? "[" + address + "]" : address, port));
}

int proxy(const Arguments& arguments) {
  require_local_cluster(arguments, "this command knows only the local one yet");
  const std::string name = checked_name(arguments);
  const TensorBoardLock lock(name);
  const std::string address = arguments.text("address");
  const int port =
      arguments.given("port") ? static_cast<int>(arguments.integer("port")) : free_port();
  if (listens(address, port)) fail("port {} is in use; --port names another", port);
  std::vector<std::string> command = tensorboard_command();
  for (const std::string& word :
       {std::string("--logdir"), tensorboard_folder(name), std::string("--host"), address,
        std::string("--port"), std::to_string(port)}) {
    command.push_back(word);
  }
  const launch::SignalCatcher signals({SIGINT, SIGTERM, SIGHUP});
  const Fd quiet = open_file("/dev/null", O_WRONLY);
  Child child = spawn(
      {.argv = command, .descriptors = {{quiet.get(), STDOUT_FILENO}}, .new_process_group = true});
  const TimePoint begun = Monotonic::now();
  for (bool ready = false;;) {
    pollfd ends[] = {{signals.fd(), POLLIN, 0}, {child.pidfd(), POLLIN, 0}};
    poll(ends, 2, ready ? -1 : 100);
    if (ends[0].revents != 0) break;
    if (const auto status = child.poll()) {
      fail("TensorBoard ended: {}", status->describe());
    }
    if (!ready && listens(address, port)) {
      ready = true;
      print_line(
          fmt::format("Proxying to TensorBoard instance {} at http://{}:{}", name, address, port));
    }
    if (!ready && seconds_since(begun) > kStartPatience.count()) {
      fail("TensorBoard does not answer at {}:{} after {} s; is that an address of this machine?",
           address, port, kStartPatience.count());
    }
  }
  child.send_signal(SIGTERM);
  child.wait_until(Monotonic::now() +
                   std::chrono::duration_cast<Monotonic::duration>(kEndPatience));
  return 0;
}

Positional name_positional() {
  return {.name = "NAME", .doc = "The instance's name, as `--tensorboard` of submit takes it."};
}

}  // namespace

Command tensorboard_create_command() {
  return {.name = "tensorboard create",
          .summary = "Make an instance that jobs can write to",
          .text = embedded("cmd_tensorboard.md"),
          .options = with_cluster({}),
          .positionals = {name_positional()},
          .examples = {{"adaptdl tensorboard create curves", "Make one called curves."}},
          .run = create};
}

Command tensorboard_delete_command() {
  return {.name = "tensorboard delete",
          .summary = "Remove an instance, and what jobs wrote to it",
          .text = embedded("cmd_tensorboard.md"),
          .options = with_cluster({{.name = "yes", .letter = 'y', .doc = "Do not ask."}}),
          .positionals = {name_positional()},
          .examples = {{"adaptdl tensorboard delete curves", "Remove it."}},
          .run = remove};
}

Command tensorboard_list_command() {
  return {.name = "tensorboard list",
          .summary = "List instances",
          .text = embedded("cmd_tensorboard.md"),
          .options = with_cluster({format_option()}),
          .examples = {{"adaptdl tensorboard list", "What there is."}},
          .run = list};
}

Command tensorboard_proxy_command() {
  return {.name = "tensorboard proxy",
          .summary = "Show an instance to a browser, until Ctrl-C",
          .text = embedded("cmd_tensorboard.md"),
          .options = with_cluster({{.name = "address",
                                    .kind = Kind::text,
                                    .value = "ADDRESS",
                                    .fallback = "127.0.0.1",
                                    .doc = "Where to listen; 0.0.0.0 lets other machines in, too."},
                                   {.name = "port",
                                    .letter = 'p',
                                    .kind = Kind::integer,
                                    .value = "PORT",
                                    .doc = "Default: one that is free.",
                                    .min = 1,
                                    .max = 65535}}),
          .positionals = {name_positional()},
          .examples = {{"adaptdl tensorboard proxy curves", "Prints the address to open."}},
          .run = proxy};
}

}  // namespace adaptdl::cli
