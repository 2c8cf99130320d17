// Exchanges values with other replicas that were started by hand, and trains nothing.
//
//   collective_program [die]
//
// Prints a line for each value. die: rank 1 ends after the first; the others say what they see.

#include <adaptdl/adaptdl.h>
#include <cstdio>
#include <exception>
#include <future>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

#include <torch/torch.h>

namespace {

void print(const std::string& what, double value) {
  std::printf("%s %g\n", what.c_str(), value);
  std::fflush(stdout);
}

void exchange(bool die) {
  adaptdl::Collective group;
  const int rank = group.rank();
  print("sum", group.allreduce(rank + 1.5));
  if (die && rank == 1) _exit(7);
  print("count", static_cast<double>(group.allreduce(1)));
  print("largest", static_cast<double>(group.allreduce(10 * rank, adaptdl::Reduction::max)));
  const auto both = group.allreduce(std::vector<double>{rank * 1.0, -1}, adaptdl::Reduction::min);
  print("smallest", both[0] + both[1]);
  const at::Tensor mean =
      group.allreduce(torch::full({2, 3}, rank, torch::kFloat), adaptdl::Reduction::mean);
  print("mean", mean.sum().item<double>());
  const auto longer = [](const std::string& a, const std::string& b) { return a + b; };
  std::printf("ranks %s\n", group.allreduce(std::to_string(rank), longer).c_str());
  std::printf("word %s\n", group.broadcast(rank == 0 ? std::string("first") : "none").c_str());
  std::vector<std::future<double>> later;
  for (int i = 0; i < 100; ++i) later.push_back(group.allreduce_async(static_cast<double>(i)));
  double sum = 0;
  for (auto& value : later) sum += value.get();
  print("later", sum);
  try {
    group.allreduce(torch::ones({rank + 1}));
  } catch (const std::runtime_error& error) {
    std::printf("refused %s\n", error.what());
  }
  print("still", group.allreduce(1.0));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    exchange(argc > 1 && std::string(argv[1]) == "die");
  } catch (const std::exception& error) {
    std::printf("error %s\n", error.what());
    return 3;
  }
  return 0;
}
