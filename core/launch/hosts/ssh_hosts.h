#pragma once

// The agents of a run on other hosts (agent.h), started over ssh by the launcher's process. Each
// lives as long as its connection: when that ends, for any reason, the agent leaves the run.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/launch/io/output_queue.h"

namespace adaptdl::launch {

struct SshHost {
  std::string name;  // as ssh takes it: an alias, HOST or USER@HOST
  int slots = 1;
};

struct SshHostsOptions {
  std::vector<SshHost> hosts;
  std::vector<std::string> ssh;        // the client and its flags, before ours
  std::string program;                 // an absolute path, the same everywhere
  std::vector<std::string> arguments;  // of `adaptdl run`, besides the program and what is below
  std::string worker;                  // ADAPTDL_WORKER on the hosts; "": unset
  std::string directory;  // in which the agents start, on hosts that have it; others: in the home
  std::vector<std::pair<std::string, std::string>> environment;  // of agents where it is unset
  std::string libtorch;  // a folder, for hosts that have it, too; others look for their own
  std::string key;       // the run's secret
  std::string address;   // of the launcher; "": as the hosts see where ssh comes from
  uint16_t port = 0;
};

class SshHosts {
 public:
  // Prepares all hosts at once: copies this binary into their cache folder, and the program to its
  // path, where they are missing; a program that an earlier run has copied is replaced if it
  // differs, another one makes the host fail. Waits for all. Hosts that fail are told, and tried
  // again by start(). `talk`: any thread calls it. Throws Error if the program cannot be read.
  SshHosts(SshHostsOptions options, Talk talk);
  // Gives the agents time to end by themselves, then ends them.
  ~SshHosts();

  int ready() const;  // hosts that are prepared

  // Runs the agents until the end; one that ends is started again, with growing pauses, unless its
  // run has finished, or it has failed before it was ever in the run. `least`: when fewer hosts
  // than that are left, `lost` is called once, from any thread.
  void start(int least, std::function<void()> lost);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// "HOST[:SLOTS],...". Throws UsageError. `slots`: for hosts without a number.
std::vector<SshHost> parse_ssh_hosts(const std::string& text, int slots);

}  // namespace adaptdl::launch
