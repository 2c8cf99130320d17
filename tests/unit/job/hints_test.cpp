#include "core/job/hints.h"

#include <doctest/doctest.h>

using namespace adaptdl;

namespace {

// What an AdaptDL 0.2.11 program sends.
const char* const kSent =
    R"({"initBatchSize": 128, "localBszBounds": [32, 256], "globalBatchSize": null, )"
    R"("maxBatchSize": 2048, "maxProfiledReplicas": 2, "gradientAccumulation": true, )"
    R"("gradParams": {"norm": 0.041, "var": 0.5}, "perfParams": {"alpha_c": 0.031, )"
    R"("beta_c": 0.0005, "alpha_n": 1.1000000000000001e-08, "beta_n": 1.1000000000000001e-08, )"
    R"("alpha_r": 1e-08, "beta_r": 1e-08, "gamma": 1.000999}})";

SchedulingHints parse(const std::string& text) {
  std::vector<std::string> ignored;
  return parse_hints(text, "hints", ignored);
}

// The message that the hints are refused with; "" when they are not.
std::string refusal(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// kSent with one field replaced.
std::string sent_with(const std::string& field, const std::string& value) {
  Json object = Json::parse(kSent);
  object[field] = "?";
  std::string text = object.dump();
  const std::string old = "\"" + field + "\":\"?\"";
  return text.replace(text.find(old), old.size(), "\"" + field + "\":" + value);
}

void check_refused(const std::string& field, const std::string& value, const std::string& part) {
  const std::string message = refusal(sent_with(field, value));
  INFO(field << ": " << value << ": '" << message << "'");
  CHECK(message.starts_with("hints: "));
  CHECK(message.find(part) != std::string::npos);
}

TEST_CASE("hints: what AdaptDL sends is understood") {
  const SchedulingHints hints = parse(kSent);
  CHECK(hints.initial_batch == 128);
  CHECK(hints.atomic_min == 32);
  CHECK(hints.atomic_max == 256);
  CHECK_FALSE(hints.global_batch);
  CHECK(hints.max_batch == 2048);
  CHECK(hints.max_profiled_replicas == 2);
  CHECK(hints.accumulation);
  CHECK(hints.grad == GradParams{0.041, 0.5});
  REQUIRE(hints.perf);
  CHECK(hints.perf->gamma == 1.000999);

  const JobHints job = job_hints(hints);
  CHECK(job.perf == hints.perf);
  CHECK(job.grad == hints.grad);
  REQUIRE(job.batch);
  CHECK(job.batch->initial == 128);
  CHECK(job.batch->max == 2048);
  CHECK(job.batch->atomic_min == 32);
  CHECK(job.batch->atomic_max == 256);
  CHECK(job.batch->accumulation);
  CHECK(job.max_profiled_replicas == 2);
}

TEST_CASE("hints: null, or nothing, is what a job does not know") {
  for (const char* field :
       {"initBatchSize", "localBszBounds", "globalBatchSize", "maxBatchSize", "maxProfiledReplicas",
        "gradientAccumulation", "gradParams", "perfParams", "remainingProgress", "rescaleCost",
        "trainMetrics", "halvesAlone"}) {
    CHECK(refusal(sent_with(field, "null")) == "");
  }
  CHECK(parse("{}") == SchedulingHints{});
  CHECK_FALSE(job_hints(parse("{}")).batch);
  CHECK(job_hints(parse(sent_with("maxBatchSize", "null"))).batch->max == 128);
  CHECK_FALSE(parse(sent_with("gradParams", "null")).grad);
  const SchedulingHints half = parse(sent_with("localBszBounds", "[null, 256]"));
  CHECK_FALSE(half.atomic_min);
  CHECK(half.atomic_max == 256);
  CHECK(job_hints(half).batch->atomic_min == 1);
  CHECK(job_hints(parse(sent_with("localBszBounds", "[4, null]"))).batch->atomic_max == 0);
}

TEST_CASE("hints: our own fields are optional") {
  SchedulingHints hints = parse(sent_with("remainingProgress", "12.5"));
  CHECK(hints.remaining_progress == 12.5);
  CHECK_FALSE(hints.rescale_cost_s);
  hints = parse(sent_with("rescaleCost", "0"));
  CHECK(job_hints(hints).rescale_cost_s == 0);
  hints = parse(sent_with("trainMetrics", R"({"loss": 0.5, "accuracy": null})"));
  CHECK(hints.train_metrics == std::map<std::string, double>{{"loss", 0.5}});
}

TEST_CASE("hints: a refusal names the field and says what is allowed") {
  check_refused("initBatchSize", "0",
                "initBatchSize: 0 is not allowed; it must be null or an integer");
  check_refused("initBatchSize", "128.0", "initBatchSize");
  check_refused("initBatchSize", "\"128\"", "initBatchSize");
  check_refused("initBatchSize", "true", "initBatchSize");
  check_refused("initBatchSize", "18446744073709551615", "initBatchSize");
  check_refused("initBatchSize", "1000000000000000", "initBatchSize");
  check_refused("maxBatchSize", "64", "maxBatchSize is 64; it must be at least initBatchSize, 128");
  check_refused("globalBatchSize", "-1", "globalBatchSize");
  check_refused("localBszBounds", "[32]", "localBszBounds");
  check_refused("localBszBounds", "[0, 3]", "localBszBounds");
  check_refused("localBszBounds", "[4, 3]", "the minimum 4 is above the maximum 3");
  check_refused("localBszBounds", "[4096, null]", "above the largest batch, 2048");
  check_refused("maxProfiledReplicas", "-1", "maxProfiledReplicas");
  check_refused("maxProfiledReplicas", "4294967297", "maxProfiledReplicas");
  check_refused("gradientAccumulation", "1", "gradientAccumulation");
  check_refused("gradParams", R"({"norm": 1})", "gradParams: var is missing");
  check_refused("gradParams", R"({"norm": -1, "var": 1})", "gradParams: norm");
  check_refused("gradParams", R"({"norm": 1e40, "var": 1})", "gradParams: 1e+40 is not allowed");
  check_refused("perfParams", "[]", "perfParams");
  check_refused("perfParams", R"({"alpha_c": 1})", "perfParams: beta_c is missing");
  check_refused("remainingProgress", "-1", "remainingProgress");
  check_refused("rescaleCost", "1e9", "rescaleCost: 1000000000.0 is not allowed");
  check_refused("trainMetrics", R"({"loss": "low"})", "trainMetrics");
  CHECK(refusal("[]") == "hints: must be an object, is array");
  CHECK(refusal("") != "");
  CHECK(refusal(std::string(100'000, ' ')).find("100000 bytes") != std::string::npos);
}

TEST_CASE("hints: Python's numbers that are not finite are refused by the name of their field") {
  check_refused("gradParams", R"({"norm": NaN, "var": 1})", "gradParams: norm is \"NaN\"");
  check_refused("gradParams", R"({"norm": 1, "var": Infinity})", "gradParams: var");
  check_refused("rescaleCost", "-Infinity", "rescaleCost: \"-Infinity\" is not allowed");
  check_refused("maxBatchSize", "NaN", "maxBatchSize");
  // Inside text they are text.
  std::vector<std::string> ignored;
  parse_hints(R"({"a NaN \" Infinity": 1})", "hints", ignored);
  CHECK(ignored == std::vector<std::string>{"a NaN \" Infinity"});
}

TEST_CASE("hints: unknown fields are ignored, and named") {
  std::vector<std::string> ignored;
  const auto hints = parse_hints(R"({"initBatchSize": 8, "zoom": [1], "alpha": {}})", "h", ignored);
  CHECK(hints.initial_batch == 8);
  CHECK(ignored == std::vector<std::string>{"alpha", "zoom"});
}

const char* const kPerf =
    R"({"alpha_c": 1, "beta_c": 0.5, "alpha_n": 0, "beta_n": 0, "alpha_r": 0, "beta_r": 0, )"
    R"("gamma": 1})";

TEST_CASE("hints: what a job knows of kinds of accelerators") {
  const std::string text = sent_with(
      "accelerators", fmt::format(R"({{"T4": {{"perfParams": {}, "maxLocalBsz": 16, "new": 1}}, )"
                                  R"("A100": {{"maxLocalBsz": null}}, "other": null}})",
                                  kPerf));
  const SchedulingHints hints = parse(text);
  REQUIRE(hints.accelerators.size() == 2);
  CHECK(hints.accelerators.at("T4").perf->beta_c == 0.5);
  CHECK(hints.accelerators.at("T4").atomic_max == 16);
  CHECK(hints.accelerators.at("A100") == AcceleratorHints{});
  CHECK(parse(dump_json(to_json(hints))) == hints);

  const JobHints job = job_hints(hints);
  CHECK(job.perf == hints.perf);
  REQUIRE(job.kinds.size() == 2);
  CHECK(job.kinds.at("T4").perf == hints.accelerators.at("T4").perf);
  CHECK(job.kinds.at("T4").atomic_max == 16);
  CHECK_FALSE(job.kinds.at("T4").speed);
  CHECK_FALSE(job.kinds.at("A100").perf);

  CHECK(parse(sent_with("accelerators", "null")).accelerators.empty());
  CHECK(parse(sent_with("accelerator", "\"T4\"")).accelerator == "T4");
  CHECK(parse(sent_with("accelerator", "null")).accelerator.empty());
  check_refused("accelerator", "4", "accelerator");
  check_refused("accelerator", "\"" + std::string(300, 'x') + "\"", "a kind has 300 bytes");
  check_refused("accelerators", "[]", "accelerators");
  check_refused("accelerators", R"({"T4": 1})", "accelerators");
  check_refused("accelerators", R"({"T4": {"perfParams": {"gamma": 1}}})", "alpha_c is missing");
  check_refused("accelerators", R"({"T4": {"maxLocalBsz": 0}})", "maxLocalBsz: 0 is not allowed");
  Json many = Json::object();
  for (int i = 0; i <= 64; ++i) many[std::to_string(i)] = nullptr;
  check_refused("accelerators", many.dump(), "at most 64 kinds");
}

TEST_CASE("hints: a job that knows nothing of kinds has measured that of its nodes") {
  const SchedulingHints told = parse(kSent);
  SchedulingHints kept = with_kinds(told, "T4", {});
  CHECK(kept.accelerator == "T4");
  CHECK(kept.accelerators.at("T4") == AcceleratorHints{told.perf, 256});
  // On other nodes it measures another kind; what it told of the first one stays.
  SchedulingHints faster = told;
  faster.perf->alpha_c /= 2;
  kept = with_kinds(faster, "A100", kept);
  CHECK(kept.accelerator == "A100");
  CHECK(kept.accelerators.at("A100").perf == faster.perf);
  CHECK(kept.accelerators.at("T4").perf == told.perf);
  // The newest of a kind counts.
  kept = with_kinds(faster, "T4", kept);
  CHECK(kept.accelerators.at("T4").perf == faster.perf);
  CHECK(with_kinds(told, std::nullopt, {}) == told);
}

TEST_CASE("hints: what a job says of kinds itself counts") {
  SchedulingHints told = parse(kSent);
  told.accelerator = "T4+A100";
  told.accelerators["T4"].atomic_max = 8;
  const SchedulingHints kept = with_kinds(told, "T4", {});
  CHECK(kept.accelerator == "T4+A100");
  CHECK(kept.accelerators.at("T4") == told.accelerators.at("T4"));
  // However many it has told of, what is kept can be read again.
  for (int i = 0; i < 63; ++i) told.accelerators[std::to_string(i)];
  CHECK(parse(dump_json(to_json(with_kinds(told, "A100", kept)))).accelerators.size() == 64);
}

TEST_CASE("the kind of replicas on unlike accelerators names them all") {
  CHECK(joined_kinds({"T4", "T4"}) == "T4");
  CHECK(joined_kinds({"T4", "A100", "T4"}) == "A100+T4");
  CHECK(joined_kinds({"T4", ""}).empty());
  CHECK(joined_kinds({}).empty());
}

TEST_CASE("hints: written and read back they are the same") {
  for (const std::string& text :
       {std::string(kSent), std::string("{}"), sent_with("localBszBounds", "[null, 7]"),
        sent_with("trainMetrics", R"({"loss": 0.1})"), sent_with("rescaleCost", "7.5"),
        sent_with("halvesAlone", "true")}) {
    const SchedulingHints hints = parse(text);
    CHECK(parse(dump_json(to_json(hints))) == hints);
  }
  CHECK(to_json(SchedulingHints{}).size() == 8);  // AdaptDL's own fields are always there
}

TEST_CASE("the cost of a restart, by when a program that does not tell it reports") {
  CHECK(estimated_restart_cost(280, {}) == 250);
  CHECK(estimated_restart_cost(310, 250) == 250);  // the next report says nothing new
  CHECK(estimated_restart_cost(40, 250) == 10);    // a later start was faster
  CHECK(estimated_restart_cost(12, {}) == 12);     // it does not wait for 30 s
  CHECK(estimated_restart_cost(-5, {}) == 0);      // the clock was set
  CHECK_FALSE(estimated_restart_cost(1e6, {}));    // it has run for long
}

}  // namespace
