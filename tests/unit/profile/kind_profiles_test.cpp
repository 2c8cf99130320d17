#include "runtime/profile/kind_profiles.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace adaptdl {
namespace {

void train(KindProfiles& profiles, const std::vector<std::string>& on, double optim_s) {
  profiles.train_on(on);
  StepTiming step;
  step.replicas = static_cast<int>(on.size());
  step.atomic = 8;
  step.optim_s = optim_s;
  for (int i = 0; i < 12; ++i) profiles.present().record(step);
}

TEST_CASE("what was measured on one kind says nothing about another, and is there on return") {
  KindProfiles profiles;
  CHECK(profiles.fits().empty());
  train(profiles, {"T4"}, 0.4);
  const auto slow = profiles.fit();
  REQUIRE(slow);
  CHECK(profiles.steps(1, 1, 8) == 10);

  CHECK(profiles.train_on({"A100"}));
  CHECK_FALSE(profiles.train_on({"A100"}));
  CHECK_FALSE(profiles.fit());
  CHECK(profiles.steps(1, 1, 8) == 0);
  train(profiles, {"A100"}, 0.1);
  CHECK(profiles.fits().size() == 2);
  CHECK(profiles.fits().at("T4") == *slow);
  CHECK_FALSE(profiles.fit() == slow);

  CHECK(profiles.train_on({"T4"}));
  CHECK(profiles.fit() == slow);
  CHECK(profiles.steps(1, 1, 8) == 10);
}

TEST_CASE("replicas on unlike accelerators are a kind of their own") {
  KindProfiles profiles;
  CHECK_FALSE(profiles.train_on({"T4", "A100"}));
  CHECK(profiles.kind() == "A100+T4");
  CHECK_FALSE(profiles.train_on({"A100", "T4"}));
  train(profiles, {"T4", "A100"}, 0.3);
  CHECK(profiles.max_replicas() == 2);
  CHECK(profiles.train_on({"T4"}));
  CHECK_FALSE(profiles.fit());
  CHECK(profiles.max_replicas() == 2);
}

TEST_CASE("each kind has its own limit of memory; the smallest of the replicas' counts") {
  KindProfiles profiles;
  profiles.train_on({"T4"});
  CHECK(profiles.limit() == 0);
  profiles.limit("T4", 16);
  profiles.limit("T4", 0);
  profiles.limit("T4", 32);
  CHECK(profiles.limit() == 16);
  profiles.train_on({"A100"});
  CHECK(profiles.limit() == 0);
  profiles.limit("A100", 64);
  profiles.train_on({"A100", "T4", "P4"});
  CHECK(profiles.limit() == 16);
  CHECK(profiles.limit_of("A100") == 64);
  CHECK(profiles.limit_of("P4") == 0);
}

TEST_CASE("saved and loaded, the kinds are the same") {
  KindProfiles profiles;
  train(profiles, {"T4"}, 0.4);
  train(profiles, {"A100"}, 0.1);
  profiles.limit("T4", 16);
  KindProfiles loaded;
  loaded.train_on({"T4"});
  loaded.load(profiles.to_json());
  loaded.load_limits(profiles.limits_to_json());
  CHECK(loaded.to_json() == profiles.to_json());
  CHECK(loaded.fits() == profiles.fits());
  CHECK(loaded.limit() == 16);
}

TEST_CASE("what an earlier version wrote is of the present kind") {
  KindProfiles before;
  train(before, {""}, 0.4);
  nlohmann::json saved = before.to_json();
  for (auto& mean : saved) mean.erase("accelerator");
  KindProfiles loaded;
  loaded.train_on({"T4"});
  loaded.load(saved);
  CHECK(loaded.fit() == before.fit());
  CHECK(loaded.fits().contains("T4"));
}

TEST_CASE("damaged state is refused") {
  KindProfiles profiles;
  CHECK_THROWS_AS(profiles.load({{"nodes", 1}}), Error);
  CHECK_THROWS_AS(profiles.load({{{"nodes", 1}, {"accelerator", 4}}}), Error);
  CHECK_THROWS_AS(profiles.load_limits(nlohmann::json::array()), Error);
  CHECK_THROWS_AS(profiles.load_limits({{"T4", 0}}), Error);
  CHECK_THROWS_AS(profiles.load_limits({{"T4", "many"}}), Error);
}

}  // namespace
}  // namespace adaptdl
