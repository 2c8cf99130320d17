#include "runtime/session/program_data.h"

#include <fstream>
#include <map>
#include <stdexcept>

#include "adaptdl/adaptdl.h"
#include "core/base/files.h"
#include "runtime/torch_compat.h"

#undef CHECK  // LibTorch's
#include <doctest/doctest.h>

namespace {

using adaptdl::MapDataset;
using adaptdl::ProgramData;
using adaptdl::Training;
using Sample = std::vector<at::Tensor>;

constexpr const char* kSettings = R"(
data: {prefetch_threads: THREADS, shuffle_buffer: 6, shards_at_once: 2, drop_last: true}
batch: {initial: 4}
optimizer: {kind: sgd, lr: 0.1}
epochs: 2
)";

std::string settings(const std::string& threads = "1", const std::string& more = "") {
  std::string text = kSettings;
  text.replace(text.find("THREADS"), 7, threads + more);
  return text;
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

bool says(const std::string& error, const std::string& words) {
  return error.find(words) != std::string::npos;
}

// Sample i is i.
class Numbers : public MapDataset {
 public:
  int64_t size() const override { return 20; }
  Sample get(int64_t index) const override { return {at::tensor(index)}; }
};

// The same in shards of 3, 0, 9 and 8; `missing`: so many of the last one are not there.
class NumberStream : public adaptdl::StreamDataset {
 public:
  explicit NumberStream(int64_t missing = 0, bool endless = false)
      : missing_(missing), endless_(endless) {}
  int64_t shards() const override { return 4; }
  int64_t size(int64_t shard) const override { return std::vector{3, 0, 9, 8}[shard]; }
  bool endless() const override { return endless_; }
  std::string name(int64_t shard) const override { return "letters-" + std::to_string(shard); }
  std::unique_ptr<adaptdl::ShardReader> open(int64_t shard, int64_t first) const override {
    class Reader : public adaptdl::ShardReader {
     public:
      Reader(int64_t next, int64_t end) : next_(next), end_(end) {}
      Sample next() override { return next_ < end_ ? Sample{at::tensor(next_++)} : Sample(); }

     private:
      int64_t next_, end_;
    };
    const int64_t begin = endless_ ? shard * 1000 : std::vector{0, 3, 3, 12}[shard];
    const int64_t size = endless_ ? 1000 : shard == 3 ? 8 - missing_ : this->size(shard);
    return std::make_unique<Reader>(begin + first, begin + size);
  }

 private:
  int64_t missing_;
  bool endless_;
};

Sample with_draw(Sample sample, at::Generator& random) {
  sample.push_back(at::rand({}, random, at::TensorOptions(at::kDouble)));
  return sample;
}

struct Seen {
  std::vector<std::map<int64_t, double>> train, validation;  // by epoch: what each sample drew
};

// Trains alone in an open loop.
Seen train(const std::string& text, const ProgramData& data) {
  Training training(text);
  const at::Tensor weight = at::ones({}, at::kDouble).set_requires_grad(true);
  training.add_parameters({{"weight", weight}});
  if (data.train) training.use_data(data.train, data.validation);
  training.transform_data(data.transform, data.transform_validation);
  Seen seen;
  const auto note = [](std::map<int64_t, double>& draws, const adaptdl::Batch& batch) {
    for (int64_t i = 0; i < batch.size; ++i) {
      const bool drew = batch.data.size() > 1 && batch.data[1].dim() == 1;
      const auto number = batch.data[0][i].sum().item<int64_t>();
      CHECK(draws.emplace(number, drew ? batch.data[1][i].item<double>() : -1).second);
    }
  };
  for ([[maybe_unused]] const int64_t epoch : training.epochs()) {
    seen.train.emplace_back();
    for (auto& batch : training.batches()) {
      note(seen.train.back(), batch);
      training.step(weight * batch.data[0].to(at::kDouble).mean());
    }
    if (!data.validation && !says(text, "validation")) continue;
    seen.validation.emplace_back();
    for (auto& batch : training.validation_batches()) note(seen.validation.back(), batch);
  }
  return seen;
}

}  // namespace

TEST_CASE("what a transform draws for a sample depends on the pass, not on threads or batches") {
  for (const bool stream : {false, true}) {
    ProgramData data;
    data.train = stream ? std::shared_ptr<const adaptdl::ProgramDataset>(new NumberStream)
                        : std::make_shared<Numbers>();
    data.transform = with_draw;
    const Seen alone = train(settings("0"), data);
    CHECK(alone.train.size() == 2);
    CHECK(alone.train[0].size() == 20);
    CHECK(alone.train[0] != alone.train[1]);
    CHECK(alone.train[0].at(3) != alone.train[0].at(4));
    CHECK(train(settings("5"), data).train == alone.train);
    CHECK(train(settings("2, split_seed: 1"), data).train == alone.train);
    std::string other = settings();
    other.replace(other.find("initial: 4"), 10, "initial: 2");
    CHECK(train(other, data).train == alone.train);
    CHECK(train(settings() + "seed: 4\n", data).train != alone.train);
  }
}

TEST_CASE("validation draws the same each time, by a transform of its own") {
  ProgramData data;
  data.train = data.validation = std::make_shared<Numbers>();
  data.transform = with_draw;
  CHECK(train(settings(), data).validation[0].at(7) == -1);
  data.transform_validation = with_draw;
  const Seen seen = train(settings(), data);
  CHECK(seen.validation[0].size() == 20);
  CHECK(seen.validation[0] == seen.validation[1]);
  CHECK(train(settings() + "seed: 4\n", data).validation == seen.validation);
  data.validation = std::make_shared<NumberStream>();
  CHECK(train(settings(), data).validation == seen.validation);
  // The share that is kept for validation is no training data.
  data.validation = nullptr;
  data.transform_validation = nullptr;
  const Seen shared = train(settings("1", ", validation_fraction: 0.2"), data);
  CHECK(shared.train[0].size() == 16);
  CHECK(shared.validation[0].size() == 4);
  for (const auto& [number, draw] : shared.validation[0]) {
    CHECK(draw == -1);
    CHECK(!shared.train[0].contains(number));
  }
}

TEST_CASE("the settings' columns can be transformed, with an own number of tensors") {
  const std::string columns =
      "{train: [{format: synthetic, samples: 20, classes: 9}, {format: synthetic, samples: 20, "
      "shape: [2, 3]}], prefetch_threads: ";
  std::string text = settings();
  const size_t begin = text.find('{'), end = text.find('}') + 1;
  const auto with = [&](const std::string& threads) {
    return text.substr(0, begin) + columns + threads + "}" + text.substr(end);
  };
  ProgramData data;
  data.transform = [](Sample sample, at::Generator& random) {
    CHECK(sample.size() == 2);
    CHECK(sample[0].dim() == 0);
    CHECK(sample[1].sizes() == at::IntArrayRef({2, 3}));
    return Sample{(sample[1].sum() * 1e6).to(at::kLong),
                  at::rand({}, random, at::TensorOptions(at::kDouble))};
  };
  const Seen one = train(with("0"), data);
  CHECK(one.train[0].size() == 20);
  CHECK(train(with("3"), data).train == one.train);
}

TEST_CASE("a transform leaves data what they are") {
  const adaptdl::TemporaryDirectory folder;
  std::ofstream(folder.file("x.csv")) << "1\n2\n3\n4\n";
  adaptdl::TrainingSpec spec;
  spec.data.train.resize(1);
  spec.data.train[0].format = adaptdl::DataSource::Format::csv;
  spec.data.train[0].path = "x.csv";
  ProgramData program;
  const auto print = [&] {
    return adaptdl::open_program_data(program, spec, folder.path()).train.fingerprint();
  };
  const auto before = print();
  program.transform = [](Sample sample, at::Generator&) { return sample; };
  CHECK((print() == before));
  std::ofstream(folder.file("x.csv")) << "1\n2\n3\n5\n";
  CHECK((print().samples == 4));
  CHECK_FALSE((print() == before));
  program.train = std::make_shared<Numbers>();
  spec.data.train.clear();
  CHECK((print() == adaptdl::data::Fingerprint{20, 0}));
}

TEST_CASE("samples of unequal lengths are collated by the data set, after the transform") {
  class Padded : public Numbers {
   public:
    Sample get(int64_t index) const override { return {at::full({index + 1}, index)}; }
    Sample collate(std::vector<Sample> samples) const override {
      std::vector<at::Tensor> rows;
      for (const Sample& sample : samples) {
        rows.push_back(at::constant_pad_nd(sample[0], {0, 21 - sample[0].size(0)}, 0));
      }
      return {at::stack(rows)};
    }
  };
  ProgramData data;
  data.train = std::make_shared<Padded>();
  data.transform = [](Sample sample, at::Generator&) { return Sample{sample[0].slice(0, 0, 1)}; };
  const Seen seen = train(settings(), data);
  CHECK(seen.train[0].size() == 20);
  CHECK(seen.train[0].contains(19));
}

TEST_CASE("an endless stream goes on in the next epoch") {
  ProgramData data;
  data.train = std::make_shared<NumberStream>(0, /*endless=*/true);
  const Seen seen = train(settings(), data);
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    std::map<int64_t, double> expected;
    for (const auto& [shard, size] :
         std::vector<std::pair<int64_t, int64_t>>{{0, 3}, {2, 9}, {3, 8}}) {
      for (int64_t i = 0; i < size; ++i) expected[shard * 1000 + epoch * size + i] = -1;
    }
    CHECK(seen.train[static_cast<size_t>(epoch)] == expected);
  }
}

TEST_CASE("data that contradict the settings, or themselves, are refused") {
  const auto failing = [](const std::string& text, const ProgramData& data) {
    return error_of([&] { train(text, data); });
  };
  ProgramData stream{std::make_shared<NumberStream>(), nullptr, {}, {}};
  CHECK(says(failing(settings("1", ", validation_fraction: 0.2"), stream), "cannot be divided"));
  CHECK(says(failing(settings("1", ", continuous: true"), stream), "an order of its own"));
  ProgramData cut{std::make_shared<NumberStream>(2), nullptr, {}, {}};
  CHECK(says(failing(settings(), cut), "letters-3"));
  CHECK(says(failing(settings() + "best: {metric: loss}\n", stream), "none"));
  ProgramData both{std::make_shared<Numbers>(), std::make_shared<Numbers>(), {}, {}};
  CHECK(says(failing(settings("1", ", validation_fraction: 0.2"), both), "remove one"));
  CHECK(says(error_of([] {
               adaptdl::check_program_data({nullptr, std::make_shared<Numbers>(), {}, {}}, {});
             }),
             "bring both"));
  ProgramData odd{std::make_shared<Numbers>(), nullptr, {}, {}};
  odd.transform = [](const Sample&, at::Generator&) { return Sample(); };
  CHECK(says(failing(settings(), odd), "without tensors"));
  odd.transform = [](Sample sample, at::Generator&) {
    if (sample[0].item<int64_t>() % 2 == 0) sample.push_back(sample[0]);
    return sample;
  };
  CHECK(says(failing(settings(), odd), "the same number"));
  odd.transform = [](const Sample&, at::Generator&) -> Sample {
    throw std::runtime_error("no decoder");
  };
  CHECK(says(failing(settings(), odd), "no decoder"));
}

TEST_CASE("shard files are in the same order everywhere, each once") {
  const adaptdl::TemporaryDirectory folder;
  for (const char* name : {"b.txt", "a.txt", "B.txt", "c.csv"}) std::ofstream(folder.file(name));
  const auto files =
      adaptdl::shard_files({folder.file("*.txt"), folder.file("a.*"), folder.file("c.csv")});
  CHECK(files == std::vector<std::string>{folder.file("B.txt"), folder.file("a.txt"),
                                          folder.file("b.txt"), folder.file("c.csv")});
  CHECK(says(error_of([&] { adaptdl::shard_files({folder.file("d.*")}); }), "d.*"));
}
