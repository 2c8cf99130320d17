#include "adaptdl/collective.h"

#include <cstring>

#include "core/base/error.h"
#include "runtime/session/env_place.h"
#include "runtime/standalone/group.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

// A tensor as bytes: its type, the number of its dimensions, these, its elements. The replicas run
// the same program, on processors of one byte order.
std::string encoded(const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().cpu().contiguous();
  std::vector<int64_t> head{static_cast<int64_t>(values.scalar_type()), values.dim()};
  head.insert(head.end(), values.sizes().begin(), values.sizes().end());
  const size_t bytes = head.size() * sizeof(int64_t);
  std::string text(bytes + values.nbytes(), '\0');
  std::memcpy(text.data(), head.data(), bytes);
  if (values.nbytes() > 0)
    std::memcpy(text.data() + bytes, values.const_data_ptr(), values.nbytes());
  return text;
}

at::Tensor decoded(const std::string& text) {
  std::vector<int64_t> head(2);
  const auto take = [&text](std::vector<int64_t>& numbers, size_t from, size_t count) {
    if (text.size() < (from + count) * sizeof(int64_t)) fail("a value is no tensor");
    numbers.resize(count);
    std::memcpy(numbers.data(), text.data() + from * sizeof(int64_t), count * sizeof(int64_t));
  };
  take(head, 0, 2);
  if (head[1] < 0 || head[1] > 64) fail("a value is no tensor");
  std::vector<int64_t> sizes;
  take(sizes, 2, static_cast<size_t>(head[1]));
  at::Tensor values = at::empty(sizes, static_cast<at::ScalarType>(head[0]));
  const size_t begin = (2 + sizes.size()) * sizeof(int64_t);
  if (text.size() != begin + values.nbytes()) fail("a value is no tensor");
  if (values.nbytes() > 0) std::memcpy(values.data_ptr(), text.data() + begin, values.nbytes());
  return values;
}

Combine element_wise(Reduction reduction) {
  return [reduction](const std::string& so_far, const std::string& next) {
    const at::Tensor a = decoded(so_far), b = decoded(next);
    if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) {
      fail("the replicas' values differ in type or shape: {} {} and {} {}",
           at::toString(a.scalar_type()), c10::str(a.sizes()), at::toString(b.scalar_type()),
           c10::str(b.sizes()));
    }
    switch (reduction) {
      case Reduction::max:
        return encoded(at::maximum(a, b));
      case Reduction::min:
        return encoded(at::minimum(a, b));
      default:
        return encoded(at::add(a, b));
    }
  };
}

std::string with_count(std::string text, int64_t count) {
  text.append(reinterpret_cast<const char*>(&count), sizeof count);
  return text;
}

int64_t count_of(const std::string& text) {
  int64_t count = 0;
  if (text.size() < sizeof count) fail("a value is no tensor");
  std::memcpy(&count, text.data() + text.size() - sizeof count, sizeof count);
  return count;
}

template <typename T>
at::Tensor tensor_of(const std::vector<T>& values, at::ScalarType type) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, type);
  std::copy(values.begin(), values.end(), tensor.data_ptr<T>());
  return tensor;
}

template <typename T>
std::vector<T> vector_of(const at::Tensor& tensor) {
  const T* first = tensor.const_data_ptr<T>();
  return {first, first + tensor.numel()};
}

}  // namespace

std::string Collectives::allreduce(const std::string& bytes, const Combine& combine) {
  return combined(bytes, combine);
}

at::Tensor Collectives::allreduce(const at::Tensor& values, Reduction reduction) {
  const at::NoGradGuard no_grad;
  if (reduction != Reduction::mean) {
    return decoded(combined(encoded(values), element_wise(reduction))).to(values.device());
  }
  // The number of values goes along: when the result comes, there may be other replicas.
  const auto add = element_wise(Reduction::sum);
  const std::string counted =
      combined(with_count(encoded(values), 1), [&add](const std::string& a, const std::string& b) {
        return with_count(
            add(a.substr(0, a.size() - sizeof(int64_t)), b.substr(0, b.size() - sizeof(int64_t))),
            count_of(a) + count_of(b));
      });
  const at::Tensor sum = decoded(counted.substr(0, counted.size() - sizeof(int64_t)));
  const bool exact = at::isFloatingType(sum.scalar_type()) || at::isComplexType(sum.scalar_type());
  const int64_t count = count_of(counted);
  return (exact ? at::div(sum, count) : at::div(sum, count, "trunc")).to(values.device());
}

std::vector<double> Collectives::allreduce(const std::vector<double>& values, Reduction reduction) {
  return vector_of<double>(allreduce(tensor_of(values, at::kDouble), reduction));
}

std::vector<int64_t> Collectives::allreduce(const std::vector<int64_t>& values,
                                            Reduction reduction) {
  return vector_of<int64_t>(allreduce(tensor_of(values, at::kLong), reduction));
}

double Collectives::allreduce(double value, Reduction reduction) {
  return allreduce(std::vector<double>{value}, reduction).front();
}

std::string Collectives::broadcast(const std::string& bytes) {
  // All bring theirs: another replica may be rank 0 before the call is over.
  return combined(bytes, [](const std::string& first, const std::string&) { return first; });
}

at::Tensor Collectives::broadcast(const at::Tensor& values) {
  return decoded(broadcast(encoded(values))).to(values.device());
}

double Collectives::broadcast(double value) {
  return broadcast(tensor_of<double>({value}, at::kDouble)).item<double>();
}

int64_t Collectives::broadcast_integer(int64_t value) {
  return broadcast(tensor_of<int64_t>({value}, at::kLong)).item<int64_t>();
}

struct Collective::Impl {
  explicit Impl(const standalone::Place& place) : group(place) {}
  standalone::Group group;
};

Collective::Collective(const CollectivePlace& place) {
  standalone::Place found = place_from_environment();
  if (place.master_addr != found.master_addr) found.supervisor_url.clear();
  found.master_addr = place.master_addr;
  found.master_port = place.master_port;
  found.rank = place.replica_rank;
  found.replicas = place.num_replicas;
  if (found.replicas < 1) {
    fail("Collective: num_replicas is {}, and must be 1 or more", found.replicas);
  }
  impl_ = std::make_unique<Impl>(found);
}

Collective::~Collective() = default;

int Collective::rank() const {
  return impl_->group.rank();
}
int Collective::replicas() const {
  return impl_->group.replicas();
}

std::string Collective::combined(const std::string& mine, const Combine& combine) {
  return impl_->group.fold(mine, combine);
}

void Collective::post(std::function<void()> task) {
  impl_->group.post(std::move(task));
}

}  // namespace adaptdl
