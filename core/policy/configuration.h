#pragma once

// The configurations of one job that policies choose among: those of Sia (SOSP'23).
// Pure functions of plain numbers, any thread.

#include <span>
#include <vector>

namespace adaptdl {

// A number of replicas of a job on a number of nodes of one accelerator kind.
struct Configuration {
  int kind = 0;
  int nodes = 0;     // >= 1
  int replicas = 0;  // >= nodes

  bool operator==(const Configuration&) const = default;
};

// What a kind of nodes can hold of a job.
struct KindRoom {
  struct Shares {  // so many nodes that can hold so many replicas each, both >= 1
    int nodes = 0;
    int replicas = 0;
  };

  int whole_nodes = 0;         // nodes that can hold `per_node` replicas
  int per_node = 0;            // replicas that fill the kind's largest node
  int single = 0;              // most replicas on one node now, <= per_node
  std::vector<Shares> shares;  // of nodes for a job on several now, by descending replicas
};

// On one node: 1, 2, 4, ... and per_node replicas. On n >= 2 nodes: n * per_node replicas. The
// result has all of these with `least` to `most` replicas, ordered by kind, then replicas. If no
// kind has any, it has the ways to run exactly `least` replicas on the fewest nodes in equal
// shares, so that a job can run whose bounds (3 to 3), whose measurements (2 so far, but a minimum
// of 8) or whose nodes (of 8 and 7, but a minimum of 10) allow nothing else. Requires: 1 <= least.
std::vector<Configuration> list_configurations(std::span<const KindRoom> kinds, int least,
                                               int most);

}  // namespace adaptdl
