#pragma once

// Names the networks of hosts that are much slower than the others (link_watch.h), with the
// evidence.

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/launch/io/run_report.h"
#include "core/launch/run/link_watch.h"
#include "core/launch/run/membership.h"
#include "core/launch/run/replica_set.h"

namespace adaptdl::launch {

// One thread.
class SlowLinks {
 public:
  // Borrows all.
  SlowLinks(const View& view, const ReplicaSet& replicas, RunReport& report)
      : view_(view), replicas_(replicas), report_(report) {}

  // A message `links` (protocol.h) of that replica.
  void links(MemberId from, const nlohmann::json& message);

  // Call after every change of the view.
  void check();

  std::vector<SlowLinkFacts> facts() const;  // of those that are named now

 private:
  struct Host {
    std::string name;
    MemberId member = 0;  // the lowest rank there, when replicas trained there last
  };
  SlowLinkFacts facts_of(const char* state, const SlowLink& evidence) const;
  void tell(const std::vector<LinkWatch::News>& news);

  const View& view_;
  const ReplicaSet& replicas_;
  RunReport& report_;
  LinkWatch watch_;
  uint64_t generation_ = 0;
  std::map<int, Host> hosts_;  // by number
};

}  // namespace adaptdl::launch
