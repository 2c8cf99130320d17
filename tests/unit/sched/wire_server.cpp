// A supervisor with jobs as its standard input tells it, for wire_test.sh. Prints its port, then
// "done" after each line of input:
//   job NAMESPACE/NAME [TOKEN]
//   addresses NAMESPACE/NAME GROUP ADDRESS...
//   hints NAMESPACE/NAME       prints the hints that it got, as one JSON list, instead
//   tls CERTIFICATE KEY        files; the second such server, whose port it prints instead
// Ends with its input.

#include <iostream>
#include <sstream>

#include "core/base/files.h"
#include "tests/unit/sched/fake_jobs.h"

using namespace adaptdl;

namespace {

void obey(const std::string& line, FakeJobs& jobs, std::unique_ptr<Supervisor>& with_tls) {
  std::istringstream words(line);
  std::string verb, job, word;
  words >> verb >> job;
  if (verb == "job") {
    jobs.with([&](auto& all) {
      if (words >> word) all[job].token = word;
      all[job];
    });
  } else if (verb == "addresses") {
    int64_t group = 0;
    words >> group;
    std::vector<std::string> addresses;
    while (words >> word) addresses.push_back(word);
    jobs.with([&](auto& all) { all[job].addresses[group] = addresses; });
  } else if (verb == "hints") {
    Json list = Json::array();
    jobs.with([&](auto& all) {
      for (const SchedulingHints& hints : all[job].hints) list.push_back(to_json(hints));
    });
    std::cout << list.dump() << std::endl;
    return;
  } else if (verb == "tls") {
    words >> word;
    const HttpTls tls{read_file(job, 1 << 20), read_file(word, 1 << 20)};
    with_tls = std::make_unique<Supervisor>(jobs, HttpServerOptions{.tls = tls});
    std::cout << with_tls->port() << std::endl;
    return;
  }
  std::cout << "done" << std::endl;
}

}  // namespace

int main() {
  FakeJobs jobs;
  std::unique_ptr<Supervisor> with_tls;
  Supervisor supervisor(jobs, {});
  std::cout << supervisor.port() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    obey(line, jobs, with_tls);
    supervisor.changed();
  }
}
