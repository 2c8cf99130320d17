// Classifies images: FOLDER holds a folder of JPEG or PNG images for each class. The library reads
// and scales them; each batch is turned into new pictures of the same things before a step.
//
//   adaptdl run ./images --replicas 1:4 -- FOLDER [SIZE]

#include <adaptdl/adaptdl.h>
#include <cstdio>
#include <filesystem>
#include <iomanip>
#include <sstream>
#include <string>

#include <torch/torch.h>

namespace {

namespace F = torch::nn::functional;

// Pixels are numbers from -1 to 1.
std::string settings(const std::string& folder, int size) {
  const std::string path = std::filesystem::absolute(folder).string();
  std::ostringstream text;
  text << "data:\n"
       << "  train:\n"
       << "  - path: " << std::quoted(path) << "\n"
       << "    format: images\n"
       << "    shape: [3, " << size << ", " << size << "]\n"
       << "    dtype: float32\n"
       << "    scale: 0.00784313725\n"
       << "    offset: -1\n"
       << "  - {path: " << std::quoted(path) << ", format: image_labels}\n"
       << "  validation_fraction: 0.2\n"
       << "  prefetch_threads: 2\n"
       << "batch: {initial: 32, adaptive: true, max: 512}\n"
       << "optimizer: {kind: adamw, lr: 0.002}\n"
       << "schedule: [{kind: cosine}]\n"
       << "epochs: 8\n";
  return text.str();
}

int64_t count_classes(const std::string& folder) {
  int64_t classes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    classes += entry.is_directory() && !entry.path().filename().string().starts_with('.');
  }
  return classes;
}

// Mirrors half of the images, and moves and zooms all of them a little, each in its own way. The
// library seeds the random numbers, so that a step that is repeated draws the same ones.
at::Tensor augmented(const at::Tensor& images) {
  const auto random = [&](double low, double high) {
    return torch::rand(images.size(0), images.options()) * (high - low) + low;
  };
  const at::Tensor mirror = random(-1, 1).sign(), zoom = random(0.9, 1.1);
  const at::Tensor zero = torch::zeros_like(zoom);
  // Where each pixel comes from: an affine function of its place, from -1 to 1.
  const at::Tensor across = torch::stack({mirror * zoom, zero, random(-0.1, 0.1)}, 1);
  const at::Tensor down = torch::stack({zero, zoom, random(-0.1, 0.1)}, 1);
  const at::Tensor from = F::affine_grid(torch::stack({across, down}, 1), images.sizes(), false);
  return F::grid_sample(
      images, from, F::GridSampleFuncOptions().padding_mode(torch::kBorder).align_corners(false));
}

torch::nn::Sequential make_net(int64_t classes) {
  using namespace torch::nn;
  Sequential net;
  int64_t in = 3;
  for (const int64_t out : {32, 64, 128}) {
    net->push_back(Conv2d(Conv2dOptions(in, out, 3).padding(1).bias(false)));
    net->push_back(BatchNorm2d(out));
    net->push_back(ReLU());
    net->push_back(MaxPool2d(2));
    in = out;
  }
  net->push_back(AdaptiveAvgPool2d(1));
  net->push_back(Flatten());
  net->push_back(Linear(in, classes));
  return net;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2 || !std::filesystem::is_directory(arguments[1])) {
    std::fprintf(stderr,
                 "usage: adaptdl run ./images -- FOLDER [SIZE]\n"
                 "FOLDER has a folder of images for each class; SIZE is in pixels\n");
    return 2;
  }
  const std::string folder = arguments[1];
  adaptdl::Training training(settings(folder, count > 2 ? std::stoi(arguments[2]) : 64));
  torch::manual_seed(1);
  torch::nn::Sequential net = make_net(count_classes(folder));
  net->to(training.device());
  training.add(*net);
  training.save_model([&](const std::string& path) { torch::save(net, path); });

  for (const int64_t epoch : training.epochs()) {
    net->train();
    for (auto& batch : training.batches()) {
      const at::Tensor scores = net->forward(augmented(batch.data[0]));
      training.step(torch::cross_entropy_loss(scores, batch.data[1]));
    }
    const torch::NoGradGuard no_grad;
    net->eval();
    auto& sums = training.accumulator();
    for (auto& batch : training.validation_batches()) {
      const at::Tensor found = net->forward(batch.data[0]).argmax(1);
      sums["accuracy"] += (found == batch.data[1]).sum().item<double>();
      sums["count"] += static_cast<double>(batch.size);
    }
    if (training.rank() == 0) {
      std::printf("epoch %d: %.3f of the images are recognised\n", static_cast<int>(epoch),
                  sums.mean("accuracy"));
      std::fflush(stdout);
    }
  }
}
