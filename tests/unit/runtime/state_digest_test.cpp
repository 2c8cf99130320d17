#include "runtime/session/state_digest.h"

#include <doctest/doctest.h>
#include <set>

#include "runtime/torch_compat.h"

namespace {

using namespace adaptdl;

std::vector<NamedTensor> copies(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> result;
  for (const auto& [name, tensor] : tensors) result.push_back({name, tensor.clone()});
  return result;
}

StateDigest digest_of(const std::vector<NamedTensor>& tensors) {
  return StateDigest([&tensors] { return tensors; });
}

// After how many steps from `begin` on two states give different numbers.
int64_t found_after(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b,
                    int64_t begin) {
  StateDigest ours = digest_of(a), theirs = digest_of(b);
  for (int64_t steps = 0; steps < StateDigest::kShares; ++steps) {
    if (ours.of(begin + steps) != theirs.of(begin + steps)) return steps;
  }
  return -1;
}

void flip(const at::Tensor& tensor, int64_t byte, int bit) {
  static_cast<unsigned char*>(tensor.mutable_data_ptr())[byte] ^=
      static_cast<unsigned char>(1 << bit);
}

}  // namespace

TEST_CASE("any bit that differs is found within a round, from any step on, and named") {
  at::manual_seed(1);
  const std::vector<NamedTensor> state = {{"small", at::randn({3})},
                                          {"half", at::randn({1001}).to(at::kHalf)},
                                          {"double", at::randn({700, 11}).to(at::kDouble)},
                                          {"columns", at::randn({40, 500}).t()}};
  CHECK(found_after(state, copies(state), 0) == -1);
  std::set<int64_t> when;
  for (size_t i = 0; i < state.size(); ++i) {
    const auto bytes = static_cast<int64_t>(state[i].tensor.nbytes());
    for (const int64_t byte : {int64_t{0}, bytes / 2, bytes - 1}) {
      for (const int64_t begin : {0, 17, 123457}) {
        const auto other = copies(state);
        flip(other[i].tensor, byte, 5);
        const int64_t steps = found_after(state, other, begin);
        CHECK(steps >= 0);
        when.insert(steps);
        const auto names = digest_of(other).names(begin + steps);
        CHECK(std::find(names.begin(), names.end(), state[i].name) != names.end());
      }
    }
  }
  CHECK(when.size() > 5);  // it does rotate
}

TEST_CASE("the shares of a large state are a thousandth of it") {
  const std::vector<NamedTensor> state = {{"large", at::zeros({3'000'000})}};
  StateDigest ours = digest_of(state);
  std::set<int64_t> found;
  for (const int64_t element : {0, 1'234'567, 2'999'999}) {
    const auto other = copies(state);
    flip(other[0].tensor, 4 * element, 0);
    const int64_t step = found_after(state, other, 0);
    CHECK(step == element / 3000);
    found.insert(step);
  }
  CHECK(found.size() == 3);
}

TEST_CASE("a tensor that joins the state is taken up after at most a round, or when told") {
  std::vector<NamedTensor> state = {{"w", at::ones({4096})}};
  StateDigest digest([&] { return state; });
  const uint64_t before = digest.of(1);
  state.push_back({"momentum", at::ones({4096})});
  CHECK(digest.of(1) == before);
  digest.forget();
  CHECK(digest.names(7) == std::vector<std::string>{"momentum"});
}

TEST_CASE("the minority differs from the largest group, or from rank 0's") {
  const auto of = [](const std::vector<uint64_t>& entries) { return minority(entries); };
  CHECK(of({5}).empty());
  CHECK(of({5, 5, 5}).empty());
  CHECK(of({5, 6}) == std::vector<int>{1});
  CHECK(of({6, 5, 5}) == std::vector<int>{0});
  CHECK(of({5, 6, 6, 5}) == std::vector<int>{1, 2});
  CHECK(of({1, 2, 3}) == std::vector<int>{1, 2});
}

TEST_CASE("a fingerprint is that of names, types, shapes and bytes") {
  const at::Tensor numbers = at::arange(6, at::kFloat);
  const std::vector<NamedTensor> tensors{{"a", numbers}, {"b", at::empty({0, 4})}};
  const std::string before = fingerprint(tensors);
  CHECK(before.size() == 16);
  CHECK(fingerprint(copies(tensors)) == before);
  CHECK(fingerprint({{"a", numbers.view({2, 3}).t().contiguous().t()}}) ==
        fingerprint({{"a", numbers.view({2, 3})}}));
  CHECK(fingerprint({}).empty());
  std::set<std::string> different{before};
  const at::Tensor flipped = numbers.clone();
  flip(flipped, 23, 7);
  for (const std::vector<NamedTensor>& other : std::vector<std::vector<NamedTensor>>{
           {{"a", numbers}},
           {{"b", numbers}, {"b", at::empty({0, 4})}},
           {{"a", numbers}, {"b", at::empty({0, 5})}},
           {{"a", numbers.view({2, 3})}, {"b", at::empty({0, 4})}},
           {{"a", numbers.view(at::kInt)}, {"b", at::empty({0, 4})}},
           {{"a", flipped}, {"b", at::empty({0, 4})}}}) {
    CHECK(different.insert(fingerprint(other)).second);
  }
}
