#include <doctest/doctest.h>

#include "core/base/files.h"
#include "core/sim/experiment.h"
#include "tests/unit/base/expect_error.h"

using namespace adaptdl;

namespace {

std::vector<ClusterNode> read(const std::string& text) {
  const TemporaryDirectory folder;
  write_file_atomic(folder.file("cluster.yaml"), text);
  return read_cluster(folder.file("cluster.yaml"));
}

}  // namespace

TEST_CASE("a cluster file lists nodes one by one or by number") {
  const auto nodes = read(
      "nodes:\n"
      "  - {count: 2, gpus: 4}\n"
      "  - {name: big, gpus: 8, accelerator: a100}\n"
      "  - {name: small, count: 2, gpus: 0}\n");
  REQUIRE(nodes.size() == 5);
  CHECK(nodes[1].name == "node-1");
  CHECK(nodes[1].free_for_jobs == Resources{{"gpu", 4}});
  CHECK(nodes[2].name == "big");
  CHECK(nodes[2].accelerator == "a100");
  CHECK(nodes[4].name == "small-1");
  CHECK(uniform_cluster(2, 4)[1].name == "node-1");
}

TEST_CASE("mistakes in a cluster file are named with their line") {
  CHECK_ERROR(read("nodes:\n  - {count: 2}\n"), "cluster.yaml:2: nodes.0.gpus");
  CHECK_ERROR(read("nodes:\n  - {gpus: 1}\n  - {gpus: -1}\n"), "cluster.yaml:3: nodes.1.gpus");
  CHECK_ERROR(read("nodes:\n  - {gpus: 1, colour: red}\n"), "cluster.yaml:2: nodes.0.colour");
  CHECK_ERROR(read("nodes:\n  - {gpus: 1, name: \"\"}\n"), "cluster.yaml:2: nodes.0: name");
  CHECK_ERROR(read("nodes: []\n"), "cluster.yaml:1: nodes");
  CHECK_ERROR(read("computers:\n  - {gpus: 1}\n"), "nodes");
  CHECK_ERROR(read("nodes:\n  - {gpus: 1, count: 100001}\n"), "nodes.0.count");
  CHECK_ERROR(read("nodes:\n  - {gpus: 1}\n  - {gpus: 1, name: node-0}\n"),
              "cluster.yaml:3: nodes.1: 'node-0' is the name of two nodes");
}
