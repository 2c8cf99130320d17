#pragma once

// Values that replicas exchange, beside gradients: sums, maxima, what one of them has read.
//
//   adaptdl::Collective collective;                  // a program of its own, by ADAPTDL_*
//   double all = collective.allreduce(mine);
//
//   for (auto& batch : training.batches()) ...       // in the open loop (training.h)
//   double all = training.collective().allreduce(mine);
//
// All replicas make the same calls in the same order. Rank 0 combines the values in order of rank,
// so all get the same result to the last bit. Every replica's value goes to all: up to a gigabyte
// in sum, and meant for much less.

#include <concepts>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "adaptdl/env.h"
#include "adaptdl/version.h"

namespace adaptdl {

// mean: of integers, truncated towards zero. max, min: a NaN anywhere makes the result NaN.
enum class Reduction { sum, mean, max, min };

// Bytes of the ranks so far, and of the next one. Called on rank 0; an exception from it is an
// error on all replicas.
using Combine = std::function<std::string(const std::string& so_far, const std::string& next)>;

// Errors are std::runtime_error: values of different types or shapes, a replica that is gone.
class Collectives {
 public:
  virtual ~Collectives() = default;
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  virtual int rank() const = 0;      // 0 to replicas() - 1
  virtual int replicas() const = 0;  // >= 1

  // The values of all replicas, combined.
  std::string allreduce(const std::string& bytes, const Combine& combine);
  // Element by element; without autograd, on the device and of the type of this replica's tensor.
  at::Tensor allreduce(const at::Tensor& values, Reduction reduction = Reduction::sum);
  std::vector<double> allreduce(const std::vector<double>& values,
                                Reduction reduction = Reduction::sum);
  std::vector<int64_t> allreduce(const std::vector<int64_t>& values,
                                 Reduction reduction = Reduction::sum);
  double allreduce(double value, Reduction reduction = Reduction::sum);
  template <std::integral Integer>
  int64_t allreduce(Integer value, Reduction reduction = Reduction::sum) {
    return allreduce(std::vector<int64_t>{static_cast<int64_t>(value)}, reduction).front();
  }

  // The value of rank 0; those of others do not count.
  std::string broadcast(const std::string& bytes);
  at::Tensor broadcast(const at::Tensor& values);  // on the device of this replica's tensor
  double broadcast(double value);
  template <std::integral Integer>
  int64_t broadcast(Integer value) {
    return broadcast_integer(static_cast<int64_t>(value));
  }

 protected:
  Collectives() = default;

 private:
  virtual std::string combined(const std::string& mine, const Combine& combine) = 0;
  int64_t broadcast_integer(int64_t value);
};

// Where the replicas of a Collective meet; by default what the variables say (adaptdl/env.h).
struct CollectivePlace {
  std::string master_addr = env::master_addr();  // host of rank 0
  int master_port = env::master_port();          // a TCP port that is free there
  int replica_rank = env::replica_rank();
  int num_replicas = env::num_replicas();
};

// Replicas of a program that does not train with this library; of one that does, see
// Training::collective(). A port serves one object at a time.
//
// Any thread may call, but the order of the calls must be the same on all replicas: use one thread.
// When a replica dies or destroys its object, the calls of others that wait for it throw, and all
// later ones.
class Collective : public Collectives {
 public:
  // Blocks until all replicas are there. With ADAPTDL_SUPERVISOR_URL and no master_addr of the
  // program's own, the supervisor is asked for rank 0. Throws if the place is invalid, if rank 0
  // refuses this replica, or after ADAPTDL_JOIN_TIMEOUT seconds (default 600).
  explicit Collective(const CollectivePlace& place = {});
  ~Collective() override;  // after the calls that have begun

  int rank() const override;
  int replicas() const override;

  // As allreduce() of the same arguments, in the background. The futures become ready in the order
  // of the calls.
  template <typename... Arguments>
  auto allreduce_async(Arguments... arguments) {
    using Result = decltype(allreduce(arguments...));
    auto task = std::make_shared<std::packaged_task<Result()>>(
        [this, ... values = std::move(arguments)] { return allreduce(values...); });
    std::future<Result> result = task->get_future();
    post([task] { (*task)(); });
    return result;
  }

 private:
  std::string combined(const std::string& mine, const Combine& combine) override;
  void post(std::function<void()> task);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace adaptdl
