// A body that a program sends to PUT /hints.

#include <cmath>

#include "core/base/error.h"
#include "core/job/hints.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    std::vector<std::string> ignored;
    const SchedulingHints hints = parse_hints(fuzz_text(data, size), "hints", ignored);
    std::vector<std::string> none;
    ADAPTDL_CHECK(parse_hints(dump_json(to_json(hints)), "again", none) == hints && none.empty());

    // What was accepted a scheduler can compute with.
    const JobHints job = job_hints(hints);
    const PerfParams perf = job.perf.value_or(PerfParams{});
    const GradParams grad = job.grad.value_or(GradParams{});
    ADAPTDL_CHECK(job.max_profiled_replicas >= 0);
    if (job.batch) {
      const GoodputModel model(perf, grad, job.batch->initial);
      for (const int replicas : {1, 2, 64}) {
        const BatchChoice choice = model.optimize(1, replicas, *job.batch);
        ADAPTDL_CHECK(choice.atomic >= 1 && choice.goodput >= 0 && std::isfinite(choice.goodput));
      }
    }
  } catch (const Error&) {
    // refused
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {{R"({"initBatchSize": 128, "localBszBounds": [32, 256], "globalBatchSize": null,
"maxBatchSize": 2048, "maxProfiledReplicas": 2, "gradientAccumulation": true,
"gradParams": {"norm": 0.041, "var": 0.5}, "perfParams": {"alpha_c": 0.031, "beta_c": 0.0005,
"alpha_n": 1.1e-08, "beta_n": 1.1e-08, "alpha_r": 1e-08, "beta_r": 1e-08, "gamma": 1.000999}})",
           R"({"initBatchSize": 8, "localBszBounds": [null, 16], "maxBatchSize": null,
"gradParams": null, "perfParams": null, "trainMetrics": {"loss": 0.5}, "remainingProgress": 100,
"rescaleCost": 7.25, "accelerator": "T4", "accelerators": {"T4": {"maxLocalBsz": 8, "perfParams":
{"alpha_c": 1, "beta_c": 1, "alpha_n": 0, "beta_n": 0, "alpha_r": 0, "beta_r": 0, "gamma": 1}}},
"more": [1, {"x": NaN}]})"},
          {"NaN",
           "Infinity",
           "-Infinity",
           "null",
           "true",
           "-1",
           "0",
           "1e308",
           "1e-320",
           "9223372036854775807",
           "18446744073709551615",
           "1000000000000",
           "[",
           "]",
           "{",
           "}",
           "\"",
           "\\",
           ",",
           ":",
           "\"var\": ",
           "\"gamma\": 10",
           "\"initBatchSize\": "}};
}
