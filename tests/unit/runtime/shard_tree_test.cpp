// A step's shards are added in one order, whatever the replicas.

#include "runtime/parallel/shard_tree.h"

#include <doctest/doctest.h>

#include "runtime/data/sampler.h"
#include "runtime/parallel/gradients.h"
#include "runtime/parallel/tree_sum.h"
#include "runtime/torch_compat.h"
#include "tests/unit/comm/group.h"

using namespace adaptdl;
using Nodes = std::vector<TreeNode>;

namespace {

// How the shards of a range are added, as text.
std::vector<std::string> sums_of(ShardTree& tree, const Nodes& nodes,
                                 std::vector<std::string> texts) {
  std::vector<std::string> stack;
  for (size_t i = 0; i < nodes.size(); ++i) {
    stack.push_back(std::move(texts[i]));
    for (int sums = tree.push(nodes[i]); sums > 0; --sums) {
      const std::string right = std::move(stack.back());
      stack.pop_back();
      stack.back() = "(" + stack.back() + "+" + right + ")";
    }
  }
  return stack;
}

std::string on_replicas(int shards, int replicas) {
  Nodes all;
  std::vector<std::string> texts;
  for (int rank = 0; rank < replicas; ++rank) {
    const auto range = data::shards_of(shards, replicas, rank);
    ShardTree tree(shards);
    Nodes own;
    std::vector<std::string> names;
    for (int i = range.first; i < range.first + range.count; ++i) {
      own.push_back({0, i});
      names.push_back(std::to_string(i));
    }
    for (auto& text : sums_of(tree, own, names)) texts.push_back(std::move(text));
    CHECK((tree.nodes() == tree_nodes(shards, range.first, range.count)));
    all.insert(all.end(), tree.nodes().begin(), tree.nodes().end());
  }
  ShardTree tree(shards);
  const auto whole = sums_of(tree, all, texts);
  REQUIRE(whole.size() == 1);
  return whole.front();
}

at::Tensor noise(int seed, int64_t count, at::ScalarType type = at::kFloat) {
  return at::sin(at::arange(count, at::kDouble) * 12.9898 + seed).mul(43758.5453).frac().to(type);
}

}  // namespace

TEST_CASE("the ranges of replicas are even, in order, and rank 0 has shards") {
  for (int shards = 1; shards <= 20; ++shards) {
    for (int replicas = 1; replicas <= 24; ++replicas) {
      int next = 0;
      for (int rank = 0; rank < replicas; ++rank) {
        const auto range = data::shards_of(shards, replicas, rank);
        CHECK(range.first == next);
        CHECK(range.count >= shards / replicas);
        CHECK(range.count <= (shards + replicas - 1) / replicas);
        if (rank == 0) CHECK(range.count > 0);
        next += range.count;
      }
      CHECK(next == shards);
    }
  }
}

TEST_CASE("the tree of the shards does not depend on the replicas") {
  CHECK(on_replicas(8, 1) == "(((0+1)+(2+3))+((4+5)+(6+7)))");
  CHECK(on_replicas(5, 1) == "(((0+1)+(2+3))+4)");
  CHECK(on_replicas(6, 1) == "(((0+1)+(2+3))+(4+5))");
  CHECK(on_replicas(7, 1) == "(((0+1)+(2+3))+((4+5)+6))");
  for (int shards = 1; shards <= 33; ++shards) {
    const std::string whole = on_replicas(shards, 1);
    for (int replicas = 2; replicas <= shards + 2; ++replicas) {
      CHECK(on_replicas(shards, replicas) == whole);
    }
  }
}

TEST_CASE("a replica has few nodes to send") {
  CHECK((tree_nodes(8, 0, 4) == Nodes{{2, 0}}));
  CHECK((tree_nodes(8, 0, 3) == Nodes{{1, 0}, {0, 2}}));
  CHECK((tree_nodes(8, 3, 3) == Nodes{{0, 3}, {1, 2}}));
  CHECK(tree_nodes(8, 3, 0).empty());
  CHECK((tree_nodes(1, 0, 1) == Nodes{{0, 0}}));
  for (int first = 0; first < 64; ++first) {
    for (int count = 0; first + count <= 64; ++count) {
      CHECK(tree_nodes(64, first, count).size() <= 10);
    }
  }
}

TEST_CASE("replicas on one host and on several sum to the same bits") {
  constexpr int kShards = 8;
  constexpr int64_t kCount = 200'001;  // more than is gathered at once
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    std::vector<at::Tensor> sums;
    for (int i = 0; i < kShards; ++i) sums.push_back(noise(i, kCount, type));
    while (sums.size() > 1) {
      std::vector<at::Tensor> parents;
      for (size_t i = 0; i < sums.size(); i += 2) parents.push_back(sums[i] + sums[i + 1]);
      sums = parents;
    }
    const auto sum = [&](comm::Communicator& communicator) {
      const auto range = data::shards_of(kShards, communicator.size(), communicator.rank());
      ShardTree tree(kShards);
      std::vector<at::Tensor> parts;
      for (int i = range.first; i < range.first + range.count; ++i) {
        parts.push_back(noise(i, kCount, type));
        for (int left = tree.push({0, i}); left > 0; --left) {
          parts[parts.size() - 2].add_(parts.back());
          parts.pop_back();
        }
      }
      if (parts.empty()) parts.push_back(at::full({kCount}, NAN, type));
      sum_by_tree(communicator, kShards, parts);
      CHECK(at::equal(parts.front(), sums.front()));
    };
    for (const int replicas : {2, 3, 5, 8, 9}) {
      comm::testing::with_group(comm::testing::one_host(replicas), sum);
    }
    comm::testing::with_group({"a", "b"}, sum);
    comm::testing::with_group({"a", "b", "a", "c", "a"}, sum);
  }
}

TEST_CASE("gradients of shards have the same bits on any number of replicas") {
  constexpr int kShards = 6;
  OptimizerSpec spec;
  spec.defaults.lr = 0.1;
  // The second parameter is reached by some shards only, the third by none.
  const auto train = [&](comm::Communicator* communicator) {
    std::vector<NamedTensor> parameters;
    for (const char* name : {"all", "some", "none"}) {
      parameters.push_back({name, noise(1, 35).view({7, 5}).set_requires_grad(true)});
    }
    const Optimizer optimizer(spec, parameters);
    Gradients gradients(parameters, optimizer, {.bucket_bytes = 150, .first_bucket_bytes = 150});
    const int replicas = communicator ? communicator->size() : 1;
    const int rank = communicator ? communicator->rank() : 0;
    const auto range = data::shards_of(kShards, replicas, rank);
    std::vector<at::Tensor> result;
    for (int step = 0; step < 2; ++step) {
      gradients.begin_shards(communicator, kShards, range, /*loss_scale=*/1);
      for (int micro = 0; micro < std::max(range.count, 1); ++micro) {
        const int shard = range.first + micro;
        gradients.begin_micro_step(micro, 1.0 / kShards);
        if (range.count > 0 && shard != 4) {  // one without samples
          at::Tensor loss =
              at::linear(noise(shard + 10 * step, 5), parameters[0].tensor).sin().sum();
          if (shard == 1 || shard == 2) loss = loss + (parameters[1].tensor * -0.0).sum();
          (loss / kShards).backward();
        }
        gradients.end_micro_step();
      }
      gradients.finish();
      CHECK(gradients.finite());
      for (size_t i = 0; i < 2; ++i) {
        const at::Tensor gradient = parameters[i].tensor.grad();
        REQUIRE(gradient.defined());
        result.push_back(gradient.clone());
      }
      gradients.clear();
    }
    return result;
  };
  const auto alone = train(nullptr);
  for (const int replicas : {2, 3, 4, 6, 7}) {
    comm::testing::with_group(comm::testing::one_host(replicas),
                              [&](comm::Communicator& communicator) {
                                const auto ours = train(&communicator);
                                for (size_t i = 0; i < alone.size(); ++i) {
                                  // As integers: -0 is not 0.
                                  CHECK(at::equal(ours[i].view(at::kInt), alone[i].view(at::kInt)));
                                }
                              });
  }
}
