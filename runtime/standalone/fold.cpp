#include "runtime/standalone/fold.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "core/base/error.h"

namespace adaptdl::standalone {
namespace {

constexpr uint64_t kMostBytes = 1u << 30;  // of all members

// On rank 0. `lane`: of each member's bytes in `all`.
std::string folded(const std::vector<char>& all, const std::vector<uint64_t>& sizes, size_t lane,
                   const Fold& fold) {
  std::string result(all.data(), sizes[0]);
  for (size_t rank = 1; rank < sizes.size(); ++rank) {
    result = fold(result, std::string(all.data() + rank * lane, sizes[rank]));
  }
  return result;
}

}  // namespace

std::string bytes_of_root(comm::Communicator& communicator, const std::string& mine, int root) {
  uint64_t size = mine.size();
  communicator.broadcast(&size, sizeof size, root);
  std::string bytes = communicator.rank() == root ? mine : std::string(size, '\0');
  communicator.broadcast(bytes.data(), size, root);
  return bytes;
}

std::string fold_bytes(comm::Communicator& communicator, const std::string& mine,
                       const Fold& fold) {
  const std::vector<uint64_t> sizes = comm::all_gather_values<uint64_t>(communicator, mine.size());
  const size_t lane = *std::ranges::max_element(sizes);
  if (lane > kMostBytes / sizes.size()) {
    fail("allreduce: {} replicas with up to {} bytes are too much at once", sizes.size(), lane);
  }
  std::vector<char> all(lane * sizes.size());
  std::string padded = mine;
  padded.resize(lane);
  communicator.all_gather(padded.data(), lane, all.data());
  std::string result, problem;
  if (communicator.rank() == 0) {
    try {
      result = folded(all, sizes, lane, fold);
    } catch (const std::exception& error) {
      problem = error.what();
      if (problem.empty()) problem = "an exception";
    }
  }
  problem = bytes_of_root(communicator, problem, 0);
  if (problem.empty()) result = bytes_of_root(communicator, result, 0);
  // A member that has the result may leave at once, and break what others have not finished: only
  // the last collective is safe from that.
  communicator.barrier();
  if (!problem.empty()) fail("allreduce: {}", problem);
  return result;
}

}  // namespace adaptdl::standalone
