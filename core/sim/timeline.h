#pragma once

// Which job held which GPU when, from the events of a simulated cluster.

#include <map>
#include <string>
#include <vector>

#include "core/formats/json.h"
#include "core/sim/sim_cluster.h"

namespace adaptdl {

struct GpuSpan {
  int gpu = 0;  // counted through the nodes in their order
  std::string job;
  double from_s = 0, to_s = 0;
};

class Timeline {
 public:
  explicit Timeline(const std::vector<ClusterNode>& nodes);

  // Adds the next event and returns it as one JSON record:
  //   {"event": "submit"|"allocate"|"batch"|"explain"|"finish"|..., "time_s", "job" or "node",
  //    "gpus": ["node-0/1", ...], "atomic_batch", "accumulation", "why"}
  // Within a node a job keeps its GPUs, and takes the free GPUs with the lowest numbers.
  Json add(const TimelineEvent& event);

  // Ends all open spans; call once, at the end.
  void close(double time_s);

  const std::vector<GpuSpan>& spans() const { return spans_; }
  int gpus() const { return static_cast<int>(names_.size()); }

 private:
  void hold(const TimelineEvent& event);
  int choose(const std::string& node, const std::vector<int>& before, const std::string& job);
  std::string& owner(int gpu) { return owner_[static_cast<size_t>(gpu)]; }

  std::vector<std::string> names_;                // node/index, by GPU
  std::map<std::string, std::vector<int>> gpus_;  // by node
  std::vector<std::string> owner_;                // job, by GPU; "" = free
  struct Held {
    std::vector<int> gpus;
    double since_s = 0;
  };
  std::map<std::string, Held> held_;  // by job
  std::vector<GpuSpan> spans_;
};

}  // namespace adaptdl
