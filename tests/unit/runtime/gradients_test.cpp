// Gradients: whatever way they come, what arrives at the parameters is their mean.

#include "runtime/parallel/gradients.h"

#include <doctest/doctest.h>
#include <mutex>
#include <numeric>

#include "runtime/parallel/buffers.h"
#include "runtime/parallel/gradient_sums.h"
#include "runtime/session/exchange.h"
#include "runtime/torch_compat.h"
#include "tests/unit/comm/group.h"

using namespace adaptdl;

namespace {

OptimizerSpec plain_sgd() {
  OptimizerSpec spec;
  spec.defaults.lr = 0.1;
  return spec;
}

// Four leaves of odd sizes; `unused` is left out of the loss on request.
struct Model {
  std::vector<NamedTensor> parameters;
  explicit Model(at::ScalarType type = at::kFloat) {
    const std::vector<std::pair<const char*, std::vector<int64_t>>> shapes = {
        {"shared", {5, 5}}, {"bias", {5}}, {"unused", {3}}, {"out", {7, 5}}};
    for (const auto& [name, shape] : shapes) {
      const auto count =
          at::arange(at::tensor(at::IntArrayRef(shape)).prod().item<int64_t>(), type);
      parameters.push_back({name, at::sin(count).view(shape).to(type).set_requires_grad(true)});
    }
  }
  // `shared` is used three times.
  at::Tensor loss(const at::Tensor& x, bool use_all) const {
    const auto& p = parameters;
    at::Tensor h = at::tanh(at::linear(x, p[0].tensor, p[1].tensor));
    h = at::tanh(at::linear(h, p[0].tensor));
    h = at::linear(at::linear(h, p[0].tensor), p[3].tensor);
    at::Tensor result = h.pow(2).mean();
    return use_all ? result + p[2].tensor.pow(3).sum() * x.sum() : result;
  }
};

at::Tensor batch(int index) {
  return at::cos(at::arange(10, at::kFloat) + 3.0 * index).view({2, 5});
}

// The samples of each batch that a step uses; 2 is all of it.
using Shares = std::vector<int64_t>;

// Gradients by plain autograd of the mean over the shares' samples, of the batches from `first` on.
std::vector<at::Tensor> reference(int first, const Shares& shares,
                                  const std::function<bool(int)>& use_all) {
  Model model;
  const auto all = static_cast<double>(std::accumulate(shares.begin(), shares.end(), int64_t{0}));
  at::Tensor sum = at::zeros({});
  for (size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] == 0) continue;
    const int index = first + static_cast<int>(i);
    const at::Tensor part = batch(index).narrow(0, 0, shares[i]);
    sum = sum + model.loss(part, use_all(index)) * (static_cast<double>(shares[i]) / all);
  }
  sum.backward();
  std::vector<at::Tensor> result;
  for (const auto& parameter : model.parameters) result.push_back(parameter.tensor.grad());
  return result;
}

double squares(const at::Tensor& tensor) {
  return tensor.to(at::kDouble).pow(2).sum().item<double>();
}

// One optimizer step of rank's part of the shares, as many for each replica; compares with the
// reference.
void check_shares(comm::Communicator* communicator, Model& model, Gradients& gradients,
                  const Shares& shares, const std::function<bool(int)>& use_all) {
  const int rank = communicator ? communicator->rank() : 0;
  const int replicas = communicator ? communicator->size() : 1;
  const int passes = static_cast<int>(shares.size()) / replicas;
  const auto all = static_cast<double>(std::accumulate(shares.begin(), shares.end(), int64_t{0}));
  gradients.begin(communicator, passes, /*measure=*/true);
  double local = 0;
  for (int micro = 0; micro < passes; ++micro) {
    const int index = rank * passes + micro;
    const int64_t share = shares[static_cast<size_t>(index)];
    const double weight = static_cast<double>(replicas * share) / all;
    gradients.begin_micro_step(micro, weight);
    if (share > 0) {
      const at::Tensor part = batch(index).narrow(0, 0, share);
      (model.loss(part, use_all(index)) * weight).backward();
    }
    gradients.end_micro_step();
    if (share == 0) continue;
    for (const auto& gradient : reference(index, {share}, use_all)) {
      if (gradient.defined()) local += squares(gradient) * static_cast<double>(share) / all;
    }
  }
  gradients.finish();
  if (communicator) {
    StepReport report;
    report.used = gradients.used();
    gradients.drop_unused(exchange(communicator, report).used);
  }
  const auto expected = reference(0, shares, use_all);
  double total = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const at::Tensor got = model.parameters[i].tensor.grad();
    CAPTURE(model.parameters[i].name);
    if (!expected[i].defined()) {
      CHECK_FALSE(got.defined());
      continue;
    }
    total += squares(expected[i]);
    REQUIRE(got.defined());
    CHECK(at::allclose(got, expected[i], 1e-5, 1e-6));
  }
  const GroupNorms& norms = gradients.norms().at(0);
  CHECK(norms.total == doctest::Approx(total).epsilon(1e-4));
  // A lone gradient is compared with the step before it, so its own norm is `total`.
  if (shares.size() > 1) CHECK(norms.local == doctest::Approx(local).epsilon(1e-4));
  gradients.clear();
}

// The same with whole batches.
void check_step(comm::Communicator* communicator, Model& model, Gradients& gradients, int passes,
                const std::function<bool(int)>& use_all) {
  const int replicas = communicator ? communicator->size() : 1;
  check_shares(communicator, model, gradients, Shares(static_cast<size_t>(replicas * passes), 2),
               use_all);
}

void check_steps(comm::Communicator* communicator, size_t bucket_bytes) {
  Model model;
  const Optimizer optimizer(plain_sgd(), model.parameters);
  Gradients gradients(model.parameters, optimizer,
                      {.bucket_bytes = bucket_bytes, .first_bucket_bytes = bucket_bytes});
  const int rounds[] = {1, 1, 3, 1, 2};
  for (const int passes : rounds) {
    check_step(communicator, model, gradients, passes, [](int) { return true; });
    check_step(communicator, model, gradients, passes, [](int) { return false; });
    check_step(communicator, model, gradients, passes, [](int i) { return i % 2 == 0; });
  }
}

// doctest's assertions count under a lock, LibTorch's graph is per thread: two replicas fit in one
// process.
void in_group(int size, const std::function<void(comm::Communicator&)>& body) {
  comm::testing::with_group(comm::testing::one_host(size), body);
}

// A group of one that notes how many elements are reduced at once.
class Noting : public comm::Communicator {
 public:
  std::vector<size_t> take() { return std::exchange(counts_, {}); }

  int rank() const override { return 0; }
  int size() const override { return 1; }
  int hosts() const override { return 1; }
  uint64_t generation() const override { return alone_->generation(); }
  void all_reduce(void*, size_t count, comm::Type, comm::Op, comm::Memory) override {
    counts_.push_back(count);
  }
  void broadcast(void*, size_t, int, bool, comm::Memory) override {}
  void all_gather(const void* mine, size_t bytes, void* all) override {
    alone_->all_gather(mine, bytes, all);
  }
  void barrier() override {}
  void abort(const std::string&) noexcept override {}
  bool aborted() const override { return false; }
  std::optional<TimePoint> waiting_since() const override { return std::nullopt; }
  std::string describe_links() const override { return ""; }

 private:
  const std::unique_ptr<comm::Communicator> alone_ = comm::alone(1);
  std::vector<size_t> counts_;
};

}  // namespace

TEST_CASE("buckets go in the order in which gradients come, once that is known") {
  for (const bool tried : {false, true}) {
    std::vector<NamedTensor> parameters;
    for (const int64_t count : {1, 2, 3, 4}) {
      parameters.push_back({"p", at::ones({count}).set_requires_grad(true)});
    }
    const at::Tensor &a = parameters[0].tensor, &b = parameters[1].tensor,
                     &c = parameters[2].tensor;  // the fourth is not used
    const Optimizer optimizer(plain_sgd(), parameters);
    Gradients gradients(parameters, optimizer, {.bucket_bytes = 1, .first_bucket_bytes = 1});
    Noting group;
    const auto backward = [&] { ((b.sum() * c).sum() * a).sum().backward(); };
    if (tried) {
      backward();
      gradients.clear();
    }
    for (int step = 0; step < 3; ++step) {
      gradients.begin(&group, 1, false);
      gradients.begin_micro_step(0, 1);
      backward();
      gradients.end_micro_step();
      gradients.finish();
      CHECK(at::equal(a.grad(), at::full({1}, 6.0F)));
      CHECK(at::equal(b.grad(), at::full({2}, 3.0F)));
      CHECK(at::equal(c.grad(), at::full({3}, 2.0F)));
      const bool known = tried || step > 0;
      CHECK(group.take() ==
            (known ? std::vector<size_t>{1, 3, 2, 4} : std::vector<size_t>{4, 3, 2, 1}));
    }
  }
}

TEST_CASE("a lone replica: unused parameters, a parameter used three times, accumulation") {
  for (const size_t bucket_bytes : {size_t{1}, size_t{100}, size_t{25} << 20}) {
    check_steps(nullptr, bucket_bytes);
  }
}

TEST_CASE("two replicas: the mean, also of parameters that only one of them used") {
  for (const size_t bucket_bytes : {size_t{1}, size_t{100}, size_t{25} << 20}) {
    in_group(2,
             [&](comm::Communicator& communicator) { check_steps(&communicator, bucket_bytes); });
  }
}

TEST_CASE("shares that differ: the mean over samples, also beside a replica that has none") {
  const auto check = [](comm::Communicator* communicator, const std::vector<Shares>& steps) {
    Model model;
    const Optimizer optimizer(plain_sgd(), model.parameters);
    Gradients gradients(model.parameters, optimizer,
                        {.bucket_bytes = 100, .first_bucket_bytes = 100});
    for (const Shares& shares : steps) {
      check_shares(communicator, model, gradients, shares, [](int) { return true; });
      check_shares(communicator, model, gradients, shares, [](int) { return false; });
    }
  };
  check(nullptr, {{1}, {2, 1}, {2, 2, 1}});
  in_group(2, [&](comm::Communicator& communicator) {
    check(&communicator, {{2, 1}, {1, 0}, {2, 2, 2, 1}, {2, 1, 2, 0}, {2, 2}});
  });
}

TEST_CASE("gradients move from a lone replica to a group and back") {
  in_group(2, [&](comm::Communicator& communicator) {
    Model model;
    const Optimizer optimizer(plain_sgd(), model.parameters);
    Gradients gradients(model.parameters, optimizer);
    const auto always = [](int) { return true; };
    check_step(nullptr, model, gradients, 1, always);
    check_step(&communicator, model, gradients, 1, always);
    check_step(nullptr, model, gradients, 2, always);
    check_step(&communicator, model, gradients, 2, always);
    check_step(nullptr, model, gradients, 1, always);
  });
}

TEST_CASE("a lone replica's successive gradients are compared") {
  Model model;
  const Optimizer optimizer(plain_sgd(), model.parameters);
  Gradients gradients(model.parameters, optimizer);
  for (int step = 0; step < 3; ++step) {
    const bool had_previous = gradients.has_previous();
    CHECK(had_previous == (step > 0));
    gradients.begin(nullptr, 1, true);
    gradients.begin_micro_step(0, 1.0);
    model.loss(batch(step), true).backward();
    gradients.end_micro_step();
    gradients.finish();
    if (had_previous) {
      const auto before = reference(step - 1, {2}, [](int) { return true; });
      const auto now = reference(step, {2}, [](int) { return true; });
      double previous = 0, product = 0;
      for (size_t i = 0; i < now.size(); ++i) {
        previous += squares(before[i]);
        product += (before[i] * now[i]).to(at::kDouble).sum().item<double>();
      }
      CHECK(gradients.norms()[0].previous == doctest::Approx(previous).epsilon(1e-4));
      CHECK(gradients.norms()[0].product == doctest::Approx(product).epsilon(1e-4));
    }
    gradients.remember(/*copy=*/step == 1);
  }
  gradients.forget();
  CHECK_FALSE(gradients.has_previous());
}

TEST_CASE("parameters of several types, each in its own bucket") {
  in_group(2, [&](comm::Communicator& communicator) {
    std::vector<NamedTensor> parameters = {
        {"half", at::ones({4}, at::kBFloat16).set_requires_grad(true)},
        {"double", at::ones({3}, at::kDouble).set_requires_grad(true)},
        {"float", at::ones({2}, at::kFloat).set_requires_grad(true)}};
    const Optimizer optimizer(plain_sgd(), parameters);
    Gradients gradients(parameters, optimizer);
    gradients.begin(&communicator, 1, true);
    gradients.begin_micro_step(0, 1.0);
    const double factor = communicator.rank() == 0 ? 1.0 : 3.0;
    at::Tensor loss = at::zeros({}, at::kDouble);
    for (const auto& parameter : parameters) {
      loss = loss + parameter.tensor.to(at::kDouble).sum() * factor;
    }
    loss.backward();
    gradients.end_micro_step();
    gradients.finish();
    for (const auto& parameter : parameters) {
      CAPTURE(parameter.name);
      CHECK((parameter.tensor.grad().scalar_type() == parameter.tensor.scalar_type()));
      CHECK(at::allclose(parameter.tensor.grad(), at::full_like(parameter.tensor, 2.0).detach()));
    }
    CHECK(gradients.norms()[0].total == doctest::Approx(4.0 * 9));
  });
}

TEST_CASE("models with gradients of their own: norms count for the optimizer's groups") {
  const std::vector<NamedTensor> all = {{"first", at::ones({3}).set_requires_grad(true)},
                                        {"second", at::ones({2}).set_requires_grad(true)}};
  OptimizerSpec spec = plain_sgd();
  spec.groups.push_back({.match = "second", .settings = spec.defaults});
  const Optimizer optimizer(spec, all);
  Gradients first({all[0]}, optimizer), second({all[1]}, optimizer, {.first = 1});
  const auto step = [&](Gradients& gradients, const at::Tensor& loss, const at::Tensor& input) {
    gradients.begin(nullptr, 1, true);
    gradients.begin_micro_step(0, 1.0);
    loss.backward({}, std::nullopt, false, std::vector{input});
    gradients.end_micro_step();
    gradients.finish();
  };
  step(first, (all[0].tensor * all[1].tensor.sum()).sum(), all[0].tensor);
  CHECK(first.norms()[0].total == doctest::Approx(3 * 4));
  CHECK(first.norms()[1].total == 0);
  CHECK_FALSE(all[1].tensor.grad().defined());
  first.clear();
  step(second, (all[0].tensor.sum() * all[1].tensor).sum(), all[1].tensor);
  CHECK(second.norms()[0].total == 0);
  CHECK(second.norms()[1].total == doctest::Approx(2 * 9));
  CHECK_FALSE(all[0].tensor.grad().defined());
}

TEST_CASE("measuring changes neither gradients nor the optimizer's state, of any type") {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    CAPTURE(at::toString(type));
    const std::vector<NamedTensor> parameters = {
        {"p", at::linspace(1, 2, 12, type).set_requires_grad(true)}};
    OptimizerSpec spec = plain_sgd();
    spec.kind = OptimizerSpec::Kind::adam;
    Optimizer optimizer(spec, parameters);
    Gradients gradients(parameters, optimizer);
    for (int step = 0; step < 8; ++step) {  // preconditioned from the sixth on
      std::vector<at::Tensor> before;
      for (const auto& named : optimizer.state_tensors()) before.push_back(named.tensor.clone());
      gradients.begin(nullptr, 1 + step % 2, true);
      for (int micro = 0; micro < 1 + step % 2; ++micro) {
        gradients.begin_micro_step(micro, 1.0 / (1 + step % 2));
        parameters[0].tensor.sum().mul(1.0 / (1 + step % 2)).backward();
        gradients.end_micro_step();
      }
      gradients.finish();
      CHECK(at::equal(parameters[0].tensor.grad(), at::ones({12}, type)));
      for (size_t i = 0; i < before.size(); ++i) {
        CHECK(at::equal(optimizer.state_tensors()[i].tensor, before[i]));
      }
      gradients.remember(true);
      optimizer.step({1.0});
    }
  }
}

TEST_CASE("a broken generation comes out of finish(), and the next step is whole again") {
  comm::testing::Listeners listeners(comm::testing::one_host(2));
  comm::testing::in_threads(2, [&](int rank) {
    Model model;
    const Optimizer optimizer(plain_sgd(), model.parameters);
    Gradients gradients(model.parameters, optimizer,
                        {.bucket_bytes = 100, .first_bucket_bytes = 100});
    const auto always = [](int) { return true; };
    auto first = listeners.connect(rank, 1);
    check_step(first.get(), model, gradients, 1, always);
    check_step(first.get(), model, gradients, 1, always);  // begin() agrees on buckets until here
    if (rank == 1) {
      first.reset();  // gone before the step
    } else {
      gradients.begin(first.get(), 1, true);
      gradients.begin_micro_step(0, 1.0);
      model.loss(batch(0), true).backward();
      gradients.end_micro_step();
      CHECK_THROWS_AS(gradients.finish(), comm::Aborted);
    }
    const auto second = listeners.connect(rank, 2);
    check_step(second.get(), model, gradients, 1, always);
    check_step(second.get(), model, gradients, 3, always);
  });
}

TEST_CASE("types that cannot be reduced are refused") {
  std::vector<NamedTensor> parameters = {
      {"complex", at::ones({4}, at::kComplexFloat).set_requires_grad(true)}};
  const Optimizer optimizer(plain_sgd(), parameters);
  CHECK_THROWS_AS(Gradients(parameters, optimizer), Error);
}

TEST_CASE("buffers: the mean of what differs, and nothing lost of what does not") {
  in_group(3, [](comm::Communicator& communicator) {
    const double rank = communicator.rank();
    const auto complex = [](double real, double imaginary) {
      return at::complex(at::full({2}, real), at::full({2}, imaginary));
    };
    const std::vector<NamedTensor> buffers = {
        {"mean", at::full({2, 2}, rank)},
        {"wide", at::full({1}, 1e9 + 1.0 / 3, at::kDouble)},
        {"table", at::linspace(-3, 1e20, 1000)},
        {"mask", at::full({2}, -INFINITY)},
        {"complex", complex(rank, 1 - rank)},
        {"half", at::full({1}, 0.3, at::kHalf)},
        {"counter", at::full({}, 7 + communicator.rank(), at::kLong)},
        {"flags", at::tensor({rank == 1 ? 1 : 0, 0}, at::kLong).to(at::kBool)},
        {"strided", at::full({3, 2}, rank).t()},
        {"none", at::zeros({0})}};
    average_buffers(&communicator, buffers);
    CHECK(at::equal(buffers[0].tensor, at::ones({2, 2})));
    CHECK(buffers[1].tensor.item<double>() == doctest::Approx(1e9 + 1.0 / 3).epsilon(1e-15));
    CHECK(at::equal(buffers[2].tensor, at::linspace(-3, 1e20, 1000)));
    CHECK(at::equal(buffers[3].tensor, at::full({2}, -INFINITY)));
    CHECK(at::equal(buffers[4].tensor, complex(1, 0)));
    CHECK(at::equal(buffers[5].tensor, at::full({1}, 0.3, at::kHalf)));
    CHECK(buffers[6].tensor.item<int64_t>() == 9);
    CHECK(at::equal(buffers[7].tensor, at::tensor({1, 0}, at::kLong).to(at::kBool)));
    CHECK(at::equal(buffers[8].tensor, at::ones({2, 3})));
  });
}

namespace {

// Of any type and layout, some of them large, so that they come in pieces and several lists.
std::vector<at::Tensor> values_of_many_types(double shift) {
  const auto of = [shift](at::ScalarType type, at::IntArrayRef shape) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    return at::sin(at::arange(count, at::kDouble) + shift).view(shape).to(type);
  };
  return {of(at::kFloat, {7}),
          of(at::kDouble, {3, 50}),
          of(at::kBFloat16, {40, 30}),
          of(at::kHalf, {1000}),
          of(at::kFloat, {20, 30}).t(),
          at::empty({0}, at::kDouble),
          of(at::kBFloat16, {(int64_t{1} << 24) + 5})};
}

double dot_of(const at::Tensor& a, const at::Tensor& b, const at::Tensor& divisor) {
  const auto wide = [&](const at::Tensor& x) { return x.to(at::kDouble).div(divisor); };
  return (wide(a) * wide(b)).sum().item<double>();
}

}  // namespace

TEST_CASE("sums over many tensors of any types are those over each") {
  const auto first = values_of_many_types(0.1), second = values_of_many_types(0.7);
  for (const int64_t steps : {0, 3, 9}) {  // divided from the sixth update on
    CAPTURE(steps);
    GradientSums sums;
    double squares = 0, expected = 0;
    std::vector<gns::Dots> dots(first.size());
    std::vector<at::Tensor> divisors;
    for (size_t i = 0; i < first.size(); ++i) {
      const at::Tensor averages = steps == 0 ? at::Tensor() : second[i].square().add(0.25);
      const Preconditioner divisor = {averages, 0.9, 1e-3, steps};
      divisors.push_back(at::ones({}));
      if (steps > 5) {
        const double correction = 1 - std::pow(0.9, steps);
        divisors.back() = averages.to(at::kDouble).div(correction).sqrt().add(1e-3);
      }
      sums.add_squares(first[i], divisor, 0.5, squares);
      sums.add_dots(first[i], second[i], divisor, dots[i]);
      expected += 0.5 * dot_of(first[i], first[i], divisors[i]);
    }
    CHECK(sums.read());
    CHECK(squares == doctest::Approx(expected).epsilon(1e-6));
    for (size_t i = 0; i < first.size(); ++i) {
      CAPTURE(i);
      CHECK(dots[i].aa == doctest::Approx(dot_of(first[i], first[i], divisors[i])).epsilon(1e-6));
      CHECK(dots[i].bb == doctest::Approx(dot_of(second[i], second[i], divisors[i])).epsilon(1e-6));
      CHECK(dots[i].ab == doctest::Approx(dot_of(first[i], second[i], divisors[i])).epsilon(1e-6));
    }
  }
}

TEST_CASE("what is launched may change before it is read") {
  GradientSums sums;
  at::Tensor values = at::full({5}, 2.0, at::kDouble);
  double squares = 0;
  sums.add_squares(values, {}, 1, squares);
  sums.launch();
  values.fill_(HUGE_VAL);
  CHECK(squares == 0);
  CHECK(sums.read());
  CHECK(squares == doctest::Approx(20));
  sums.check(values);
  sums.clear();
  CHECK(sums.read());
}

TEST_CASE("many tensors of any types are finite if each of their numbers is") {
  const auto of = [](at::ScalarType type, double value) {
    return at::full({3, 50}, value, at::TensorOptions(type));
  };
  std::vector<at::Tensor> all{of(at::kHalf, -65504), of(at::kFloat, 3e38), of(at::kDouble, 1e300),
                              of(at::kBFloat16, 1), at::empty({0})};
  const auto finite = [](const std::vector<at::Tensor>& tensors) {
    GradientSums sums;
    for (const at::Tensor& each : tensors) sums.check(each);
    return sums.read();
  };
  CHECK(finite({}));
  CHECK(finite(all));
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    for (size_t i = 0; i < 4; ++i) {
      auto broken = all;
      broken[i] = all[i].clone();
      broken[i][1][7] = bad;
      CHECK(!finite(broken));
    }
  }
}
