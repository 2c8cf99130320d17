#pragma once

// A fake API server (fake_api.h) whose pods run commands, behind one address.
//
// exec, over v5.channel.k8s.io alone, starts the command as a process of this machine; in its words
// the folder `root` stands for /adaptdl. Messages come in fragments, with pings between; a client's
// frame without a mask ends the connection. Everything else is passed on to the fake API server.

#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/cancellation.h"
#include "core/base/fd.h"
#include "tests/unit/kube/fake_api.h"

namespace adaptdl::kube {

class FakeCluster {
 public:
  explicit FakeCluster(std::string root, std::vector<FakeApi::Kind> more = {});
  ~FakeCluster();

  FakeApi& api() { return api_; }
  Config config() const;

  // What becomes of an exec.
  enum class Exec {
    run,      // to the command's end, which is told
    refused,  // 500 in place of a WebSocket
    dropped,  // the connection breaks after some thousand bytes, either way
    hung,     // nothing is ever said
  };
  // Asked for each exec, and may change its words. On threads of the fake.
  void set_exec(std::function<Exec(std::vector<std::string>& words)> rule);

  // Of the connections to the API server, each `every`-th breaks after that many bytes of answers;
  // 0: none.
  void cut(int every, size_t after);

  int execs() const { return execs_; }  // so far

 private:
  struct Connection {
    Fd socket;
    std::thread thread;
  };

  void accept();
  void serve(int socket);
  void pass_on(int socket);
  void exec(int socket, const std::string& head);

  FakeApi api_;
  const std::string root_;
  mutable std::mutex mutex_;  // of what follows, to cut_after_
  std::function<Exec(std::vector<std::string>&)> rule_;
  int cut_every_ = 0, passed_ = 0;
  size_t cut_after_ = 0;
  std::atomic<int> execs_ = 0;
  Cancellation over_;
  uint16_t port_ = 0;
  Fd listener_;
  std::list<Connection> connections_;  // of the accepting thread
  std::thread thread_;
};

}  // namespace adaptdl::kube
