// What one GPU shows of NCCL: its functions, types and streams, in a group of one.

#include <cstdio>

#include "core/base/error.h"
#include "runtime/comm/nccl/nccl_communicator.h"
#include "runtime/parallel/side_stream.h"
#include "runtime/parallel/torch_device.h"
#include "runtime/session/device.h"
#include "runtime/torch_compat.h"

using namespace adaptdl;

namespace {

void sum(comm::Communicator& group, at::ScalarType type, comm::Type named) {
  const auto options = at::TensorOptions().device(at::kCUDA, 0);
  // Made on the default stream, summed on another one.
  const SideStream side(options.device());
  at::Tensor values = at::ones({1 << 22}, options.dtype(type));
  for (int i = 0; i < 50; ++i) values.mul_(1).add_(i == 0 ? 2 : 0);
  {
    const SideStream::Scope scope(side, side.here());
    group.all_reduce(values.data_ptr(), static_cast<size_t>(values.numel()), named,
                     comm::Op::average, memory_of(values));
  }
  if (!values.eq(3).all().item<bool>()) fail("the mean of one {} is another", c10::toString(type));
}

}  // namespace

int main() try {
  const at::Device gpu = open_device("cuda:0");
  const comm::nccl::Library* library = comm::nccl::load();
  if (library == nullptr) fail("there is no NCCL");
  const auto device = torch_device(gpu);
  comm::nccl::Connector connector(*library, *device);
  for (int generation = 1; generation <= 3; ++generation) {
    const auto group = connector.connect(comm::alone(static_cast<uint64_t>(generation)), nullptr,
                                         Monotonic::now() + std::chrono::seconds(60));
    if (group->describe_links().find("NCCL") == std::string::npos) fail("NCCL does not connect");
    sum(*group, at::kFloat, comm::Type::f32);
    sum(*group, at::kDouble, comm::Type::f64);
    sum(*group, at::kHalf, comm::Type::f16);
    sum(*group, at::kBFloat16, comm::Type::bf16);
    sum(*group, at::kLong, comm::Type::i64);
    sum(*group, at::kInt, comm::Type::i32);
    at::Tensor state = at::full({300 << 20}, 7, at::TensorOptions().device(gpu).dtype(at::kByte));
    group->broadcast(state.data_ptr(), state.nbytes(), 0, true, memory_of(state));
    if (!state.eq(7).all().item<bool>()) fail("a broadcast of one changes it");
    group->abort("enough");
    bool over = false;
    try {
      sum(*group, at::kFloat, comm::Type::f32);
    } catch (const comm::Aborted&) {
      over = true;
    }
    if (!over) fail("abort does not end it");
  }
  std::printf("NCCL %d on %s\n", library->version, gpu_id(gpu).c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
