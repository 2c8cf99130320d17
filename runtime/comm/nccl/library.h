#pragma once

// What we call of NCCL: its C functions by address, so that nothing is linked with it, and tests
// can put others in their place. The types are those of nccl.h (2.18 and later, one ABI;
// nccl_abi_test.cpp compares them with the header).

#include <cstddef>
#include <cstdint>
#include <string>

namespace adaptdl::comm::nccl {

struct UniqueId {
  char bytes[128];
};

// ncclResult_t; the others are errors.
inline constexpr int kSuccess = 0, kInProgress = 7;

// ncclConfig_t as far as 2.18 had it. NCCL takes the values that a newer one has by default.
struct Config {
  static constexpr int kUnset = INT32_MIN;
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = kUnset;
  int cga_cluster_size = kUnset;
  int min_ctas = kUnset;
  int max_ctas = kUnset;
  const char* net_name = nullptr;
  int split_share = kUnset;
};

inline constexpr int kLeastVersion = 21800;  // 2.18.0
std::string version_text(int version);       // "2.28.9" of 22809

// All functions but the last two return a result; a `comm` is theirs, a `stream` a cudaStream_t.
struct Library {
  int version = 0;  // 22809: 2.28.9
  int (*get_unique_id)(UniqueId* id) = nullptr;
  int (*init)(void** comm, int size, UniqueId id, int rank, Config* config) = nullptr;
  int (*get_async_error)(void* comm, int* result) = nullptr;
  int (*all_reduce)(const void* from, void* to, size_t count, int type, int op, void* comm,
                    void* stream) = nullptr;
  int (*broadcast)(const void* from, void* to, size_t count, int type, int root, void* comm,
                   void* stream) = nullptr;
  int (*abort)(void* comm) = nullptr;
  const char* (*error_text)(int result) = nullptr;
  const char* (*last_error)(void* comm) = nullptr;  // the comm may be null
};

// The library that LibTorch's CUDA has loaded, or that the linker finds as libnccl.so.2. Null if
// there is none, or one older than kLeastVersion. The same at every call.
const Library* load();

}  // namespace adaptdl::comm::nccl
