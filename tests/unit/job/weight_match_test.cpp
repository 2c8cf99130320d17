#include "core/job/weight_match.h"

#include <doctest/doctest.h>

#include "tests/unit/base/expect_error.h"

namespace weight_match_test {

using namespace adaptdl;

namespace {

using Names = std::vector<std::string>;

StoredTensor stored(const char* name, std::vector<int64_t> shape = {2},
                    const char* dtype = "float32") {
  StoredTensor tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  return tensor;
}

WeightsFile file_of(std::vector<StoredTensor> tensors) {
  return {"w.pt", std::move(tensors), nullptr};
}

const std::vector<ModelTensor> kModel = {
    {"body.w", "float32", {2}}, {"body.count", "int64", {}}, {"head.w", "float32", {3, 2}}};
const WeightsFile kSame =
    file_of({stored("head.w", {3, 2}), stored("body.count", {}, "int64"), stored("body.w")});

}  // namespace

TEST_CASE("tensors match by name, in any order") {
  const WeightMatch match = match_weights(kModel, kSame, {"w.pt", {}, {}});
  CHECK(match.pairs == std::vector<std::pair<size_t, size_t>>{{0, 2}, {1, 1}, {2, 0}});
  CHECK(match.kept.empty());
  CHECK(match.unused.empty());
}

TEST_CASE("all differences are named, unless they are to be ignored") {
  const WeightsFile other = file_of(
      {stored("head.w", {1000, 2}), stored("body.w"), stored("old", {2}), stored("older", {2})});
  FromSpec from{"w.pt", {}, {}};
  CHECK_ERROR(match_weights(kModel, other, from),
              "w.pt: does not fit the model: 1 tensor is missing in it: body.count; 2 tensors are "
              "not in the model: old, older; 1 tensor differs: head.w is float32 [3, 2], in the "
              "file float32 [1000, 2]. Change names with from.rename, or list in from.ignore");
  from.ignore = {"head.*", "old*", "body.c?unt"};
  const WeightMatch match = match_weights(kModel, other, from);
  CHECK(match.pairs == std::vector<std::pair<size_t, size_t>>{{0, 1}});
  CHECK(match.kept == Names{"body.count", "head.w"});
  CHECK(match.unused == Names{"old", "older"});
  from.ignore = {"*"};
  CHECK_ERROR(match_weights(kModel, file_of({stored("x")}), from), "none of its 1 tensors fits");
}

TEST_CASE("long lists are cut") {
  std::vector<StoredTensor> many;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}) {
    many.push_back(stored(name));
  }
  CHECK_ERROR(match_weights(kModel, file_of(many), {"w.pt", {}, {"body*", "head*"}}),
              "10 tensors are not in the model: a, b, c, d, e, f, g, h, ...");
}

TEST_CASE("precision may change, the kind of number may not") {
  const std::vector<ModelTensor> model = {{"w", "float32", {2}}};
  for (const char* dtype : {"float16", "bfloat16", "float64"}) {
    CHECK(match_weights(model, file_of({stored("w", {2}, dtype)}), {"w.pt", {}, {}}).pairs.size() ==
          1);
  }
  CHECK_ERROR(match_weights(model, file_of({stored("w", {2}, "int64")}), {"w.pt", {}, {}}),
              "w is float32 [2], in the file int64 [2]");
}

TEST_CASE("frozen parameters and second names of the file need no match") {
  const std::vector<ModelTensor> model = {{"w", "float32", {2}}};
  StoredTensor frozen = stored("backbone"), again = stored("tied");
  frozen.frozen = true;
  again.same_as = "w";
  const WeightMatch match =
      match_weights(model, file_of({stored("w"), frozen, again}), {"w.pt", {}, {}});
  CHECK(match.pairs.size() == 1);
  CHECK(match.unused == Names{"backbone"});
}

TEST_CASE("buffers and frozen tensors that the file lacks keep their values") {
  using Kind = ModelTensor::Kind;
  const std::vector<ModelTensor> model = {{"w", "float32", {2}, Kind::parameter},
                                          {"rope.inv_freq", "float32", {2}, Kind::buffer},
                                          {"conv", "float32", {2}, Kind::frozen}};
  const WeightMatch match = match_weights(model, file_of({stored("w")}), {"w.pt", {}, {}});
  CHECK(match.pairs.size() == 1);
  CHECK(match.kept == Names{"rope.inv_freq"});
  const WeightMatch all = match_weights(
      model, file_of({stored("w"), stored("rope.inv_freq"), stored("conv")}), {"w.pt", {}, {}});
  CHECK(all.pairs.size() == 3);
  for (const char* name : {"rope.inv_freq", "conv"}) {
    CHECK_ERROR(match_weights(model, file_of({stored("w"), stored(name, {3})}), {"w.pt", {}, {}}),
                std::string("1 tensor differs: ") + name);
  }
  CHECK_ERROR(match_weights(model, file_of({stored("conv")}), {"w.pt", {}, {}}),
              "1 tensor is missing in it: w.");
}

TEST_CASE("rules change names") {
  CHECK(renamed("module.a.b", {"module.*=*"}) == "a.b");
  CHECK(renamed("a.w", {"*.w=*.weight"}) == "a.weight");
  CHECK(renamed("fc", {"fc=head", "head=x"}) == "head");
  CHECK(renamed("fc2", {"fc=head"}) == "fc2");
  CHECK(renamed("ab", {"abc*bcd=x*"}) == "ab");
  CHECK(match_weights({{"w", "float32", {2}}}, file_of({stored("m.w")}), {"w.pt", {"m.*=*"}, {}})
            .pairs.size() == 1);
  CHECK_ERROR(match_weights({{"w", "float32", {2}}}, file_of({stored("m.w"), stored("w")}),
                            {"w.pt", {"m.*=*"}, {}}),
              "two of its tensors are named w");
  for (const char* good : {"a=b", "a*=*b", "*=x*", "a="}) CHECK(problem_of_rename(good).empty());
  for (const char* bad : {"", "a", "=b", "a=b=c", "a*=b", "a=b*", "*a*=*b*"}) {
    CAPTURE(bad);
    CHECK_FALSE(problem_of_rename(bad).empty());
  }
}

}  // namespace weight_match_test
