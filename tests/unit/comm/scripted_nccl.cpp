#include "tests/unit/comm/scripted_nccl.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace adaptdl::comm::testing {
namespace {

constexpr int kSystemError = 2, kRemoteError = 6, kSum = 0, kFloat = 7, kByte = 1;
constexpr int kAsks = 50;  // until a device has received what it was sent

struct Part {
  const void* from;
  void* to;
  size_t count;
  int type, root;
  ScriptedStream* stream;
};

// All that has the same unique id.
struct Group {
  std::mutex mutex;
  int came = 0;
  std::map<int, Part> parts;  // of the collective that goes on, by rank
  std::vector<struct Comm*> members;
};

struct Comm {
  std::shared_ptr<Group> group;
  int rank = 0, size = 0;
  int asked = 0;                     // of the state
  std::optional<Part> starting;      // the device has yet to be given it
  ScriptedStream* stream = nullptr;  // of the running collective
};

std::mutex groups_mutex;
std::map<std::string, std::shared_ptr<Group>> groups;

ScriptedNccl& script() {
  return ScriptedNccl::get();
}

int get_unique_id(nccl::UniqueId* id) {
  static std::atomic<int> next{0};
  *id = {};
  std::to_string(++next).copy(id->bytes, sizeof id->bytes - 1);
  return nccl::kSuccess;
}

int init(void** comm, int size, nccl::UniqueId id, int rank, nccl::Config* config) {
  if (config->blocking != 0) std::abort();
  if (script().fails_init == rank) return kSystemError;
  const std::lock_guard lock(groups_mutex);
  auto& group = groups[std::string(id.bytes)];
  if (!group) group = std::make_shared<Group>();
  const std::lock_guard coming(group->mutex);
  if (script().never_inits != rank) ++group->came;
  auto* const made = new Comm{group, rank, size, 0, {}, nullptr};
  group->members.push_back(made);
  *comm = made;
  ++script().made;
  return nccl::kInProgress;
}

void compute(const std::map<int, Part>& parts) {
  const Part& first = parts.begin()->second;
  if (first.type == kByte) {
    const Part& root = parts.at(first.root);
    for (const auto& [rank, part] : parts) {
      if (part.to != root.from) std::memcpy(part.to, root.from, part.count);
    }
    return;
  }
  if (first.type != kFloat) std::abort();  // no test needs another
  std::vector<float> sums(first.count);
  for (const auto& [rank, part] : parts) {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<const float*>(part.from)[i];
  }
  for (const auto& [rank, part] : parts) std::ranges::copy(sums, static_cast<float*>(part.to));
}

// The group's mutex is held.
void give(Comm& comm, const Part& part) {
  ++part.stream->given;
  comm.stream = part.stream;
  auto& parts = comm.group->parts;
  if (!parts.emplace(comm.rank, part).second) std::abort();  // the last one is not over
  if (static_cast<int>(parts.size()) < comm.size || script().hangs) return;
  compute(parts);
  for (const auto& [rank, each] : parts) {
    if (rank == comm.rank) {
      ++each.stream->done;
    } else {
      each.stream->receiving = kAsks;
    }
  }
  parts.clear();
}

int get_async_error(void* handle, int* result) {
  Comm& comm = *static_cast<Comm*>(handle);
  const std::lock_guard lock(comm.group->mutex);
  *result = nccl::kSuccess;
  const bool all_came = comm.group->came >= comm.size || script().connects_alone;
  if (++comm.asked <= script().slow_init || !all_came) {
    *result = nccl::kInProgress;
  } else if (comm.starting) {
    give(comm, *std::exchange(comm.starting, std::nullopt));
    *result = nccl::kInProgress;
  } else if (comm.stream != nullptr && script().error_at == comm.rank) {
    *result = kRemoteError;
  }
  return nccl::kSuccess;
}

int take_part(Comm& comm, const Part& part) {
  ++script().calls;
  const std::lock_guard lock(comm.group->mutex);
  if (script().starts_slowly) {
    comm.starting = part;
    return nccl::kInProgress;
  }
  give(comm, part);
  return nccl::kSuccess;
}

int all_reduce(const void* from, void* to, size_t count, int type, int op, void* comm,
               void* stream) {
  if (op != kSum) std::abort();
  return take_part(*static_cast<Comm*>(comm),
                   {from, to, count, type, 0, static_cast<ScriptedStream*>(stream)});
}

int broadcast(const void* from, void* to, size_t count, int type, int root, void* comm,
              void* stream) {
  return take_part(*static_cast<Comm*>(comm),
                   {from, to, count, type, root, static_cast<ScriptedStream*>(stream)});
}

int abort_comm(void* handle) {
  const std::unique_ptr<Comm> comm(static_cast<Comm*>(handle));
  ++script().aborted;
  const std::lock_guard lock(comm->group->mutex);
  std::erase(comm->group->members, comm.get());
  for (const Comm* other : comm->group->members) {
    if (other->stream != nullptr && other->stream->receiving > 0) other->stream->cut_off = true;
  }
  if (comm->group->parts.erase(comm->rank) > 0) ++comm->stream->done;  // its kernel ends
  return nccl::kSuccess;
}

const char* error_text(int result) {
  return result == kRemoteError ? "remote process exited" : "unhandled system error";
}

const char* last_error(void*) {
  return "by the script";
}

}  // namespace

const nccl::Library& ScriptedNccl::library() {
  static const nccl::Library functions{22809,           get_unique_id, init,
                                       get_async_error, all_reduce,    broadcast,
                                       abort_comm,      error_text,    last_error};
  return functions;
}

}  // namespace adaptdl::comm::testing
