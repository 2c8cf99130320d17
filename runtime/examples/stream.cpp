// A stream: text files that are read line by line, with noise drawn for each sample. The run can be
// killed, stopped, rescaled and resumed: each line counts once in each pass, with the same noise.
//
//   adaptdl run ./stream --replicas 1:4 -- FOLDER
//
// It writes its files into FOLDER, if they are not there.

#include <adaptdl/adaptdl.h>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>

#include <torch/torch.h>

namespace {

constexpr const char* kSettings = R"(
data: {shuffle_buffer: 200, shards_at_once: 4}
batch: {initial: 32}
optimizer: {kind: adam, lr: 0.01}
)";

constexpr int kFiles = 9, kLines = 400;

// y = sin(a) + b c. Every replica writes the same; renaming makes a file appear as a whole.
void write_file(const std::string& path, int seed) {
  if (std::filesystem::exists(path)) return;
  const std::string unfinished = path + "." + std::to_string(getpid());
  auto random = torch::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
  const at::Tensor x = torch::randn({kLines, 3}, random);
  const at::Tensor y = x.select(1, 0).sin() + x.select(1, 1) * x.select(1, 2);
  const at::Tensor numbers = torch::cat({x, y.unsqueeze(1)}, 1);
  std::ofstream file(unfinished);
  for (int i = 0; i < numbers.numel(); ++i) {
    file << numbers.data_ptr<float>()[i] << (i % 4 == 3 ? '\n' : ' ');
  }
  file.close();
  std::filesystem::rename(unfinished, path);
}

// A sample is the text of a line, which the transform decodes.
class Lines : public adaptdl::ShardReader {
 public:
  Lines(const std::string& path, int64_t first) : file_(path) { Lines::skip(first); }
  std::vector<at::Tensor> next() override {
    std::string line;
    if (!std::getline(file_, line)) return {};
    const at::Tensor bytes = torch::empty(static_cast<int64_t>(line.size()), torch::kByte);
    std::memcpy(bytes.data_ptr(), line.data(), line.size());
    return {bytes};
  }
  bool skip(int64_t count) override {
    for (std::string line; count > 0; --count) std::getline(file_, line);
    return file_.good();
  }

 private:
  std::ifstream file_;
};

class TextFiles : public adaptdl::StreamDataset {
 public:
  explicit TextFiles(std::vector<std::string> paths) : paths_(std::move(paths)) {}
  int64_t shards() const override { return static_cast<int64_t>(paths_.size()); }
  int64_t size(int64_t /*shard*/) const override { return kLines; }
  std::string name(int64_t shard) const override { return paths_.at(shard); }
  std::unique_ptr<adaptdl::ShardReader> open(int64_t shard, int64_t first) const override {
    return std::make_unique<Lines>(name(shard), first);
  }

 private:
  std::vector<std::string> paths_;
};

// Bytes of a line to the inputs (3) and the target (1).
std::vector<at::Tensor> decode(const at::Tensor& line) {
  std::istringstream text(
      std::string(line.data_ptr<uint8_t>(), line.data_ptr<uint8_t>() + line.numel()));
  const at::Tensor numbers = torch::empty(4);
  for (int i = 0; i < 4; ++i) text >> numbers.data_ptr<float>()[i];
  return {numbers.slice(0, 0, 3), numbers.slice(0, 3, 4)};
}

}  // namespace

int main(int argc, char** argv) {
  adaptdl::Training training(kSettings);
  const std::string folder = argc > 1 ? argv[1] : "stream-data";
  std::filesystem::create_directories(folder);
  for (int i = 0; i < kFiles; ++i) write_file(folder + "/part-" + std::to_string(i) + ".txt", i);
  write_file(folder + "/validation.txt", kFiles);
  const auto files = adaptdl::shard_files({folder + "/part-*.txt"});
  training.use_data(std::make_shared<TextFiles>(files),
                    std::make_shared<TextFiles>(std::vector{folder + "/validation.txt"}));
  training.transform_data(
      [](auto sample, at::Generator& random) {
        auto numbers = decode(sample[0]);
        numbers[0] = numbers[0] + 0.05 * torch::randn({3}, random);
        return numbers;
      },
      [](auto sample, at::Generator& /*random*/) { return decode(sample[0]); });
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(3, 64), torch::nn::Tanh(), torch::nn::Linear(64, 1));
  training.add(*net);
  for ([[maybe_unused]] const int64_t epoch : training.remaining_epochs_until(8)) {
    for (auto& batch : training.batches()) {
      training.step(torch::mse_loss(net->forward(batch.data[0]), batch.data[1]));
    }
    const torch::NoGradGuard no_grad;
    auto& sums = training.accumulator();
    for (auto& batch : training.validation_batches()) {
      sums["error"] += (net->forward(batch.data[0]) - batch.data[1]).square().sum().item<double>();
      sums["count"] += static_cast<double>(batch.size);
    }
  }
}
