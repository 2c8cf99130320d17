#include "core/cluster/local/service.h"

#include <csignal>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/launch/client.h"

using namespace adaptdl;
using namespace adaptdl::local;

namespace {

struct ServiceFolder {
  TemporaryDirectory folder{"adaptdl-service"};
  ServiceOptions options;

  ServiceFolder() {
    const std::string& path = folder.path();
    options.paths = {path,
                     folder.file("state.db"),
                     folder.file("service.lock"),
                     folder.file("service.log"),
                     folder.file("jobs"),
                     folder.file("service.sock"),
                     ""};
    options.adaptdl = "/bin/false";
    options.version = "0";
    options.config = folder.file("config.yaml");
    options.slots = parse_slot_counts("1");
    make_directories(options.paths.jobs);
  }
  Json ask(const Json& request) const {
    return launch::request_at(options.paths.socket, request, Seconds(20), "the service");
  }
};

}  // namespace

TEST_CASE("a service waits for one that ends, but not for one that runs") {
  const ServiceFolder place;
  Fd lock = open_file(place.options.paths.lock, O_RDWR | O_CREAT, 0600);
  REQUIRE(::flock(lock.get(), LOCK_EX | LOCK_NB) == 0);
  std::thread ending([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    lock.reset();
  });
  std::optional<Service> service;
  CHECK_NOTHROW(service.emplace(place.options));
  ending.join();
  REQUIRE(service);
  const TimePoint begun = Monotonic::now();
  CHECK_THROWS_WITH_AS(Service(place.options), doctest::Contains("already running"), Error);
  CHECK(seconds_since(begun) < 5);
}

TEST_CASE("a request of deletion sweeps up what an earlier one has left, an hour later") {
  const ServiceFolder place;
  const LocalPaths& paths = place.options.paths;
  Service service(place.options);
  const std::string old = paths.outgoing(), fresh = paths.outgoing();
  for (const std::string& path : {old, fresh}) {
    make_directories(path);
    write_file_atomic(path + "/train.py", "");
  }
  const double then_s = wall_now_s() - 3700;
  const timespec times[2] = {{static_cast<time_t>(then_s), 0}, {static_cast<time_t>(then_s), 0}};
  REQUIRE(::utimensat(AT_FDCWD, old.c_str(), times, 0) == 0);
  std::string refusal;
  std::thread caller([&] {
    try {
      place.ask({{"request", "delete"}, {"name", "none"}});
    } catch (const Error& error) {
      refusal = error.what();
    }
    ::kill(::getpid(), SIGTERM);  // which the service catches: it stops
  });
  service.run();
  caller.join();
  CHECK(refusal.find("job none not found") != refusal.npos);
  CHECK_FALSE(path_exists(old));
  CHECK(path_exists(fresh));
}
