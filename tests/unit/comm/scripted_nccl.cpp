#include "tests/unit/comm/scripted_nccl.h"

#include <algorithm>

namespace adaptdl::comm::testing {
namespace {

constexpr int kSystemError = 2, kRemoteError = 6, kSum = 0, kAverage = 4, kFloat = 7, kByte = 1;

struct Part {
  const void* from;
  void* to;
  size_t count;
  int type, op, root;
  ScriptedStream* stream;
};

// All that has the same unique id.
struct Group {
  std::mutex mutex;
  int came = 0;
  std::map<int, Part> parts;  // of the collective that goes on, by rank
};

struct Comm {
  std::shared_ptr<Group> group;
  int rank = 0, size = 0;
  int asked = 0;  // of the state
  bool starting = false;
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
  *comm = new Comm{group, rank, size};
  ++script().made;
  return nccl::kInProgress;
}

int get_async_error(void* handle, int* result) {
  Comm& comm = *static_cast<Comm*>(handle);
  const std::lock_guard lock(comm.group->mutex);
  *result = nccl::kSuccess;
  if (++comm.asked <= script().slow_init || comm.group->came < comm.size) {
    *result = nccl::kInProgress;
  } else if (std::exchange(comm.starting, false)) {
    *result = nccl::kInProgress;
  } else if (comm.stream != nullptr && script().error_at == comm.rank) {
    *result = kRemoteError;
  }
  return nccl::kSuccess;
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
  for (float& sum : sums) {
    if (first.op == kAverage) sum /= static_cast<float>(parts.size());
  }
  for (const auto& [rank, part] : parts) std::ranges::copy(sums, static_cast<float*>(part.to));
}

int take_part(Comm& comm, const Part& part) {
  ++script().calls;
  const std::lock_guard lock(comm.group->mutex);
  ++part.stream->given;
  comm.stream = part.stream;
  auto& parts = comm.group->parts;
  if (!parts.emplace(comm.rank, part).second) std::abort();  // the last one is not over
  if (static_cast<int>(parts.size()) == comm.size && !script().hangs) {
    compute(parts);
    for (const auto& [rank, each] : parts) ++each.stream->done;
    parts.clear();
  }
  comm.starting = script().starts_slowly;
  return comm.starting ? nccl::kInProgress : nccl::kSuccess;
}

int all_reduce(const void* from, void* to, size_t count, int type, int op, void* comm,
               void* stream) {
  if (op != kSum && op != kAverage) std::abort();
  return take_part(*static_cast<Comm*>(comm),
                   {from, to, count, type, op, 0, static_cast<ScriptedStream*>(stream)});
}

int broadcast(const void* from, void* to, size_t count, int type, int root, void* comm,
              void* stream) {
  return take_part(*static_cast<Comm*>(comm),
                   {from, to, count, type, kSum, root, static_cast<ScriptedStream*>(stream)});
}

int abort_comm(void* handle) {
  const std::unique_ptr<Comm> comm(static_cast<Comm*>(handle));
  ++script().aborted;
  const std::lock_guard lock(comm->group->mutex);
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
