#include "runtime/session/precision.h"

#include <doctest/doctest.h>

#include "runtime/torch_compat.h"

using namespace adaptdl;
using Precision = TrainingSpec::Precision;

TEST_CASE("autocast is on while the object exists, and only there") {
  const auto type = [] { return at::mm(at::ones({2, 3}), at::ones({3, 2})).scalar_type(); };
  for (const auto& [precision, expected] : {std::pair{Precision::fp32, at::kFloat},
                                            {Precision::bf16, at::kBFloat16},
                                            {Precision::fp16, at::kHalf}}) {
    {
      const Autocast autocast(at::kCPU, precision);
      CHECK((type() == expected));
    }
    CHECK((type() == at::kFloat));
  }
}

TEST_CASE("the loss scale: halved by an overflow, doubled by 2000 steps without one") {
  LossScale scale = LossScale::first(Precision::fp16);
  CHECK(scale.factor == 65536);
  scale = scale.after(Precision::fp16, false);
  CHECK(scale.factor == 32768);
  for (int step = 0; step < 1999; ++step) scale = scale.after(Precision::fp16, true);
  CHECK(scale.factor == 32768);
  scale = scale.after(Precision::fp16, true);
  CHECK(scale.factor == 65536);
  for (int step = 0; step < 100; ++step) scale = scale.after(Precision::fp16, false);
  CHECK(scale.factor == 1);
  for (int step = 0; step < 100'000; ++step) scale = scale.after(Precision::fp16, true);
  CHECK(scale.factor == 1 << 24);
  for (const auto precision : {Precision::fp32, Precision::bf16}) {
    CHECK(LossScale::first(precision).factor == 1);
    CHECK(LossScale::first(precision).after(precision, true).factor == 1);
    CHECK(LossScale::first(precision).after(precision, false).factor == 1);
  }
}
