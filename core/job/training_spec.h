#pragma once

// The settings of a training archive: its extra file adaptdl.yaml, validated (adaptdl-train(5)).
// They define everything of a training job except its model. Plain data: safe to copy, and to share
// for reading.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace adaptdl {

// One tensor of every sample, in the order of training_step's list.
struct DataSource {
  // npy: `path` is a .npy, or a .npz with the member's name in `key`. idx: MNIST's format.
  // csv: numeric columns `columns` (0-based, end exclusive), `header_lines` lines skipped.
  // torch: a tensor written by torch.save, or a dictionary of them, its entry named in `key`.
  // images: all images below the folder `path`; image_labels: the numbers of their classes.
  // tar: the members `.member` of the samples in tar files; `path` may be a pattern of names.
  // text: one long array of tokens. synthetic: generated from `seed`.
  enum class Format { npy, idx, csv, torch, images, image_labels, tar, text, synthetic };
  enum class Tokens { bytes, pieces, words };
  Format format = Format::npy;
  std::string path;  // relative paths are relative to the archive's folder
  std::string key;
  std::string member;             // tar only
  Tokens tokens = Tokens::bytes;  // text only
  std::string vocabulary;         // text only: a path like `path`; of pieces and words
  int header_lines = 0;
  std::optional<std::pair<int, int>> columns;
  std::string dtype;   // "" = as stored; else float32, int64, ...
  double scale = 1.0;  // value * scale + offset, after the conversion to dtype
  double offset = 0.0;
  std::vector<int64_t> shape;     // per sample; empty = as stored. synthetic: required
  int64_t synthetic_samples = 0;  // synthetic only
  int64_t synthetic_classes = 0;  // synthetic only: >0 gives int64 labels in [0, classes)
  uint64_t seed = 0;              // synthetic only
  // >0: each sample is a window of this many consecutive elements of one long array, starting at
  // every `window_stride`-th element and shifted by `window_shift` (characters: the target is the
  // same window shifted by one).
  int64_t window = 0, window_stride = 1, window_shift = 0;
};

struct DataSpec {
  std::vector<DataSource> train;
  std::vector<DataSource> validation;  // empty: see validation_fraction
  double validation_fraction = 0.0;    // of train, split off by split_seed; [0, 1)
  uint64_t split_seed = 0;
  int prefetch_threads = 1;  // per replica, [0, 64]
  int prefetch_batches = 2;  // kept ready, [1, 1024]
  bool shuffle = true;
  bool continuous = false;        // batches go on where the one before ended; then not shuffled
  int64_t shuffle_buffer = 1000;  // of a stream; >= 0
  int shards_at_once = 8;         // of a stream; [1, 64]
  bool drop_last = false;         // drop the rest of a pass that does not fill a batch
};

struct BatchSpec {
  int64_t initial = 0;       // M0, total; the batch the learning rate was tuned for
  bool adaptive = false;     // let adaptdl choose the batch
  int64_t max = 0;           // M_max, total; 0 = initial
  int64_t atomic_min = 1;    // m_min, per replica and forward/backward
  int64_t atomic_max = 0;    // m_max; 0 = max
  bool accumulation = true;  // gradient accumulation allowed
};

struct OptimizerSettings {  // one parameter group's numbers
  double lr = 0.0;          // > 0
  double weight_decay = 0.0;
  double momentum = 0.0;                // sgd, rmsprop
  double dampening = 0.0;               // sgd
  bool nesterov = false;                // sgd
  double beta1 = 0.9, beta2 = 0.999;    // adam, adamw, nadam, lamb, lion
  double eps = 0.0;                     // 0 = the optimizer's own default; not sgd, lion
  bool amsgrad = false;                 // adam, adamw
  double momentum_decay = 4e-3;         // nadam
  bool decoupled_weight_decay = false;  // nadam
  double alpha = 0.99;                  // rmsprop
  bool centered = false;                // rmsprop
  double lr_decay = 0.0;                // adagrad
  double initial_accumulator = 0.0;     // adagrad
  double rho = 0.9;                     // adadelta
};

struct ParameterGroup {
  std::string match;  // glob over parameter names; first matching group wins
  OptimizerSettings settings;
};

struct OptimizerSpec {
  enum class Kind { sgd, adam, adamw, nadam, rmsprop, adagrad, adadelta, lamb, lion, program };
  Kind kind = Kind::sgd;
  OptimizerSettings defaults;  // of every parameter that no group matches
  std::vector<ParameterGroup> groups;
  double clip_norm = 0.0;   // 0 = none; global 2-norm of the averaged gradient
  double clip_value = 0.0;  // 0 = none
};

// The settings of an optimizer where nothing is given. An lr of 0 has to be given.
OptimizerSettings default_settings(OptimizerSpec::Kind kind);

// A factor on every group's learning rate as a function of progress in scale-invariant iterations
// (steps of the initial batch); epochs are converted with D/M0.
struct SchedulePart {
  enum class Kind {
    constant,
    step,
    multi_step,
    exponential,
    linear,
    polynomial,
    cosine,
    cosine_restarts,
    one_cycle,
    warmup,
    plateau
  };
  enum class Anneal { cos, linear };
  enum class ThresholdMode { rel, abs };
  Kind kind = Kind::constant;
  double epochs = 0.0;             // length of this part; 0 = to the end
  bool to_end = false;             // no length was given: fit_schedule() computes it
  double factor = 1.0;             // constant
  double every_epochs = 1.0;       // step, exponential, cosine_restarts: the first interval
  double multiplier = 1.0;         // cosine_restarts: of each interval by the one before, >= 1
  std::vector<double> milestones;  // multi_step, epochs from the part's start
  double gamma = 0.1;              // step, multi_step, exponential, plateau
  double power = 1.0;              // polynomial
  double start_factor = 0.0;       // linear; warmup: linear from here to 1
  double final_factor = 0.0;       // linear, polynomial, cosine, cosine_restarts
  double pct_start = 0.3;          // one_cycle: the fraction of its steps in which the rate rises
  double div_factor = 25.0;        // one_cycle: it starts at 1 / div_factor
  double final_div_factor = 1e4;   // one_cycle: and ends at that divided by this
  Anneal anneal_strategy = Anneal::cos;  // one_cycle
  bool three_phase = false;              // one_cycle
  bool cycle_momentum = true;            // one_cycle
  double base_momentum = 0.85;           // one_cycle: where the rate is highest
  double max_momentum = 0.95;            // one_cycle: where it is lowest
  std::string metric;                    // plateau: a validation metric; "" = loss
  bool maximize = false;                 // plateau
  int patience = 10;                     // plateau, validations without improvement
  int cooldown = 0;                      // plateau, validations after a fall that do not count
  double threshold = 1e-4;               // plateau
  ThresholdMode threshold_mode = ThresholdMode::rel;  // plateau
  double min_factor = 0.0;                            // plateau
};

// A part where nothing but its kind is given.
SchedulePart default_part(SchedulePart::Kind kind);

// The metric of validations by which one model is better than another.
struct BestSpec {
  enum class Mode { min, max };
  std::string metric = "loss";
  Mode mode = Mode::min;
};

struct EarlyStoppingSpec {
  int patience = 0;        // validations without an improvement, >= 1
  double min_delta = 0.0;  // change of the metric that counts as an improvement, >= 0
};

// Weights to start from.
struct FromSpec {
  std::string path;                 // relative paths are relative to the archive's folder
  std::vector<std::string> rename;  // OLD=NEW (weight_match.h)
  std::vector<std::string> ignore;  // globs of names that need not match
};

struct TrainingSpec {
  enum class ScalingRule { adascale, adamscale, linear, sqrt, legw };
  enum class Precision { fp32, bf16, fp16 };
  enum class Averaging { recent, adaptdl };
  enum class Compression { none, bf16 };
  int format = 1;
  std::string name;  // "" = the file's stem
  DataSpec data;
  BatchSpec batch;
  OptimizerSpec optimizer;
  std::vector<SchedulePart> schedule;  // in sequence; empty = constant 1
  std::optional<ScalingRule> rule;     // none: what suits the optimizer
  double legw_warmup_epochs = 0.0;
  Precision precision = Precision::fp32;
  Compression gradient_compression = Compression::none;  // between hosts
  std::optional<FromSpec> from;
  // The best model is kept. Early stopping watches the same metric, and implies it.
  std::optional<BestSpec> best;
  std::optional<EarlyStoppingSpec> early_stopping;
  double epochs = 1.0;                 // > 0
  int64_t max_steps = 0;               // optimizer steps; 0 = no limit
  double max_time_s = 0.0;             // of training, over all restarts; 0 = no limit
  double validate_every_epochs = 1.0;  // > 0
  uint64_t seed = 0;
  bool deterministic = false;    // bitwise the same weights for any replicas
  int deterministic_shards = 8;  // that each step is cut into then, [1, 1024]
  Averaging statistics = Averaging::recent;
  int statistics_every = 0;             // steps between gradient statistics; 0 = chosen by cost
  int max_nonfinite = 10;               // the job fails after so many non-finite losses in a row
  double checkpoint_interval_s = 60.0;  // > 0
  int checkpoints_kept = 3;             // >= 1

  // That each step is cut into; 0: none, the replicas share it.
  int shards() const { return deterministic ? deterministic_shards : 0; }
};

// Parses and validates. `file` names the source in messages. Throws Error
// "FILE:LINE: FIELD: what is wrong; what is allowed". `overrides` are key=value with dotted keys
// ("optimizer.lr=0.1", "data.train.0.path=x.npy"), applied before validation. `own_data`: the
// program may bring the data, so data.train may be missing.
TrainingSpec parse_training_spec(const std::string& yaml, const std::string& file,
                                 const std::vector<std::string>& overrides = {},
                                 bool own_data = false);

// Gives a last part of the schedule whose formula needs a length, and that has none of its own,
// what the parts before leave of `spec.epochs`. parse_training_spec() has done so, except with
// `own_data` where the settings have no `epochs` and nothing is left of the default: call it before
// training, and after another change of `epochs`. Throws Error if it has none, and none is left.
void fit_schedule(TrainingSpec& spec);

// One setting for `adaptdl inspect`: dotted key, its value as text, what it means.
struct SettingLine {
  std::string key, value, meaning;
};
std::vector<SettingLine> describe(const TrainingSpec& spec);

}  // namespace adaptdl
