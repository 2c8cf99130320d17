#pragma once

// Bytes of all members, combined by rank 0.

#include <functional>
#include <string>

#include "runtime/comm/communicator.h"

namespace adaptdl::standalone {

using Fold = std::function<std::string(const std::string& so_far, const std::string& next)>;

// Collective. All get what rank 0's `fold` made of the members' bytes in order of rank. Throws
// Error on all members if it threw, or if the bytes of all are more than a gigabyte.
std::string fold_bytes(comm::Communicator& communicator, const std::string& mine, const Fold& fold);

// Collective: the bytes of `root`.
std::string bytes_of_root(comm::Communicator& communicator, const std::string& mine, int root);

}  // namespace adaptdl::standalone
