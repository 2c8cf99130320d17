#include "core/sim/profiles/profile.h"

#include <doctest/doctest.h>

#include "tests/unit/base/expect_error.h"
#include "tests/unit/sim/sample_profile.h"

using namespace adaptdl;

namespace {

// The sample after `change`.
template <typename F>
ProfileData changed(F&& change) {
  ProfileData data = sample_profile();
  change(data);
  return data;
}

StepTime at(const Profile& profile, Placement gpus, double atomic) {
  return profile.times().at(gpus, atomic);
}

}  // namespace

TEST_CASE("placements are equal up to rotation and empty nodes") {
  CHECK(canonical_placement(Placement{4, 1, 2}) == Placement{1, 2, 4});
  CHECK(canonical_placement(Placement{1, 4, 2}) == Placement{1, 4, 2});
  CHECK(canonical_placement(Placement{0, 2, 0, 1, 0}) == Placement{1, 2});
  CHECK(canonical_placement(Placement{2, 1, 2, 1, 1}) == Placement{1, 1, 2, 1, 2});
  CHECK(canonical_placement(Placement{}).empty());
}

TEST_CASE("a node list is a placement by the lengths of its runs") {
  CHECK(placement_of(std::vector<int>{}) == Placement{});
  CHECK(placement_of(std::vector<int>{3, 3, 1, 1, 1, 0}) == Placement{2, 3, 1});
  CHECK(placement_of(std::vector<int>{3, 1, 3}) == Placement{1, 1, 1});
}

TEST_CASE("a measured placement is linear in the batch and constant beyond its measurements") {
  const Profile profile(sample_profile());
  CHECK(at(profile, {2, 1}, 20) == StepTime{0.2, 0.1});
  CHECK(at(profile, {1, 2}, 15).step_s == doctest::Approx(0.15));
  CHECK(at(profile, {1, 2}, 30).sync_s == doctest::Approx(0.15));
  CHECK(at(profile, {1}, 5) == StepTime{0.1, 0});
  CHECK(at(profile, {0, 1}, 500) == StepTime{0.4, 0});
  CHECK(profile.times().measured(Placement{2, 0, 1}));
  CHECK_FALSE(profile.times().measured(Placement{3}));
}

TEST_CASE("another placement lies between sizes") {
  const Profile profile(changed([](ProfileData& data) {
    data.sizes = {{4, 8, 10, {0.3, 0.2}}, {4, 8, 40, {0.6, 0.4}}, {4, 4, 40, {0.5, 0.3}}};
  }));
  CHECK(at(profile, {2, 2, 2, 2}, 40) == StepTime{0.6, 0.4});
  CHECK(at(profile, {2, 2, 2, 2}, 25).step_s == doctest::Approx(0.45));
  CHECK(at(profile, {2, 2, 2, 1, 1}, 40) == StepTime{0.6, 0.4});  // as on four nodes
  CHECK(profile.times().interpolated(2, 4, 40) == StepTime{0.4, 0.2});
  CHECK(profile.max_replicas() == 8);
}

TEST_CASE("sizes on one node are extended to several by the step-time model") {
  const Profile profile(changed([](ProfileData& data) {
    std::erase_if(data.placements, [](const auto& m) { return m.gpus.size() > 1; });
  }));
  CHECK(profile.times().interpolation() == nullptr);
  CHECK(at(profile, {2}, 20) == StepTime{0.2, 0.1});
  const StepTime apart = at(profile, {1, 1}, 20), three = at(profile, {3}, 20);
  CHECK(apart.step_s == doctest::Approx(0.2).epsilon(0.1));
  CHECK(three.step_s == doctest::Approx(0.2).epsilon(0.1));
  CHECK(three.sync_s == doctest::Approx(0.1).epsilon(0.2));
}

TEST_CASE("bounds follow from the measurements, or are given") {
  const Profile plain(sample_profile());
  CHECK(plain.batch().initial == 20);
  CHECK(plain.batch().max == 80);
  CHECK(plain.batch().atomic_min == 10);
  CHECK(plain.batch().atomic_max == 40);
  CHECK(plain.batch().accumulation);
  CHECK(plain.max_replicas() == 4);
  CHECK_FALSE(plain.fixed_batch().has_value());

  const Profile given(changed([](ProfileData& data) {
    data.initial_batch = 16;
    data.max_batch = 60;
    data.atomic_min = 25;
    data.atomic_max = 30;
    data.fixed_batch = 60;
  }));
  CHECK(given.batch().initial == 16);
  CHECK(given.batch().max == 60);
  CHECK(given.batch().atomic_max == 30);
  CHECK(given.max_replicas() == 2);  // 25 samples for each
  CHECK(given.fixed_batch() == 60);
  CHECK(Profile(changed([](auto& data) { data.max_replicas = 3; })).max_replicas() == 3);
}

TEST_CASE("the limit of replicas is that of all kinds") {
  const auto with = [](std::optional<int> most) {
    return Profile(changed([&](ProfileData& data) {
             data.kinds = {{"a", data}};
             data.placements.clear();
             data.max_replicas = most;
           }))
        .max_replicas();
  };
  CHECK(with({}) == 4);
  CHECK(with(2) == 2);
  CHECK_ERROR(with(0), "sample: max_replicas is 0");
}

TEST_CASE("statistics lie between the neighbouring runs") {
  const Profile profile(sample_profile());
  CHECK(profile.epochs() == 2);
  CHECK(profile.grad(0, 20) == GradParams{4, 8});
  CHECK(profile.grad(0, 50) == GradParams{5, 6});
  CHECK(profile.grad(1, 1000) == GradParams{2, 4});
  CHECK(profile.grad(1, 1) == GradParams{2, 8});
  CHECK(profile.iterations(0, 35) == 85);
  CHECK(profile.iterations(1, 80) == 70);
  CHECK(profile.progress_at_end(0) == 100);
  CHECK(profile.progress_at_end(1) == 199);  // of the other run
}

TEST_CASE("measurements that contradict each other are refused") {
  const auto refused = [](auto&& change) {
    return error_of([&] { Profile profile(changed(change)); });
  };
  CHECK(contains(refused([](auto& d) { d.placements.clear(); }), "no placement was measured"));
  CHECK(contains(refused([](auto& d) { d.runs.clear(); }), "sample: no validation run"));
  CHECK(contains(refused([](auto& d) { d.runs[1].batch = 20; }), "at batch 20 is given twice"));
  CHECK(
      contains(refused([](auto& d) { d.runs[1].epochs.pop_back(); }), "all need the same number"));
  CHECK(contains(refused([](auto& d) { d.runs[0].epochs[1].progress = 100; }), "must grow"));
  CHECK(contains(refused([](auto& d) { d.runs[0].epochs[1].grad.sqr = -1; }), "at least 0"));
  CHECK(contains(refused([](auto& d) { d.placements[0].gpus = {}; }), "0 GPUs"));
  CHECK(contains(refused([](auto& d) { d.placements[0].gpus = {0, 1}; }), "0 GPUs on a node"));
  CHECK(contains(refused([](auto& d) { d.placements[0].time.step_s = 0; }), "the step takes 0 s"));
  CHECK(
      contains(refused([](auto& d) { d.placements[4].time.sync_s = 9; }), "from 0 to the step's"));
  CHECK(contains(refused([](auto& d) {
                   d.placements.push_back({{2, 1}, 10, {1, 0}});
                 }),
                 "placement 1+2 with 10 samples is given twice"));
  CHECK(contains(refused([](auto& d) { d.sizes = {{4, 3, 10, {1, 0}}}; }), "a replica on each"));
  CHECK(contains(refused([](auto& d) { d.sizes = {{2, 4, 10, {1, 0}}}; }), "is given twice"));
  CHECK(contains(refused([](auto& d) { d.max_batch = 10; }), "at least initial_batch, 20"));
  CHECK(contains(refused([](auto& d) { d.atomic_min = 50; }), "at least atomic_min, 50"));
  CHECK(contains(refused([](auto& d) { d.fixed_batch = 0; }), "fixed_batch is 0"));
  CHECK(contains(refused([](auto& d) { d.rescale_s = -1; }), "rescale_s is -1"));
  CHECK(contains(refused([](auto& d) { d.start_s = -1; }), "start_s is -1"));
  CHECK(contains(refused([](auto& d) { d.application = ""; }), "give it a name"));
}
