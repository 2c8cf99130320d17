// Sparse gradients: training is the same as with dense ones, and touches only their rows.

#include "runtime/parallel/sparse_rows.h"

#include <cmath>
#include <doctest/doctest.h>
#include <mutex>

#include "runtime/comm/communicator.h"
#include "runtime/parallel/gradients.h"
#include "runtime/session/exchange.h"
#include "runtime/torch_compat.h"
#include "tests/unit/comm/group.h"

using namespace adaptdl;

namespace {

using Kind = OptimizerSpec::Kind;

struct Case {
  Kind kind = Kind::sgd;
  double momentum = 0, weight_decay = 0, clip_norm = 0, clip_value = 0;
  bool rows = true;  // suffice
};

OptimizerSpec spec_of(const Case& one) {
  OptimizerSpec spec;
  spec.kind = one.kind;
  spec.defaults = default_settings(one.kind);
  spec.defaults.lr = 0.1;
  spec.defaults.momentum = one.momentum;
  spec.defaults.weight_decay = one.weight_decay;
  spec.clip_norm = one.clip_norm;
  spec.clip_value = one.clip_value;
  return spec;
}

// A table of six rows, and a weight that every step uses.
struct Model {
  bool sparse;
  std::vector<NamedTensor> parameters = {
      {"table", at::linspace(-1, 1, 12, at::kDouble).view({6, 2}).set_requires_grad(true)},
      {"weight", at::ones({2}, at::kDouble).set_requires_grad(true)}};

  explicit Model(bool sparse) : sparse(sparse) {}

  at::Tensor& table() { return parameters[0].tensor; }
  at::Tensor loss(const std::vector<int64_t>& ids, bool all = false) {
    const at::Tensor rows = at::embedding(table(), at::tensor(ids, at::kLong), -1, false, sparse) *
                            parameters[1].tensor;
    const at::Tensor loss = at::sin(rows * 3).mean();
    return all ? loss + table().square().mean() : loss;
  }
};

// What the passes of replica `rank` look up in `step`; the last replica has nothing in step 2.
std::vector<int64_t> ids_of(int step, int rank, int pass) {
  return {step % 6, (step + rank) % 6, 3, 3, (2 * step + pass) % 6};
}

struct Trained {
  at::Tensor table;
  std::vector<double> norms;
  bool sparse = true;  // the table's gradient, in all steps
};

Trained train(const Case& one, comm::Communicator* communicator, int passes, bool sparse,
              int steps = 6) {
  const int rank = communicator ? communicator->rank() : 0;
  Model model(sparse);
  Optimizer optimizer(spec_of(one), model.parameters);
  Gradients gradients(model.parameters, optimizer, {.bucket_bytes = 1, .first_bucket_bytes = 1});
  model.loss({0}).backward();  // the trial
  gradients.clear();
  Trained result;
  for (int step = 0; step < steps; ++step) {
    const bool samples = !(step == 2 && communicator && rank == communicator->size() - 1);
    const bool measure = step % 4 != 3;
    gradients.begin(communicator, passes, measure);
    for (int pass = 0; pass < passes; ++pass) {
      gradients.begin_micro_step(pass, samples ? 1.0 / passes : 0.0);
      const bool all = step == 4;
      if (samples) (model.loss(ids_of(step, rank, pass), all) / passes).backward();
      gradients.end_micro_step();
    }
    gradients.finish();
    CHECK(gradients.finite());
    StepReport report;
    report.used = gradients.used();
    if (communicator) gradients.drop_unused(exchange(communicator, report).used);
    const bool is_sparse = model.table().grad().is_sparse();
    result.sparse &= is_sparse || (step == 4 && passes == 1 && !communicator);
    const GroupNorms& norms = gradients.norms().at(0);
    for (const double norm : {norms.total, norms.local, norms.previous, norms.product}) {
      if (measure) result.norms.push_back(norm);
    }
    if (!communicator && passes == 1) gradients.remember(one.clip_norm + one.clip_value > 0);
    optimizer.step({1.0});
  }
  result.table = model.table().detach();
  return result;
}

const Case kCases[] = {{Kind::sgd},
                       {Kind::sgd, 0, 0, 0.05, 0},
                       {Kind::sgd, 0, 0, 0, 0.02},
                       {Kind::adagrad},
                       {Kind::sgd, 0.9, 0, 0, 0, false},
                       {Kind::sgd, 0, 0.01, 0, 0, false},
                       {Kind::adam, 0, 0, 0, 0, false}};

void check_like_dense(comm::Communicator* communicator) {
  for (const Case& one : kCases) {
    for (const int passes : {1, 2}) {
      CAPTURE(static_cast<int>(one.kind));
      CAPTURE(passes);
      const Trained dense = train(one, communicator, passes, false);
      const Trained sparse = train(one, communicator, passes, true);
      CHECK_FALSE(dense.sparse);
      CHECK(sparse.sparse == one.rows);
      CHECK(at::allclose(sparse.table, dense.table, 1e-12, 1e-12));
      REQUIRE(sparse.norms.size() == dense.norms.size());
      for (size_t i = 0; i < dense.norms.size(); ++i) {
        CHECK(sparse.norms[i] == doctest::Approx(dense.norms[i]).epsilon(1e-9));
      }
    }
  }
}

void in_group(int size, const std::function<void(comm::Communicator&)>& body) {
  comm::testing::with_group(comm::testing::one_host(size), body);
}

}  // namespace

TEST_CASE("a lone replica trains with sparse gradients as with dense ones") {
  check_like_dense(nullptr);
}

TEST_CASE("replicas train with sparse gradients as with dense ones") {
  in_group(2, [](comm::Communicator& communicator) { check_like_dense(&communicator); });
}

TEST_CASE("rows that no gradient names stay as they are, with their state") {
  for (const Kind kind : {Kind::sgd, Kind::adagrad}) {
    Model model(true);
    Optimizer optimizer(spec_of({kind}), model.parameters);
    const at::Tensor before = model.table().detach().clone();
    const int64_t version = model.table()._version();
    Gradients gradients(model.parameters, optimizer);
    gradients.begin(nullptr, 1, false);
    gradients.begin_micro_step(0, 1);
    model.loss({4, 1, 4}).backward();
    gradients.end_micro_step();
    gradients.finish();
    CHECK(at::equal(model.table().grad()._indices()[0], at::tensor({1, 4}, at::kLong)));
    optimizer.step({1.0});
    const at::Tensor changed = (model.table().detach() != before).any(1);
    CHECK(at::equal(changed.nonzero().flatten(), at::tensor({1, 4}, at::kLong)));
    CHECK(model.table()._version() > version);  // autograd notices that it changed
  }
}

TEST_CASE("a sparse gradient with a number that is not finite is noticed") {
  for (const int passes : {1, 2}) {
    for (const bool measure : {false, true}) {
      Model model(true);
      Optimizer optimizer(spec_of({}), model.parameters);
      Gradients gradients(model.parameters, optimizer);
      {
        const at::NoGradGuard no_grad;
        model.table()[3][1].fill_(INFINITY);
      }
      for (const int64_t row : {2, 3}) {
        gradients.begin(nullptr, passes, measure);
        for (int pass = 0; pass < passes; ++pass) {
          gradients.begin_micro_step(pass, 1.0 / passes);
          (model.loss({row, 1}) / passes).backward();
          gradients.end_micro_step();
        }
        gradients.finish();
        CHECK(gradients.finite() == (row == 2));
      }
    }
  }
}

TEST_CASE("averaged rows are bitwise the same on all replicas, and what a dense average would be") {
  std::mutex mutex;
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    std::vector<at::Tensor> results;
    in_group(3, [&](comm::Communicator& communicator) {
      const at::Tensor table = at::zeros({1000, 3}, type), none = at::zeros({5, 2}, type);
      const auto part = [&](int rank) {  // random rows, some of them more than once
        const at::Tensor ids = (at::arange(400) * (7 + 4 * rank) + rank).remainder(900);
        const at::Tensor values =
            at::sin(at::arange(1200, at::kDouble) * (rank + 1)).view({400, 3});
        return rows_of(at::sparse_coo_tensor(ids.unsqueeze(0), values.to(type), table.sizes()));
      };
      const bool has = communicator.rank() != 1;
      const auto means =
          average_rows(communicator, {none, table},
                       {at::Tensor(), has ? part(communicator.rank()) : at::Tensor()});
      REQUIRE(means.size() == 2);
      CHECK(means[0]._nnz() == 0);
      CHECK(means[1].is_coalesced());
      const std::lock_guard lock(mutex);
      const auto wide = type == at::kDouble ? at::kDouble : at::kFloat;
      const at::Tensor wanted = part(0).to_dense().to(wide) + part(2).to_dense().to(wide);
      CHECK(at::equal(means[1].to_dense(), (wanted / 3).to(type)));
      results.push_back(means[1]);
    });
    REQUIRE(results.size() == 3);
    for (const at::Tensor& result : results) {
      CHECK(at::equal(result._indices(), results[0]._indices()));
      CHECK(at::equal(result._values(), results[0]._values()));
    }
  }
}
