#include "core/client/tensorboards.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <map>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/signals.h"
#include "core/client/local/tensorboard_process.h"
#include "core/cluster/local/client.h"
#include "core/launch/command/command_environment.h"
#include "core/net/http_message.h"

namespace adaptdl::client {
namespace {

constexpr Seconds kStartPatience{120};  // its imports are slow
constexpr Seconds kStopPatience{5};

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

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// A port on which nobody listens at present.
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

// Connects like a browser, to an address that need not be loopback.
bool listens(const std::string& address, int port) {
  return launch::answers(fmt::format("http://{}:{}", url_host(address), port));
}

class LocalTensorBoards : public TensorBoards {
 public:
  std::string create(const std::string& name, const TensorBoardOptions&) override {
    if (is_directory(tensorboard_folder(name))) {
      fail("TensorBoard instance {} already exists", name);
    }
    make_directories(tensorboard_folder(name), 0700);
    return "";
  }

  std::string removal(const std::string& name) override {
    const std::string folder = tensorboard_folder(name);
    { const TensorBoardLock exists(name); }
    const Users of = users()[name];
    if (!of.unfinished.empty()) {
      fail("{} is in use by {}; cancel these jobs first", name, fmt::join(of.unfinished, ", "));
    }
    if (tensorboard_is_shown(name))
      fail("{} is served by `adaptdl tensorboard proxy`; stop that first", name);
    return fmt::format("{} ({})", folder, format_bytes(size_of(folder)));
  }

  void remove(const std::string& name) override { remove_tree(tensorboard_folder(name)); }

  TensorBoardList list() override {
    std::map<std::string, Users> of = users();
    TensorBoardList result{.head = {"NAME", "JOBS", "SIZE", "READY"}};
    for (const std::string& name : tensorboard_names()) {
      const std::string folder = tensorboard_folder(name);
      const uint64_t size = size_of(folder);
      const bool shown = tensorboard_is_shown(name);
      result.rows.push_back(
          {name, std::to_string(of[name].jobs), format_bytes(size), shown ? "yes" : "no"});
      result.records.push_back({{"name", name},
                                {"jobs", of[name].jobs},
                                {"bytes", size},
                                {"ready", shown},
                                {"folder", folder}});
    }
    return result;
  }

  void proxy(const std::string& name, const std::string& address,
             std::optional<int> wanted) override {
    const TensorBoardLock lock(name);
    const int port = wanted.value_or(0) != 0 ? *wanted : free_port();
    if (listens(address, port)) fail("port {} is in use; choose another with --port", port);
    std::vector<std::string> command = tensorboard_command();
    for (const std::string& word :
         {std::string("--logdir"), tensorboard_folder(name), std::string("--host"), address,
          std::string("--port"), std::to_string(port)}) {
      command.push_back(word);
    }
    const SignalCatcher signals({SIGINT, SIGTERM, SIGHUP});
    const Fd quiet = open_file("/dev/null", O_WRONLY);
    Child child = spawn({.argv = command,
                         .descriptors = {{quiet.get(), STDOUT_FILENO}},
                         .new_process_group = true});
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
        tell_tensorboard(name, address, port);
      }
      if (!ready && seconds_since(begun) > kStartPatience.count()) {
        fail("TensorBoard did not answer at {}:{} within {} s; is that an address of this machine?",
             address, port, kStartPatience.count());
      }
    }
    child.send_signal(SIGTERM);
    child.wait_until(Monotonic::now() +
                     std::chrono::duration_cast<Monotonic::duration>(kStopPatience));
  }
};

}  // namespace

std::unique_ptr<TensorBoards> open_local_tensorboards() {
  return std::make_unique<LocalTensorBoards>();
}

}  // namespace adaptdl::client
