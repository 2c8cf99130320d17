#include "runtime/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/rng.h"
#include "runtime/data/image_folder.h"

namespace adaptdl::data {
namespace {

// Divides `samples` into `parts` stretches of equal length (up to one) and draws one sample from
// each, in constant memory. Requires: 1 <= parts <= samples.
class Draw {
 public:
  Draw(int64_t samples, int64_t parts, uint64_t seed)
      : samples_(samples), parts_(parts), seed_(splitmix64(seed)) {}

  // The sample drawn from stretch `part`.
  int64_t drawn(int64_t part) const {
    const int64_t begin = start(part), length = start(part + 1) - begin;
    const uint64_t random = splitmix64(seed_ ^ static_cast<uint64_t>(part));
    return begin + static_cast<int64_t>(reduce(random, static_cast<uint64_t>(length)));
  }

  // The i-th sample that is not drawn. Requires: i < samples - parts.
  int64_t rest(int64_t i) const {
    // Before stretch p there are start(p) - p undrawn samples; find the last p with at most i.
    int64_t low = 0, high = parts_;
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (start(middle) - middle <= i ? low : high) = middle;
    }
    const int64_t sample = i + low;
    return sample < drawn(low) ? sample : sample + 1;
  }

 private:
  int64_t start(int64_t part) const {
    return static_cast<int64_t>(static_cast<__int128>(part) * samples_ / parts_);
  }

  int64_t samples_, parts_;
  uint64_t seed_;
};

bool over_same_array(const DataSource& a, const DataSource& b) {
  return a.window > 0 && b.window > 0 && a.path == b.path && a.key == b.key;
}

// The largest shift of the windows over the same array; all of them are shortened by it.
int64_t largest_shift(const std::vector<DataSource>& sources, const DataSource& like) {
  int64_t largest = 0;
  for (const DataSource& source : sources) {
    if (over_same_array(source, like)) largest = std::max(largest, source.window_shift);
  }
  return largest;
}

// How many samples after a sample have elements of its windows, too; 0 where only a shift, such as
// that of the next character, makes windows reach into the next ones.
int64_t samples_overlapping(const std::vector<DataSource>& sources) {
  int64_t most = 0;
  for (const DataSource& source : sources) {
    if (source.window <= source.window_stride) continue;
    int64_t begin = source.window_shift, end = begin + source.window;
    for (const DataSource& other : sources) {
      if (!over_same_array(other, source)) continue;
      begin = std::min(begin, other.window_shift);
      end = std::max(end, other.window_shift + other.window);
    }
    most = std::max(most, (end - begin - 1) / source.window_stride);
  }
  return most;
}

Dataset open_all(const std::vector<DataSource>& sources, const std::string& base_dir,
                 SharedSources& shared) {
  std::vector<std::shared_ptr<const Column>> columns;
  for (const DataSource& source : sources) {
    const int64_t shift = source.window > 0 ? largest_shift(sources, source) : 0;
    columns.push_back(open_column(source, base_dir, shift, &shared));
  }
  return Dataset(std::move(columns));
}

void check_alike(const Dataset& train, const Dataset& validation) {
  const auto &a = train.columns(), &b = validation.columns();
  if (a.size() != b.size()) {
    fail("the training data have {} columns, the validation data {}; both need the same number",
         a.size(), b.size());
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i]->dtype() != b[i]->dtype()) {
      fail(
          "{} holds {}, {} holds {}; training and validation data need the same type (convert "
          "with `dtype`)",
          a[i]->name(), name_of(a[i]->dtype()), b[i]->name(), name_of(b[i]->dtype()));
    }
    if (a[i]->shape() != b[i]->shape()) {
      fail(
          "a sample of {} and one of {} differ in shape; training and validation need the same "
          "shape",
          a[i]->name(), b[i]->name());
    }
  }
}

// The numbers of classes must mean the same in training and validation.
void check_classes(const DataSpec& spec, const std::string& base_dir, const SharedSources& shared) {
  for (size_t i = 0; i < std::min(spec.train.size(), spec.validation.size()); ++i) {
    const DataSource &train = spec.train[i], &validation = spec.validation[i];
    if (train.format != DataSource::Format::image_labels || validation.format != train.format) {
      continue;
    }
    const std::string paths[] = {join_path(base_dir, train.path),
                                 join_path(base_dir, validation.path)};
    const auto &a = shared.folders.at(paths[0])->classes(),
               &b = shared.folders.at(paths[1])->classes();
    if (a == b) continue;
    const auto [first, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    const auto shown = [](auto at, const auto& names) {
      return at == names.end() ? std::string("none") : '"' + *at + '"';
    };
    fail(
        "{} and {} hold different classes: number {} is {} and {}; both need folders of the same "
        "names",
        paths[0], paths[1], first - a.begin(), shown(first, a), shown(other, b));
  }
}

}  // namespace

Dataset::Dataset(std::vector<std::shared_ptr<const Column>> columns)
    : columns_(std::move(columns)) {
  if (columns_.empty()) fail("no data: name at least one source under data.train");
  size_ = columns_.front()->rows();
  for (const auto& column : columns_) {
    if (column->rows() != size_) {
      fail("{} has {} samples, {} has {}; all columns need the same number",
           columns_.front()->name(), size_, column->name(), column->rows());
    }
  }
  if (size_ < 1) fail("{}: holds no samples", columns_.front()->name());
  Digest digest;
  for (const auto& column : columns_) digest.add(column->content());
  content_ = digest.value();
}

std::string Dataset::name() const {
  if (columns_.empty()) return "the program's data";
  std::vector<std::string> names;
  for (const auto& column : columns_) {
    if (std::ranges::find(names, column->name()) == names.end()) names.push_back(column->name());
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

Dataset Dataset::subset(int64_t begin, int64_t end) const {
  ADAPTDL_CHECK(0 <= begin && begin < end && end <= size_);
  Dataset result = *this;
  result.size_ = end - begin;
  result.map_ = [inner = map_, begin](int64_t i) { return inner ? inner(begin + i) : begin + i; };
  return result;
}

std::pair<Dataset, Dataset> Dataset::split(double fraction, uint64_t seed) const {
  ADAPTDL_CHECK(fraction > 0.0 && fraction < 1.0);
  if (in_order_) {
    fail(
        "data.validation_fraction: a stream cannot be divided; remove it, and bring a data set for "
        "validation");
  }
  const int64_t parts = std::max<int64_t>(1, std::llround(fraction * static_cast<double>(size_)));
  if (parts >= size_) {
    fail("{}: {} samples, of which {} would go into validation: no samples left to train on",
         name(), size_, parts);
  }
  const Draw draw(size_, parts, seed);
  const auto mapped = [inner = map_](int64_t i) { return inner ? inner(i) : i; };
  std::pair<Dataset, Dataset> result(*this, *this);
  result.first.size_ = size_ - parts;
  result.first.map_ = [draw, mapped](int64_t i) { return mapped(draw.rest(i)); };
  result.second.size_ = parts;
  result.second.map_ = [draw, mapped](int64_t i) { return mapped(draw.drawn(i)); };
  return result;
}

Data open_data(const DataSpec& spec, const std::string& base_dir) {
  SharedSources shared;
  const Dataset train = open_all(spec.train, base_dir, shared);
  if (!spec.validation.empty()) {
    const Dataset validation = open_all(spec.validation, base_dir, shared);
    check_alike(train, validation);
    check_classes(spec, base_dir, shared);
    return {train, validation};
  }
  return split_off_validation(spec, train);
}

Data split_off_validation(const DataSpec& spec, const Dataset& all) {
  if (spec.validation_fraction <= 0.0) return {all, std::nullopt};
  const int64_t overlapping = samples_overlapping(spec.train);
  if (spec.continuous || overlapping > 0) {
    const int64_t size = all.size();
    const int64_t first = size - std::llround(spec.validation_fraction * static_cast<double>(size));
    // Training on the windows before these would be training on a part of them.
    const int64_t kept = first - overlapping;
    if (kept < 1 || first == size) {
      fail("data.validation_fraction leaves no samples for training or none for validation");
    }
    return {all.subset(0, kept), all.subset(first, size)};
  }
  auto [rest, drawn] = all.split(spec.validation_fraction, spec.split_seed);
  return {rest, drawn};
}

}  // namespace adaptdl::data
