// A plain LibTorch program that trains elastically: a model, a loop and a validation of its own, on
// images of handwritten digits. The lines marked with a number are the steps in which AdaptDL's
// tutorial changes such a program.
//
//   open_program [closed] [own] [stream] [slow [go]] [throw] [model] [turns] [collect] [after]
//                [finish]
//
// closed: trains the same model in the library's loop; own: reads the data itself; stream: reads
// the images for training as a stream, and adds noise to them; slow: 0.1 s more for each batch;
// go: so slow only until the file GO is beside the program, and 0.5 s for a batch of training;
// throw: an exception in the sixth step; model: it is one of several, all of one; turns: two models
// that learn from each other's outputs; collect: exchanges values between an epoch's batches and
// its validation; after: when training is over, its main() works on for 4 s, writes the file
// "after" beside the program, and returns 7; finish: ends training after the twelfth epoch.

#include <adaptdl/adaptdl.h>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include <torch/torch.h>

namespace {

constexpr const char* kSettings = R"(
name: open
seed: 3
epochs: 4
data:
  train:
    - {path: images.npy, dtype: float32, scale: 0.125, offset: -1}
    - {path: labels.npy}
  validation_fraction: 0.1976  # 1442 images are left: the last batch of a pass has two
batch: {initial: 24}
optimizer: {kind: sgd, lr: 0.02, momentum: 0.9}
)";

std::string folder_of_program() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string() + "/";
}

bool slow = false, until_go = false, own = false, stream = false, throws = false, model = false,
     collect = false, finishes = false;

// The settings without `train`, for data of the program's own.
std::string chosen_settings() {
  std::string settings = kSettings;
  const size_t begin = settings.find("  train:"), fraction = settings.find("  validation_fraction");
  if (own) settings.erase(begin, fraction - begin);
  if (stream) {
    settings.replace(begin, settings.find("batch:") - begin,
                     "  shuffle_buffer: 100\n  shards_at_once: 4\n");
  }
  return settings;
}

// The images and labels again, read by hand: each file has its numbers after a header.
class Digits : public adaptdl::MapDataset {
 public:
  explicit Digits(const std::string& folder)
      : images_(numbers(folder + "images.npy")), labels_(numbers(folder + "labels.npy")) {}

  int64_t size() const override { return static_cast<int64_t>(labels_.size() / 8); }
  std::vector<at::Tensor> get(int64_t index) const override {
    const at::Tensor image = torch::empty({1, 8, 8});
    const auto first = static_cast<size_t>(index) * 64;
    for (size_t i = 0; i < 64; ++i) {
      image.data_ptr<float>()[i] = static_cast<float>(images_[first + i]) * 0.125F - 1;
    }
    return {image, torch::tensor(static_cast<int64_t>(labels_[static_cast<size_t>(index) * 8]))};
  }

 private:
  static std::vector<unsigned char> numbers(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<unsigned char> bytes(std::istreambuf_iterator<char>(file), {});
    const size_t header = 10 + bytes.at(8) + 256 * bytes.at(9);
    return {bytes.begin() + static_cast<std::ptrdiff_t>(header), bytes.end()};
  }

  std::vector<unsigned char> images_, labels_;
};

// The first images in nine shards, undecoded.
class DigitStream : public adaptdl::StreamDataset {
 public:
  static constexpr int64_t kImages = 1442;
  explicit DigitStream(std::shared_ptr<const Digits> digits) : digits_(std::move(digits)) {}
  int64_t shards() const override { return 9; }
  int64_t size(int64_t shard) const override { return begin(shard + 1) - begin(shard); }
  std::unique_ptr<adaptdl::ShardReader> open(int64_t shard, int64_t first) const override {
    class Reader : public adaptdl::ShardReader {
     public:
      Reader(const Digits& digits, int64_t next, int64_t end)
          : digits_(digits), next_(next), end_(end) {}
      std::vector<at::Tensor> next() override {
        if (next_ == end_) return {};
        return digits_.get(next_++);
      }

     private:
      const Digits& digits_;
      int64_t next_, end_;
    };
    return std::make_unique<Reader>(*digits_, begin(shard) + first, begin(shard + 1));
  }

 private:
  static int64_t begin(int64_t shard) { return kImages * shard * shard / 81; }
  std::shared_ptr<const Digits> digits_;
};

// The images behind those.
class LastDigits : public adaptdl::MapDataset {
 public:
  explicit LastDigits(std::shared_ptr<const Digits> digits) : digits_(std::move(digits)) {}
  int64_t size() const override { return digits_->size() - DigitStream::kImages; }
  std::vector<at::Tensor> get(int64_t index) const override {
    return digits_->get(DigitStream::kImages + index);
  }

 private:
  std::shared_ptr<const Digits> digits_;
};

adaptdl::ProgramData program_data() {
  adaptdl::ProgramData data;
  if (!own && !stream) return data;
  const auto digits = std::make_shared<Digits>(folder_of_program());
  if (own) data.train = digits;
  if (!stream) return data;
  data.train = std::make_shared<DigitStream>(digits);
  data.validation = std::make_shared<LastDigits>(digits);
  data.transform = [](std::vector<at::Tensor> sample, at::Generator& random) {
    sample[0] = sample[0] + 0.2 * torch::randn({1, 8, 8}, random);
    return sample;
  };
  return data;
}

// How much longer a batch is to take.
std::chrono::milliseconds pause_of_batch(bool training) {
  static const std::string go = folder_of_program() + "GO";
  if (!slow || (until_go && std::filesystem::exists(go))) return std::chrono::milliseconds(0);
  return std::chrono::milliseconds(until_go && training ? 500 : 100);
}

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("conv", conv);
    register_module("hidden", hidden);
    register_module("output", output);
  }
  // Images (N, 1, 8, 8) to log-probabilities (N, 10).
  at::Tensor forward(at::Tensor x) {
    std::this_thread::sleep_for(pause_of_batch(is_training()));
    x = torch::max_pool2d(torch::relu(conv(x)), 2).flatten(1);
    return torch::log_softmax(output(torch::relu(hidden(x))), 1);
  }
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(1, 16, 3).padding(1)};
  torch::nn::Linear hidden{256, 64}, output{64, 10};
};
TORCH_MODULE(Net);

void train() {
  adaptdl::Training training(chosen_settings());  // 1
  const adaptdl::ProgramData data = program_data();
  if (data.train) training.use_data(data.train, data.validation);  // 2
  if (data.transform) training.transform_data(data.transform);
  torch::manual_seed(1);
  Net net;
  net->to(training.device());
  if (model) {
    training.add_model("net", *net);
  } else {
    training.add(*net);  // 1
  }
  training.save_model([&](const std::string& path) { torch::save(net, path); });

  // A counter of the program's own, which a new or resumed replica must get.
  int64_t finished = 0;
  training.add_state(
      "finished", [&] { return std::to_string(finished); },
      [&](const std::string& bytes) { finished = std::stoll(bytes); });

  for (const int64_t epoch : training.epochs()) {  // 4
    net->train();
    for (auto& batch : training.batches()) {  // 2; 3 is `batch` in the settings
      if (throws && training.last_step().step == 5) throw std::runtime_error("asked for");
      const at::Tensor loss = torch::nll_loss(net->forward(batch.data[0]), batch.data[1]);
      if (model) {
        training.step("net", loss);
      } else {
        training.step(loss);
      }
    }

    if (collect) {
      auto& all = training.collective();
      for (int i = 0; i < 20; ++i) {
        training.log("epoch", static_cast<double>(all.broadcast(epoch)));
        training.log("ones", all.allreduce(1.0, adaptdl::Reduction::mean));
      }
    }

    net->eval();
    const torch::NoGradGuard no_grad;
    auto& sums = training.accumulator();  // 5
    for (auto& batch : training.validation_batches()) {
      const at::Tensor output = net->forward(batch.data[0]);
      sums["loss"] += torch::nll_loss(output, batch.data[1], {}, at::Reduction::Sum).item<double>();
      sums["accuracy"] += (output.argmax(1) == batch.data[1]).sum().item<double>();
      sums["count"] += static_cast<double>(batch.size);
    }
    training.log("finished", static_cast<double>(++finished));
    if (finishes && epoch == 11 && sums.mean("accuracy") > 0) training.finish();
    if (training.rank() == 0) {
      std::printf("epoch %ld: loss %.4f, accuracy %.4f\n", epoch, sums.mean("loss"),
                  sums.mean("accuracy"));
      std::fflush(stdout);
    }
  }
}

// A tutor and a pupil, which takes a turn in every second step and sometimes two. A counter of the
// turns is state of the program's own.
void train_turns() {
  adaptdl::Training training(kSettings);
  torch::manual_seed(1);
  Net tutor, pupil;
  training.add_model("tutor", *tutor);
  training.add_model("pupil", *pupil);
  int64_t turns = 0;
  training.add_state(
      "turns", [&] { return std::to_string(turns); },
      [&](const std::string& bytes) { turns = std::stoll(bytes); });

  for ([[maybe_unused]] const int64_t epoch : training.epochs()) {
    for (auto& batch : training.batches()) {
      const int64_t step = training.last_step().step;
      const at::Tensor taught = tutor->forward(batch.data[0]);
      ++turns;
      training.step("tutor", torch::nll_loss(taught, batch.data[1]));
      for (int64_t i = 0; i < (step % 6 == 5 ? 2 : step % 2); ++i) {
        ++turns;
        training.step("pupil", torch::kl_div(pupil->forward(batch.data[0]), taught.detach().exp(),
                                             at::Reduction::Sum) /
                                   batch.size);
      }
    }
    const torch::NoGradGuard no_grad;
    auto& sums = training.accumulator();
    for (auto& batch : training.validation_batches()) {
      const at::Tensor output = pupil->forward(batch.data[0]);
      sums["loss"] += torch::nll_loss(output, batch.data[1], {}, at::Reduction::Sum).item<double>();
      sums["accuracy"] += (output.argmax(1) == batch.data[1]).sum().item<double>();
      sums["count"] += static_cast<double>(batch.size);
    }
    training.log("turns", static_cast<double>(turns));
  }
}

// The same as a Program, for comparison.
class Closed : public adaptdl::Program {
 public:
  Closed() { torch::manual_seed(1), net_ = Net(); }
  std::vector<adaptdl::NamedTensor> parameters() override {
    std::vector<adaptdl::NamedTensor> all;
    for (const auto& item : net_->named_parameters()) all.push_back({item.key(), item.value()});
    return all;
  }
  std::vector<adaptdl::NamedTensor> buffers() override { return {}; }
  at::Tensor training_step(const std::vector<at::Tensor>& batch) override {
    return torch::nll_loss(net_->forward(batch[0]), batch[1]);
  }
  bool can_validate() const override { return true; }
  std::map<std::string, at::Tensor> validation_step(const std::vector<at::Tensor>& batch) override {
    const at::Tensor output = net_->forward(batch[0]);
    return {{"loss", torch::nll_loss(output, batch[1], {}, at::Reduction::Sum)},
            {"accuracy", (output.argmax(1) == batch[1]).sum()},
            {"count", torch::tensor(batch[1].size(0))}};
  }
  adaptdl::ProgramData data() override { return program_data(); }
  void train(bool on) override { net_->train(on); }
  void save(const std::string& path) override { torch::save(net_, path); }

 private:
  Net net_{nullptr};
};

}  // namespace

int main(int argc, char** argv) {
  bool closed = false, turns = false, after = false;
  for (int i = 1; i < argc; ++i) {
    slow |= std::string(argv[i]) == "slow";
    until_go |= std::string(argv[i]) == "go";
    throws |= std::string(argv[i]) == "throw";
    own |= std::string(argv[i]) == "own";
    stream |= std::string(argv[i]) == "stream";
    closed |= std::string(argv[i]) == "closed";
    model |= std::string(argv[i]) == "model";
    collect |= std::string(argv[i]) == "collect";
    finishes |= std::string(argv[i]) == "finish";
    turns |= std::string(argv[i]) == "turns";
    after |= std::string(argv[i]) == "after";
  }
  if (closed) {
    return adaptdl::run_program(chosen_settings(), [](const adaptdl::ProgramContext&) {
      return std::make_unique<Closed>();
    });
  }
  if (turns) {
    train_turns();
  } else {
    train();
  }
  if (!after) return 0;
  std::this_thread::sleep_for(std::chrono::seconds(4));
  std::ofstream(folder_of_program() + "after") << "whole";
  return 7;
}
