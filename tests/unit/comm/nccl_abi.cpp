// Compares what we declare of NCCL with its header, and finds its functions. Built and run by
// nccl_abi.py.

#include <cstddef>
#include <cstdio>
#include <nccl.h>
#include <type_traits>

#include "runtime/comm/nccl/library.h"

namespace nccl = adaptdl::comm::nccl;

static_assert(sizeof(nccl::UniqueId) == sizeof(ncclUniqueId));
static_assert(nccl::kSuccess == ncclSuccess && nccl::kInProgress == ncclInProgress);
static_assert(offsetof(nccl::Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(nccl::Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(nccl::Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(nccl::Config, cga_cluster_size) == offsetof(ncclConfig_t, cgaClusterSize));
static_assert(offsetof(nccl::Config, min_ctas) == offsetof(ncclConfig_t, minCTAs));
static_assert(offsetof(nccl::Config, max_ctas) == offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(nccl::Config, net_name) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(nccl::Config, split_share) == offsetof(ncclConfig_t, splitShare));
static_assert(nccl::Config::kUnset == NCCL_CONFIG_UNDEF_INT);
static_assert(NCCL_VERSION(2, 18, 0) == nccl::kLeastVersion);
// As number_of() has them.
static_assert(ncclFloat32 == 7 && ncclFloat64 == 8 && ncclFloat16 == 6 && ncclBfloat16 == 9 &&
              ncclInt64 == 4 && ncclInt32 == 2 && ncclUint8 == 1 && ncclSum == 0 && ncclAvg == 4);

namespace {

// Our type for one of the header, which is passed alike.
template <typename T>
struct Translated {
  using type = std::conditional_t<std::is_enum_v<T>, int, T>;
};
template <>
struct Translated<ncclUniqueId> {
  using type = nccl::UniqueId;
};
template <>
struct Translated<ncclUniqueId*> {
  using type = nccl::UniqueId*;
};
template <>
struct Translated<ncclConfig_t*> {
  using type = nccl::Config*;
};
template <>
struct Translated<ncclResult_t*> {
  using type = int*;
};
template <>
struct Translated<ncclComm_t> {
  using type = void*;
};
template <>
struct Translated<ncclComm_t*> {
  using type = void**;
};
template <>
struct Translated<cudaStream_t> {
  using type = void*;
};
template <typename T>
using ours = typename Translated<T>::type;

template <typename Result, typename... Arguments>
ours<Result> (*translated(Result (*)(Arguments...)))(ours<Arguments>...);

template <auto Function, typename Member>
constexpr bool same(Member nccl::Library::*) {
  return std::is_same_v<decltype(translated(Function)), Member>;
}

static_assert(same<&ncclGetUniqueId>(&nccl::Library::get_unique_id));
static_assert(same<&ncclCommInitRankConfig>(&nccl::Library::init));
static_assert(same<&ncclCommGetAsyncError>(&nccl::Library::get_async_error));
static_assert(same<&ncclAllReduce>(&nccl::Library::all_reduce));
static_assert(same<&ncclBroadcast>(&nccl::Library::broadcast));
static_assert(same<&ncclCommAbort>(&nccl::Library::abort));
static_assert(same<&ncclGetErrorString>(&nccl::Library::error_text));
static_assert(same<&ncclGetLastError>(&nccl::Library::last_error));

}  // namespace

int main() {
  const nccl::Library* library = nccl::load();
  nccl::UniqueId id{};
  if (library == nullptr || library->version != NCCL_VERSION_CODE ||
      library->get_unique_id(&id) != nccl::kSuccess || library->error_text(2)[0] == '\0') {
    std::puts("libnccl.so.2 is not what its header says");
    return 1;
  }
  std::printf("NCCL %d\n", library->version);
  return 0;
}
