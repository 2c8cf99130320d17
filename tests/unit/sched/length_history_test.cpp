#include "core/sched/length_history.h"

#include <doctest/doctest.h>
#include <vector>

namespace adaptdl {
namespace {

TEST_CASE("the rank is the least service per job that ends") {
  CHECK(gittins_rank(std::vector<double>{100}, 0) == 100);
  CHECK(gittins_rank(std::vector<double>{100}, 60) == 40);
  // Nine of ten end within 1, for 10 in all; the last alone would need 1000.
  std::vector<double> mixed(9, 1.0);
  mixed.push_back(1000);
  CHECK(gittins_rank(mixed, 0) == doctest::Approx(10.0 / 9));
  CHECK(gittins_rank(mixed, 2) == 998);
  CHECK(gittins_rank(std::vector<double>{30, 10, 20}, 0) == 20);  // (10 + 20 + 30) / 3
}

TEST_CASE("a job beyond all lengths, or near one, is not about to end") {
  CHECK(gittins_rank(std::vector<double>{}, 50) == 50);
  CHECK(gittins_rank(std::vector<double>{100}, 250) == 250);
  CHECK(gittins_rank(std::vector<double>{100}, 99) == doctest::Approx(0.3 * 99));
}

TEST_CASE("a history tells of the same run, else of the same program, else nothing") {
  LengthHistory history;
  CHECK(history.empty());
  history.add({"train", "--epochs 1"}, 10);
  history.add({"train", "--epochs 9"}, 90);
  CHECK(*history.rank({"train", "--epochs 9"}, 0) == 90);
  CHECK(*history.rank({"train", "--epochs 1"}, 0) == 10);
  CHECK(*history.rank({"train", "--epochs 5"}, 0) == 20);  // (10 + 10) / 1
  CHECK_FALSE(history.rank({"test", "--epochs 9"}, 0));
}

TEST_CASE("only the newest jobs count") {
  LengthHistory history;
  for (size_t i = 0; i < LengthHistory::kNewest; ++i) history.add({"train", ""}, 10);
  for (size_t i = 0; i < LengthHistory::kNewest; ++i) history.add({"train", ""}, 70);
  CHECK(*history.rank({"train", ""}, 0) == 70);
  for (size_t i = 0; i < LengthHistory::kMost; ++i) history.add({"other", ""}, 5);
  CHECK_FALSE(history.rank({"train", ""}, 0));
}

TEST_CASE("names lose their last part") {
  CHECK(name_stem("digits-x2f9a") == "digits");
  CHECK(name_stem("my-digits-3") == "my-digits");
  CHECK(name_stem("digits") == "digits");
}

}  // namespace
}  // namespace adaptdl
