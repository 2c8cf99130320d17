#pragma once

// The configurations of one job that policies choose among: those of Sia (SOSP'23).
// Pure functions of plain numbers, any thread.

#include <span>
#include <vector>

namespace adaptdl {

// Some replicas of a job on some nodes of one kind of accelerator.
struct Configuration {
  int kind = 0;
  int nodes = 0;     // >= 1
  int replicas = 0;  // >= nodes

  bool operator==(const Configuration&) const = default;
};

// What a kind has for a job.
struct KindRoom {
  int whole_nodes = 0;  // nodes that can hold `per_node` replicas
  int per_node = 0;     // replicas that fill the kind's largest node
  int single = 0;       // most replicas on one node now, <= per_node
};

// On one node 1, 2, 4, ... and per_node replicas; on n >= 2 nodes n * per_node; of those all that
// have `least` to `most` replicas. Ordered by kind, then replicas. Where no kind has any, the ways
// to run exactly `least` replicas on the fewest nodes: a job whose bounds (3 to 3) or whose
// measurements (2 so far, at least 8 wanted) leave nothing else must be able to run.
// Requires: 1 <= least.
std::vector<Configuration> list_configurations(std::span<const KindRoom> kinds, int least,
                                               int most);

}  // namespace adaptdl
