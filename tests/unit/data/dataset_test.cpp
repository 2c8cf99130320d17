#include "runtime/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <set>

#include "tests/unit/data/fixtures.h"

using namespace adaptdl::data;
using adaptdl::DataSource;
using adaptdl::DataSpec;
using adaptdl::TemporaryDirectory;
using namespace fixtures;

namespace {

DataSource synthetic(int64_t samples) {
  DataSource source;
  source.format = DataSource::Format::synthetic;
  source.synthetic_samples = samples;
  source.shape = {2};
  return source;
}

Dataset of_size(int64_t samples) {
  return Dataset({open_column(synthetic(samples), "")});
}

}  // namespace

TEST_CASE("columns of different length are refused with both names and lengths") {
  const TemporaryDirectory folder;
  write(folder, "x.npy", npy("<f4", "(3,)", std::string(12, 'x')));
  write(folder, "y.npy", npy("|u1", "(2,)", "ab"));
  DataSpec spec;
  spec.train.resize(2);
  spec.train[0].path = "x.npy";
  spec.train[1].path = "y.npy";
  const std::string error = error_of([&] { open_data(spec, folder.path()); });
  CHECK(contains(error, folder.file("x.npy") + " has 3 samples"));
  CHECK(contains(error, folder.file("y.npy") + " has 2"));
  CHECK(contains(error_of([] { Dataset({}); }), "no data"));
  write(folder, "z.npy", npy("|u1", "(0,)", ""));
  spec.train = {spec.train[1]};
  spec.train[0].path = "z.npy";
  CHECK(contains(error_of([&] { open_data(spec, folder.path()); }), "holds no sample"));
}

TEST_CASE("a split is disjoint, complete, in order and fixed") {
  for (const int64_t size : {3, 10, 97, 1797}) {
    for (const double fraction : {0.01, 0.2, 0.5, 0.6, 0.4999}) {
      const auto [train, validation] = of_size(size).split(fraction, 5);
      CHECK(train.size() + validation.size() == size);
      CHECK(validation.size() ==
            std::max<int64_t>(1, std::llround(fraction * static_cast<double>(size))));
      std::vector<int64_t> left, right, all;
      for (int64_t i = 0; i < train.size(); ++i) left.push_back(train.row(i));
      for (int64_t i = 0; i < validation.size(); ++i) right.push_back(validation.row(i));
      CHECK(std::is_sorted(left.begin(), left.end()));
      CHECK(std::is_sorted(right.begin(), right.end()));
      std::merge(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(all));
      for (int64_t i = 0; i < size; ++i) CHECK(all[static_cast<size_t>(i)] == i);
    }
  }
  const auto first = of_size(1000).split(0.1, 1), other = of_size(1000).split(0.1, 2);
  int same = 0;
  for (int64_t i = 0; i < 100; ++i) same += first.second.row(i) == other.second.row(i);
  CHECK(same < 30);
  const auto huge = of_size(int64_t{1} << 60).split(0.5, 1);
  CHECK(huge.first.row(huge.first.size() - 1) < (int64_t{1} << 60));
  CHECK(contains(error_of([] { of_size(1).split(0.5, 0); }), "no samples left"));
}

TEST_CASE("subsets and splits compose") {
  const Dataset part = of_size(100).subset(10, 60);
  CHECK(part.size() == 50);
  CHECK(part.row(0) == 10);
  CHECK(part.subset(5, 6).row(0) == 15);
  const auto [train, validation] = part.split(0.2, 3);
  std::set<int64_t> rows;
  for (int64_t i = 0; i < train.size(); ++i) rows.insert(train.row(i));
  for (int64_t i = 0; i < validation.size(); ++i) rows.insert(validation.row(i));
  CHECK(rows.size() == 50);
  CHECK(*rows.begin() == 10);
  CHECK(*rows.rbegin() == 59);
}

TEST_CASE("of continuous data the last samples are for validation") {
  DataSpec spec;
  spec.continuous = true;
  spec.validation_fraction = 0.25;
  const Data data = split_off_validation(spec, of_size(10));
  CHECK(data.train.size() == 7);
  REQUIRE(data.validation.has_value());
  CHECK(data.validation->row(0) == 7);
  spec.validation_fraction = 0.01;
  CHECK(contains(error_of([&] { split_off_validation(spec, of_size(10)); }), "no samples"));
}

TEST_CASE("validation data come from their own files or from the split") {
  DataSpec spec;
  spec.train = {synthetic(100)};
  CHECK_FALSE(open_data(spec, "").validation.has_value());
  spec.validation_fraction = 0.2;
  Data data = open_data(spec, "");
  CHECK(data.train.size() == 80);
  CHECK(data.validation->size() == 20);
  spec.validation = {synthetic(7)};
  data = open_data(spec, "");
  CHECK(data.train.size() == 100);
  CHECK(data.validation->size() == 7);
  spec.validation[0].dtype = "float16";
  CHECK(contains(error_of([&] { open_data(spec, ""); }), "the same type"));
  spec.validation[0] = synthetic(7);
  spec.validation[0].shape = {3};
  CHECK(contains(error_of([&] { open_data(spec, ""); }), "differ in shape"));
  spec.validation.resize(2, synthetic(7));
  CHECK(contains(error_of([&] { open_data(spec, ""); }), "both need the same number"));
}

TEST_CASE("windows shifted differently over one array are equally many") {
  const TemporaryDirectory folder;
  write(folder, "text.npy", npy("|u1", "(9,)", "abcdefghi"));
  DataSource source;
  source.path = "text.npy";
  source.window = source.window_stride = 3;
  DataSpec spec;
  spec.train = {source, source};
  spec.train[1].window_shift = 1;
  const Data data = open_data(spec, folder.path());
  CHECK(data.train.size() == 2);
  CHECK(rows<char>(*data.train.columns()[1], {1}) == std::vector<char>{'e', 'f', 'g'});
}

TEST_CASE("windows that overlap are not divided by chance") {
  const TemporaryDirectory folder;
  std::string elements(60, '\0');
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<char>(i);
  write(folder, "text.npy", npy("|u1", "(60,)", elements));
  DataSource source;
  source.path = "text.npy";
  source.window = 8;
  DataSpec spec;
  spec.validation_fraction = 0.2;
  spec.train = {source, source};
  spec.train[1].window_shift = 1;
  const auto elements_of = [](const Dataset& part) {
    std::set<char> all;
    for (int64_t i = 0; i < part.size(); ++i) {
      for (const auto& column : part.columns()) {
        for (const char element : rows<char>(*column, {part.row(i)})) all.insert(element);
      }
    }
    return all;
  };
  for (const int64_t stride : {1, 3, 7}) {
    for (DataSource& each : spec.train) each.window_stride = stride;
    const Data data = open_data(spec, folder.path());
    const std::set<char> train = elements_of(data.train),
                         validation = elements_of(*data.validation);
    CHECK(*train.rbegin() < *validation.begin());
    // Those left out lie across the cut, and no more do.
    CHECK(*validation.begin() - *train.rbegin() <= stride);
    CHECK(data.validation->row(data.validation->size() - 1) == (60 - 9) / stride);
  }
  for (DataSource& each : spec.train) each.window_stride = 8;
  const Data drawn = open_data(spec, folder.path());
  CHECK(drawn.train.size() + drawn.validation->size() == 7);
  spec.validation_fraction = 0.9;
  for (DataSource& each : spec.train) each.window_stride = 1;
  CHECK(contains(error_of([&] { open_data(spec, folder.path()); }), "no samples for training"));
}

TEST_CASE("data sets differ by their files, not by paths, times and settings") {
  const TemporaryDirectory folder, other;
  std::string numbers(300000, 'x');
  const auto print = [](const TemporaryDirectory& where, const std::string& dtype = "") {
    DataSpec spec;
    spec.train.resize(1);
    spec.train[0].path = "x.npy";
    spec.train[0].dtype = dtype;
    return open_data(spec, where.path()).train.fingerprint();
  };
  write(folder, "x.npy", npy("|u1", "(1000, 300)", numbers));
  write(other, "x.npy", npy("|u1", "(1000, 300)", numbers));
  const Fingerprint before = print(folder);
  CHECK(before.samples == 1000);
  CHECK(print(other) == before);
  CHECK(print(other, "float32") == before);
  for (const size_t changed : {size_t{0}, numbers.size() - 1}) {
    std::string another = numbers;
    another[changed] = 'y';
    write(other, "x.npy", npy("|u1", "(1000, 300)", another));
    CHECK(print(other).samples == 1000);
    CHECK(print(other).content != before.content);
  }
  write(other, "x.npy", npy("|u1", "(1001, 300)", numbers + numbers.substr(0, 300)));
  CHECK(print(other).samples == 1001);
  CHECK(of_size(3).fingerprint() == of_size(3).fingerprint());
  CHECK_FALSE(of_size(3).fingerprint() == of_size(4).fingerprint());
}
