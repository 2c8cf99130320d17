#include "runtime/session/program_data.h"

#include <algorithm>
#include <glob.h>
#include <span>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>

#include "adaptdl/map_dataset.h"
#include "adaptdl/stream_dataset.h"
#include "core/base/error.h"
#include "runtime/archive/tensor_types.h"
#include "runtime/data/stream_reader.h"
#include "runtime/session/batches.h"
#include "runtime/torch_compat.h"

namespace adaptdl {

std::vector<at::Tensor> ProgramDataset::collate(
    std::vector<std::vector<at::Tensor>> samples) const {
  const size_t tensors = samples.front().size();
  for (const auto& sample : samples) {
    if (sample.size() == tensors) continue;
    fail("one sample of the program's data has {} tensors, another {}; all need the same number",
         tensors, sample.size());
  }
  std::vector<at::Tensor> batch;
  for (size_t i = 0; i < tensors; ++i) {
    std::vector<at::Tensor> column;
    column.reserve(samples.size());
    for (auto& sample : samples) column.push_back(std::move(sample[i]));
    batch.push_back(at::stack(column));
  }
  return batch;
}

bool ShardReader::skip(int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (next().empty()) return false;
  }
  return true;
}

std::string StreamDataset::name(int64_t shard) const {
  return std::to_string(shard);
}

std::vector<std::string> shard_files(const std::vector<std::string>& patterns) {
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    glob_t found = {};
    const int result = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
    for (size_t i = 0; i < found.gl_pathc; ++i) files.emplace_back(found.gl_pathv[i]);
    globfree(&found);
    if (result != 0) fail("no files of the stream: nothing matches \"{}\"", pattern);
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

namespace {

using Sample = std::vector<at::Tensor>;

// Applies a transform to the samples of one batch.
class Draws {
 public:
  Draws(const Transform& transform, const data::Dataset::Request& request)
      : transform_(transform), seed_(request.seed), pass_(request.pass) {
    if (transform) random_ = at::make_generator<at::CPUGeneratorImpl>();
  }

  // `number`: of the sample in its data set.
  Sample apply(Sample sample, int64_t number) {
    if (!transform_) return sample;
    random_.set_current_seed(data::sample_seed(seed_, pass_, number));
    return transform_(std::move(sample), random_);
  }

 private:
  const Transform& transform_;
  uint64_t seed_;
  data::Position pass_;
  at::Generator random_;  // one for all samples: making one takes longer than seeding it
};

std::shared_ptr<void> batch_of(const ProgramDataset& dataset, std::vector<Sample> samples) {
  const auto size = static_cast<int64_t>(samples.size());
  for (const Sample& sample : samples) {
    if (sample.empty()) fail("the program's data or its transform gave a sample without tensors");
  }
  auto batch = std::make_shared<std::vector<at::Tensor>>(dataset.collate(std::move(samples)));
  if (batch->empty()) fail("the program's data set gave a batch without tensors");
  for (const at::Tensor& tensor : *batch) {
    if (tensor.dim() > 0 && tensor.size(0) == size) continue;
    fail(
        "the program's data set gave a tensor of shape {} for a batch of {} samples; these must be "
        "its first dimension",
        c10::str(tensor.sizes()), size);
  }
  return batch;
}

// The settings' columns, sample by sample.
class ColumnSamples : public MapDataset {
 public:
  explicit ColumnSamples(std::vector<std::shared_ptr<const data::Column>> columns)
      : columns_(std::move(columns)) {}
  int64_t size() const override { return columns_.front()->rows(); }
  Sample get(int64_t index) const override {
    Sample sample;
    for (const auto& column : columns_) {
      sample.push_back(at::empty(column->shape(), scalar_type(column->dtype())));
      column->copy_rows({&index, 1}, static_cast<std::byte*>(sample.back().data_ptr()));
    }
    return sample;
  }

 private:
  std::vector<std::shared_ptr<const data::Column>> columns_;
};

// The rows of `part`, which are numbers of `samples`.
data::Dataset map_rows(const data::Dataset& part, std::shared_ptr<const MapDataset> samples,
                       Transform transform) {
  return {part.size(),
          [part, samples = std::move(samples),
           transform = std::move(transform)](const data::Dataset::Request& request) {
            return [&part, &samples, &transform, request] {
              const at::NoGradGuard no_grad;
              Draws draws(transform, request);
              std::vector<Sample> all;
              all.reserve(request.rows.size());
              for (const int64_t row : request.rows) {
                const int64_t number = part.row(row);
                all.push_back(draws.apply(samples->get(number), number));
              }
              return batch_of(*samples, std::move(all));
            };
          },
          /*in_order=*/false, part.fingerprint().content};
}

class TensorCursor : public data::ShardCursor {
 public:
  explicit TensorCursor(std::unique_ptr<ShardReader> reader) : reader_(std::move(reader)) {}
  std::shared_ptr<void> next() override {
    Sample sample = reader_->next();
    return sample.empty() ? nullptr : std::make_shared<Sample>(std::move(sample));
  }
  bool skip(int64_t count) override { return reader_->skip(count); }

 private:
  std::unique_ptr<ShardReader> reader_;
};

data::Dataset stream_rows(const std::shared_ptr<const StreamDataset>& dataset,
                          const data::StreamOptions& options, Transform transform) {
  data::StreamSource source;
  for (int64_t i = 0; i < dataset->shards(); ++i) source.sizes.push_back(dataset->size(i));
  source.endless = dataset->endless();
  source.name = [dataset](int64_t shard) { return dataset->name(shard); };
  source.open = [dataset](int64_t shard, int64_t first) {
    auto reader = dataset->open(shard, first);
    if (!reader) fail("cannot read shard {}: the program opened no reader", dataset->name(shard));
    return std::make_unique<TensorCursor>(std::move(reader));
  };
  const auto reader = std::make_shared<data::StreamReader>(std::move(source), options);
  return {
      reader->samples(),
      [dataset, reader, transform = std::move(transform)](const data::Dataset::Request& request) {
        const at::NoGradGuard no_grad;
        return [&dataset, &transform, request, read = reader->read(request)] {
          const at::NoGradGuard no_gradients;
          Draws draws(transform, request);
          std::vector<Sample> all;
          for (const data::StreamSample& sample : read) {
            auto& tensors = *static_cast<Sample*>(sample.content.get());
            all.push_back(draws.apply(std::move(tensors), sample.number));
          }
          return batch_of(*dataset, std::move(all));
        };
      },
      /*in_order=*/true};
}

data::Data open_own(const ProgramData& program, const DataSpec& spec) {
  const auto dataset_of = [](const std::shared_ptr<const ProgramDataset>& dataset,
                             const data::StreamOptions& options, const Transform& transform) {
    if (const auto stream = std::dynamic_pointer_cast<const StreamDataset>(dataset)) {
      return stream_rows(stream, options, transform);
    }
    const auto samples = std::dynamic_pointer_cast<const MapDataset>(dataset);
    if (!samples) fail("the program's data are neither a MapDataset nor a StreamDataset");
    if (samples->size() < 1) fail("the program's data set has no samples");
    return map_rows({samples->size(), nullptr}, samples, transform);
  };
  if (spec.continuous && std::dynamic_pointer_cast<const StreamDataset>(program.train)) {
    fail("data.continuous: a stream has an order of its own; remove it, or bring a MapDataset");
  }
  const data::StreamOptions shuffled{spec.shuffle, spec.shuffle_buffer, spec.shards_at_once};
  data::Dataset train = dataset_of(program.train, shuffled, program.transform);
  if (program.validation) {
    return {train,
            dataset_of(program.validation, {.shuffle = false}, program.transform_validation)};
  }
  data::Data data = split_off_validation(spec, train);
  if (data.validation) {
    const auto samples = std::dynamic_pointer_cast<const MapDataset>(program.train);
    data.train = map_rows(data.train, samples, program.transform);
    data.validation = map_rows(*data.validation, samples, program.transform_validation);
  }
  return data;
}

bool needs_validations(const TrainingSpec& spec) {
  return spec.best || spec.early_stopping ||
         std::any_of(spec.schedule.begin(), spec.schedule.end(), [](const SchedulePart& part) {
           return part.kind == SchedulePart::Kind::plateau;
         });
}

}  // namespace

void check_program_data(const ProgramData& program, const DataSpec& spec) {
  if (program.validation && !program.train) {
    fail("the program brings validation data, but no training data; bring both");
  }
  if (program.train && !spec.train.empty()) {
    fail(
        "the program brings its own data, but the settings name other data; remove data.train, or "
        "the program's");
  }
  if (program.validation && spec.validation_fraction > 0) {
    fail("data.validation_fraction contradicts the program's validation data; remove one of them");
  }
}

data::Data open_program_data(const ProgramData& program, const TrainingSpec& spec,
                             const std::string& folder) {
  check_program_data(program, spec.data);
  if (!program.train && spec.data.train.empty()) {
    fail(
        "there is no data: name it in the settings (data.train), or bring the program's own by "
        "Training::use_data() or Program::data()");
  }
  data::Data data = [&] {
    if (program.train) return open_own(program, spec.data);
    install_torch_reader();
    data::Data settings = data::open_data(spec.data, folder);
    const auto add = [](data::Dataset& part, const Transform& transform) {
      if (!transform) return;
      part = map_rows(part, std::make_shared<ColumnSamples>(part.columns()), transform);
    };
    add(settings.train, program.transform);
    if (settings.validation) add(*settings.validation, program.transform_validation);
    return settings;
  }();
  if (!data.validation && needs_validations(spec)) {
    fail(
        "the settings need validations (best, early_stopping or a schedule's plateau), but there "
        "are none; bring validation data, or set data.validation_fraction");
  }
  return data;
}

}  // namespace adaptdl
