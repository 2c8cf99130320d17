// Which checkpoint a run on hosts with folders of their own begins from, and who writes copies.

#include "runtime/session/newest_checkpoint.h"

#include <doctest/doctest.h>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "runtime/comm/communicator.h"
#include "tests/unit/checkpoint/sample.h"
#include "tests/unit/comm/group.h"

using namespace adaptdl;

namespace {

HeldCheckpoint held(int64_t fresh_at, int64_t step) {
  return {.fresh_at = fresh_at, .step = step};
}

// A folder for each member, which has the checkpoints that a test writes there.
struct Hosts {
  explicit Hosts(size_t count) : folders(count) { std::iota(folders.begin(), folders.end(), 0); }

  CheckpointStore store(size_t rank) const {
    return {join_path(top.path(), std::to_string(folders[rank])), 3};
  }

  std::string write(size_t rank, int64_t step, int64_t fresh_at = 0,
                    const std::string& job = "run") const {
    test::Sample sample(step);
    sample.header.job = job;
    if (fresh_at > 0) sample.header.state["fresh_at"] = fresh_at;
    return store(rank).write(sample.header, sample.tensors()).path;
  }

  // The same on all members.
  int find(int64_t fresh_at = 0) const {
    std::vector<NewestCheckpoint> found(folders.size());
    const auto look = [&](comm::Communicator& group) {
      const auto rank = static_cast<size_t>(group.rank());
      found[rank] =
          find_newest_checkpoint(&group, {"run", fresh_at, folders, group.rank()}, store(rank));
    };
    comm::testing::with_group(comm::testing::one_host(static_cast<int>(folders.size())), look);
    root = found.front().root;
    for (size_t rank = 0; rank < folders.size(); ++rank) {
      CHECK(found[rank].root == root);
      const bool is_root = static_cast<int>(rank) == root;
      if (!is_root) CHECK_FALSE(found[rank].loaded);
      if (!is_root) CHECK(found[rank].problems.empty());
    }
    problems = found[static_cast<size_t>(root)].problems;
    const auto& loaded = found[static_cast<size_t>(root)].loaded;
    if (loaded) CHECK(loaded->find("layer.weight") != nullptr);
    return loaded ? static_cast<int>(loaded->header.step) : -1;
  }

  TemporaryDirectory top{"newest-checkpoint"};
  Folders folders;
  mutable int root = -1;
  mutable std::vector<std::string> problems;
};

void damage(const std::string& checkpoint) {
  const std::string path = join_path(checkpoint, "data.bin");
  std::string bytes = read_file(path, 1u << 20);
  bytes[bytes.size() / 2] ^= 1;
  write_file_atomic(path, bytes, 0600);
}

}  // namespace

TEST_CASE("copies go to the first member in another folder than rank 0's") {
  CHECK(copying_rank({0}) == -1);
  CHECK(copying_rank({0, 0, 0}) == -1);
  CHECK(copying_rank({3, 3, 0, 5}) == 2);
  CHECK(copying_rank({0, 3, 3, 5}) == 1);
}

TEST_CASE("one member of each folder tells what is in it") {
  const Folders folders{3, 3, 0, 5, 0};
  CHECK(first_in_folder(folders, 0));
  CHECK_FALSE(first_in_folder(folders, 1));
  CHECK(first_in_folder(folders, 2));
  CHECK(first_in_folder(folders, 3));
  CHECK_FALSE(first_in_folder(folders, 4));
}

TEST_CASE("a checkpoint is newer with more steps, or after a later --fresh") {
  CHECK(held(0, 3).newer_than(held(0, 2)));
  CHECK_FALSE(held(0, 3).newer_than(held(0, 3)));
  CHECK(held(9, 1).newer_than(held(0, 1000)));
  CHECK_FALSE(held(0, 1000).newer_than(held(9, 1)));
  CHECK(held(0, 0).newer_than({}));
  CHECK_FALSE(HeldCheckpoint{.fresh_at = 9}.newer_than(held(0, 0)));
  CHECK_FALSE(HeldCheckpoint{}.newer_than({}));
}

TEST_CASE("the lowest rank with the newest checkpoint has it") {
  CHECK(newest_holder({{}, held(0, 5), held(0, 7), held(0, 7)}) == 2);
  CHECK(newest_holder({{}, {}}) == -1);
  const HeldCheckpoint damaged{.damaged = true};
  CHECK(newest_holder({{}, damaged}) == 1);
  CHECK(newest_holder({damaged, held(0, 1)}) == 1);
}

TEST_CASE("checkpoints of other runs, and from before --fresh, count for none") {
  CheckpointHeader header;
  header.job = "run";
  header.step = 4;
  CHECK(held(header, "run", 0).step == 4);
  CHECK_FALSE(held(header, "other", 0).usable());
  CHECK_FALSE(held(header, "run", 1).usable());
  header.state = {{"fresh_at", 7}};
  CHECK(held(header, "run", 7).fresh_at == 7);
  CHECK_FALSE(held(header, "run", 8).usable());
}

TEST_CASE("the newest checkpoint is read where it is") {
  const Hosts hosts(3);
  CHECK(hosts.find() == -1);
  CHECK(hosts.root == 0);
  hosts.write(0, 5);
  hosts.write(1, 9);
  CHECK(hosts.find() == 9);
  CHECK(hosts.root == 1);
  hosts.write(2, 9);
  hosts.write(0, 9);
  CHECK(hosts.find() == 9);
  CHECK(hosts.root == 0);
}

TEST_CASE("where the newest is damaged, the newest that is not is read") {
  const Hosts hosts(3);
  hosts.write(0, 4);
  damage(hosts.write(1, 9));
  hosts.write(2, 7);
  CHECK(hosts.find() == 7);
  CHECK(hosts.root == 2);
  hosts.write(1, 8);
  damage(hosts.write(1, 9));
  CHECK(hosts.find() == 8);
  CHECK(hosts.root == 1);
  REQUIRE(hosts.problems.size() == 1);
  CHECK(hosts.problems[0].find("step-000000000009 is not usable") != std::string::npos);
}

TEST_CASE("damaged checkpoints alone are no beginning from nothing, but after --fresh") {
  const Hosts hosts(3);
  damage(hosts.write(1, 9));
  CHECK(hosts.find() == -1);
  CHECK(hosts.root == 1);
  CHECK(hosts.problems.size() == 1);
  CHECK(hosts.find(/*fresh_at=*/5) == -1);
  CHECK(hosts.root == 0);
  CHECK(hosts.problems.empty());
}

TEST_CASE("what a host had before --fresh, or of another run, is not read") {
  const Hosts hosts(3);
  hosts.write(1, 9);
  hosts.write(2, 9, 5, "other");
  CHECK(hosts.find(5) == -1);
  hosts.write(0, 2, 5);
  CHECK(hosts.find(5) == 2);
  CHECK(hosts.find() == 2);  // the next start, without the flag
  CHECK(hosts.root == 0);
}

TEST_CASE("members that share a folder leave it to rank 0") {
  Hosts hosts(2);
  hosts.folders = {0, 0};
  hosts.write(0, 3, 0, "renamed");
  CHECK(hosts.find() == 3);
  CHECK(hosts.root == 0);
}
