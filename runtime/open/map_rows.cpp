#include "runtime/open/map_rows.h"

#include <span>

#include "core/base/error.h"
#include "runtime/torch_compat.h"

namespace adaptdl {

std::vector<at::Tensor> MapDataset::collate(std::vector<std::vector<at::Tensor>> samples) const {
  std::vector<at::Tensor> batch;
  for (size_t i = 0; i < samples.front().size(); ++i) {
    std::vector<at::Tensor> column;
    column.reserve(samples.size());
    for (auto& sample : samples) column.push_back(std::move(sample.at(i)));
    batch.push_back(at::stack(column));
  }
  return batch;
}

data::Dataset rows_of(std::shared_ptr<const MapDataset> dataset) {
  if (dataset->size() < 1) fail("the program's data set has no samples");
  const int64_t size = dataset->size();
  return {
      size, [dataset = std::move(dataset)](std::span<const int64_t> rows) {
        const at::NoGradGuard no_grad;
        std::vector<std::vector<at::Tensor>> samples;
        samples.reserve(rows.size());
        for (const int64_t row : rows) samples.push_back(dataset->get(row));
        auto batch =
            std::make_shared<std::vector<at::Tensor>>(dataset->collate(std::move(samples)));
        if (batch->empty()) fail("the program's data set gave a batch without tensors");
        for (const at::Tensor& tensor : *batch) {
          if (tensor.dim() > 0 && tensor.size(0) == static_cast<int64_t>(rows.size())) continue;
          fail(
              "the program's data set gave a tensor of shape {} for a batch of {} samples; these "
              "must be its first dimension",
              c10::str(tensor.sizes()), rows.size());
        }
        return std::shared_ptr<void>(std::move(batch));
      }};
}

}  // namespace adaptdl
