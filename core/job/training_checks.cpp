#include "core/job/training_checks.h"

#include <cmath>

#include "core/base/error.h"
#include "core/job/weight_match.h"

namespace adaptdl::settings {
namespace {

using Format = DataSource::Format;
using PartKind = SchedulePart::Kind;

// More elements would overflow byte counts of a batch.
constexpr int64_t kMaxElements = int64_t{1} << 40;

constexpr int64_t kMaxImageSide = 16384;  // pixels

class Checker {
 public:
  Checker(TrainingSpec& spec, const Places& places, bool own_data)
      : spec_(spec), places_(places), own_data_(own_data) {}

  void run() {
    name();
    data();
    batch();
    if (spec_.optimizer.defaults.lr == 0) {
      refuse("optimizer.lr", "is missing; it must be a number above 0");
    }
    optimizer("optimizer", spec_.optimizer.defaults);
    for (size_t i = 0; i < spec_.optimizer.groups.size(); ++i) {
      const std::string path = fmt::format("optimizer.groups.{}", i);
      if (spec_.optimizer.groups[i].match.empty()) {
        refuse(path + ".match", "is empty; a pattern such as *.bias is needed");
      }
      optimizer(path, spec_.optimizer.groups[i].settings);
    }
    schedule();
    from();
    best();
    deterministic();
    const bool legw = spec_.rule == TrainingSpec::ScalingRule::legw;
    if (legw && spec_.legw_warmup_epochs == 0) {
      refuse("legw_warmup_epochs", "is missing; rule: legw needs it, a number above 0");
    }
    if (!legw && given("legw_warmup_epochs")) {
      refuse("legw_warmup_epochs", "is used only by rule: legw; remove it, or set that rule");
    }
  }

 private:
  bool given(const std::string& path) const {
    const auto found = places_.find(path);
    return found != places_.end() && found->second.present();
  }

  [[noreturn]] void refuse(const std::string& path, const std::string& problem) const {
    const auto found = places_.find(path);
    ADAPTDL_CHECK(found != places_.end());
    found->second.refuse(problem);
  }

  void name() const {
    const std::string& name = spec_.name;
    if (!given("name")) return;
    const auto letter_or_digit = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    };
    bool fits = !name.empty() && name.size() <= 63 && letter_or_digit(name[0]);
    for (const char c : name)
      fits = fits && (letter_or_digit(c) || c == '-' || c == '_' || c == '.');
    if (!fits) {
      refuse("name",
             "is not a valid name; it needs 1 to 63 letters, digits, '-', '_' or '.', the first a "
             "letter or digit");
    }
  }

  void data() const {
    const DataSpec& data = spec_.data;
    sources("data.train", data.train);
    if (data.continuous && given("data.shuffle") && data.shuffle) {
      refuse("data.shuffle", "contradicts data.continuous; remove one of the two");
    }
    if (data.validation.empty()) return;
    sources("data.validation", data.validation);
    if (data.validation_fraction > 0) {
      refuse("data.validation_fraction",
             "contradicts data.validation; give one of the two, or 0 here");
    }
    if (data.validation.size() != data.train.size()) {
      refuse("data.validation", fmt::format("has {} tensors, but data.train has {}; both must have "
                                            "the same number",
                                            data.validation.size(), data.train.size()));
    }
  }

  void sources(const std::string& list, const std::vector<DataSource>& sources) const {
    for (size_t i = 0; i < sources.size(); ++i) source(fmt::format("{}.{}.", list, i), sources[i]);
  }

  void source(const std::string& at, const DataSource& source) const {
    if (source.format == Format::synthetic) {
      if (source.synthetic_samples < 1) {
        refuse(at + "samples", "is missing or 0; format: synthetic needs an integer from 1");
      }
      if (source.synthetic_classes == 0 && source.shape.empty()) {
        refuse(at + "shape",
               "is missing; format: synthetic needs the shape of a sample, such as "
               "[1, 8, 8], or classes to generate labels");
      }
    } else if (source.path.empty()) {
      refuse(at + "path", "is missing or empty; the name of a file is needed");
    }
    if (source.format == Format::tar) member(at, source);
    if (source.format == Format::images) image_shape(at, source);
    if (source.format == Format::text) text(at, source);
    int64_t elements = 1;
    for (const int64_t size : source.shape) {
      if (__builtin_mul_overflow(elements, size, &elements) || elements > kMaxElements) {
        refuse(at + "shape", fmt::format("is larger than a sample can be; at most {} elements are "
                                         "allowed",
                                         kMaxElements));
      }
    }
    if (source.window == 0) {
      for (const char* key : {"window_stride", "window_shift"}) {
        if (given(at + key))
          refuse(at + key, "is used only with window; set window, or remove this");
      }
    }
  }

  void image_shape(const std::string& at, const DataSource& source) const {
    const std::vector<int64_t>& shape = source.shape;
    const char* wanted =
        "images need [CHANNELS, HEIGHT, WIDTH] with 1 or 3 channels, for instance "
        "[3, 224, 224]";
    if (shape.empty()) refuse(at + "shape", fmt::format("is missing; {}", wanted));
    if (shape.size() != 3 || (shape[0] != 1 && shape[0] != 3)) {
      refuse(at + "shape", fmt::format("is not the shape of an image; {}", wanted));
    }
    if (shape[1] > kMaxImageSide || shape[2] > kMaxImageSide) {
      refuse(at + "shape", fmt::format("is larger than an image can be; a side may have at most {} "
                                       "pixels",
                                       kMaxImageSide));
    }
  }

  void member(const std::string& at, const DataSource& source) const {
    const std::string_view member = source.member;
    if (member.empty()) {
      refuse(at + "member", "is missing; format: tar needs the kind of member, such as jpg or cls");
    }
    const std::string_view kind = member.substr(member.rfind('.') + 1);
    if (kind == "jpg" || kind == "jpeg" || kind == "png") return image_shape(at, source);
    if (kind != "cls" && kind != "npy") {
      refuse(at + "member", fmt::format("is {}; read are jpg, jpeg, png, cls and npy, also after "
                                        "another name, as in mask.png",
                                        member));
    }
  }

  void text(const std::string& at, const DataSource& source) const {
    const bool bytes = source.tokens == DataSource::Tokens::bytes;
    if (!bytes && source.vocabulary.empty()) {
      refuse(at + "vocabulary",
             "is missing; tokens: pieces and tokens: words need the file that "
             "numbers them");
    }
    if (bytes && !source.vocabulary.empty()) {
      refuse(at + "vocabulary",
             "is not used by tokens: bytes; set tokens to pieces or words, or "
             "remove this");
    }
    if (source.window == 0) {
      refuse(at + "window", "is missing or 0; format: text needs the number of tokens of a sample");
    }
  }

  void batch() {
    BatchSpec& batch = spec_.batch;
    if (batch.max == 0) batch.max = batch.initial;
    if (batch.max < batch.initial) {
      refuse("batch.max", fmt::format("{} is below batch.initial; an integer of at least {} is "
                                      "allowed",
                                      batch.max, batch.initial));
    }
    if (batch.atomic_min > batch.initial) {
      refuse("batch.atomic_min",
             fmt::format("{} is above batch.initial; an integer from 1 to {} is "
                         "allowed",
                         batch.atomic_min, batch.initial));
    }
    if (batch.atomic_max == 0) batch.atomic_max = batch.max;
    if (batch.atomic_max < batch.atomic_min) {
      refuse("batch.atomic_max", fmt::format("{} is below atomic_min; an integer of at least {} is "
                                             "allowed",
                                             batch.atomic_max, batch.atomic_min));
    }
  }

  void optimizer(const std::string& at, const OptimizerSettings& settings) const {
    if (!settings.nesterov) return;
    // A group may inherit `nesterov` and set only the momentum, so find the key that was written.
    const std::string place = given(at + ".nesterov")   ? at + ".nesterov"
                              : given(at + ".momentum") ? at + ".momentum"
                                                        : at + ".dampening";
    if (settings.momentum == 0) {
      refuse(place, "nesterov needs momentum; set momentum above 0, or nesterov: false");
    }
    if (settings.dampening != 0) {
      refuse(place, "nesterov does not work with dampening; set dampening: 0, or nesterov: false");
    }
  }

  void schedule() {
    double before = 0.0;
    for (size_t i = 0; i < spec_.schedule.size(); ++i) {
      SchedulePart& part = spec_.schedule[i];
      const std::string at = fmt::format("schedule.{}.", i);
      if (part.epochs == 0 && i + 1 < spec_.schedule.size()) {
        refuse(at + "epochs",
               "is missing or 0, so the next part would never start; a number above 0 is needed "
               "in all parts but the last");
      }
      if (part.kind == PartKind::warmup && part.epochs == 0) {
        refuse(at + "epochs", "is missing or 0; warmup needs its length, a number above 0");
      }
      if (ends_by_itself(part.kind) && part.epochs == 0) {
        part.to_end = true;
        if (spec_.epochs > before) {
          part.epochs = spec_.epochs - before;
        } else if (!own_data_ || given("epochs")) {
          refuse(at + "epochs", nothing_left(spec_.epochs));
        }
      }
      if (part.kind == PartKind::multi_step) milestones(at + "milestones", part);
      if (part.threshold_mode == SchedulePart::ThresholdMode::rel && part.threshold >= 1) {
        refuse(at + "threshold",
               fmt::format("is {}; with threshold_mode: rel it must be below 1", part.threshold));
      }
      if (part.kind == PartKind::one_cycle && part.cycle_momentum) momentum(at + "cycle_momentum");
      if (part.kind == PartKind::plateau) needs_validations(at + "kind", "plateau");
      before += part.epochs;
    }
  }

  void needs_validations(const std::string& path, const char* what) const {
    if (!spec_.data.validation.empty() || spec_.data.validation_fraction > 0) return;
    if (spec_.data.train.empty()) return;  // a program brings its data
    refuse(path, fmt::format("{} needs validations, but there are none; set "
                             "data.validation_fraction or data.validation",
                             what));
  }

  void from() const {
    if (!spec_.from) return;
    if (spec_.from->path.empty()) refuse("from.path", "is empty; the name of a file is needed");
    for (const std::string& rule : spec_.from->rename) {
      const std::string problem = problem_of_rename(rule);
      if (!problem.empty()) refuse("from.rename", fmt::format("'{}' {}", rule, problem));
    }
  }

  void best() {
    if (spec_.best) needs_validations("best", "the best model");
    if (spec_.best && spec_.best->metric.empty()) {
      refuse("best.metric", "is empty; the name of a metric is needed");
    }
    if (!spec_.early_stopping) return;
    needs_validations("early_stopping", "early_stopping");
    if (!spec_.best) spec_.best.emplace();
  }

  // What follows from the number of replicas, or from the time, cannot be the same in each run.
  void deterministic() const {
    if (!spec_.deterministic) {
      if (given("deterministic_shards")) {
        refuse("deterministic_shards",
               "is used only with deterministic: true; remove it, or set that");
      }
      return;
    }
    if (spec_.batch.adaptive) {
      refuse("batch.adaptive",
             "contradicts deterministic: the batch would follow measured times; set one of the "
             "two to false");
    }
    if (spec_.data.continuous) {
      refuse("data.continuous",
             "contradicts deterministic: a place in the batch goes on where it ended on the same "
             "replica; set one of the two to false");
    }
    if (spec_.max_time_s > 0) {
      refuse("max_time",
             "contradicts deterministic: training would end by the clock; use max_steps, or set "
             "deterministic: false");
    }
    if (spec_.gradient_compression != TrainingSpec::Compression::none) {
      refuse("gradient_compression",
             "contradicts deterministic: which replicas are on one host would change the weights; "
             "set it to none, or deterministic: false");
    }
    const int64_t shards = spec_.deterministic_shards;
    const int64_t largest = (spec_.batch.initial + shards - 1) / shards;
    if (largest > spec_.batch.atomic_max) {
      refuse("batch.atomic_max",
             fmt::format("{} is less than the {} samples of a shard: with deterministic each of "
                         "the {} shards of batch.initial, {}, is one pass; raise "
                         "deterministic_shards or this",
                         spec_.batch.atomic_max, largest, shards, spec_.batch.initial));
    }
  }

  // Of these kinds the length is part of the formula.
  static bool ends_by_itself(PartKind kind) {
    return kind == PartKind::linear || kind == PartKind::polynomial || kind == PartKind::cosine ||
           kind == PartKind::one_cycle;
  }

  // Whether there is a momentum to cycle.
  void momentum(const std::string& path) const {
    using Kind = OptimizerSpec::Kind;
    const OptimizerSpec& optimizer = spec_.optimizer;
    if (optimizer.kind == Kind::adagrad || optimizer.kind == Kind::adadelta) {
      refuse(path,
             "one_cycle cycles the momentum, which this optimizer does not have; set "
             "cycle_momentum: false");
    }
    if (optimizer.kind == Kind::nadam) {
      refuse(path,
             "one_cycle cycles the momentum, but nadam has a schedule of its own for it; set "
             "cycle_momentum: false");
    }
    if (optimizer.kind != Kind::sgd && optimizer.kind != Kind::rmsprop) return;
    bool some = optimizer.defaults.momentum > 0;
    for (const ParameterGroup& group : optimizer.groups) some = some && group.settings.momentum > 0;
    if (!some) {
      refuse(path,
             "one_cycle cycles the momentum, but optimizer.momentum is 0; set "
             "cycle_momentum: false, or any momentum above 0");
    }
  }

  void milestones(const std::string& path, const SchedulePart& part) const {
    if (part.milestones.empty()) {
      refuse(path, "is missing or empty; multi_step needs rising numbers above 0, in epochs");
    }
    double last = 0.0;
    for (const double milestone : part.milestones) {
      if (!(milestone > last)) refuse(path, "does not rise; give rising numbers above 0");
      last = milestone;
    }
    if (part.epochs > 0 && last > part.epochs) {
      refuse(path, fmt::format("{} is past the part's end; numbers up to {} are allowed", last,
                               part.epochs));
    }
  }

  TrainingSpec& spec_;
  const Places& places_;
  bool own_data_;
};

}  // namespace

void check_and_complete(TrainingSpec& spec, const Places& places, bool own_data) {
  Checker(spec, places, own_data).run();
}

std::string nothing_left(double epochs) {
  return fmt::format(
      "is missing, and the parts before take all {} epochs; a number above 0 is needed", epochs);
}

}  // namespace adaptdl::settings
