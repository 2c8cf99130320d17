// The table of all settings of adaptdl.yaml.

#include <algorithm>

#include "core/job/setting_field.h"
#include "core/job/training_spec.h"

namespace adaptdl::settings {
namespace {

using Names = std::vector<std::string_view>;

struct Extra {
  std::string_view unit = {};
  Names choices = {};
  Names applies = {};
  bool required = false;
  std::string_view fallback = {};
  bool duration = false;
};

template <auto Member>
Field field(std::string_view key, NumberBounds bounds, std::string_view doc, Extra extra = {}) {
  using A = Access<Member>;
  Field f;
  f.key = key;
  f.type = extra.duration ? Type::duration : A::type();
  f.unit = extra.unit;
  f.bounds = bounds;
  if (f.type == Type::integer || f.type == Type::integers) {
    f.bounds.high = std::min(f.bounds.high, A::limit());
  }
  f.choices = std::move(extra.choices);
  f.applies = std::move(extra.applies);
  f.required = extra.required;
  f.fallback = extra.fallback;
  f.doc = doc;
  f.get = &A::get;
  f.set = &A::set;
  return f;
}

constexpr NumberBounds any() {
  return {};
}

const TrainingSpec kSpec;
const DataSource kSource;
const OptimizerSettings kNumbers;
const ParameterGroup kGroup;
const SchedulePart kPart;
const BestSpec kBest;
const EarlyStoppingSpec kEarlyStopping;
const FromSpec kFrom;

Section root() {
  using S = TrainingSpec;
  return {
      "",
      "The file is one YAML map of these keys and of the maps and lists below.",
      {
          field<&S::format>("format", between(1, 1), "Number of this format."),
          field<&S::name>("name", any(),
                          "Name of the job: 1 to 63 letters, digits, '-', '_' or '.', the first a "
                          "letter or digit.",
                          {.fallback = "the file's name without .pt"}),
          field<&S::epochs>(
              "epochs", above(0),
              "Length of the training, in passes over the training data at the initial batch.",
              {.unit = "epochs"}),
          field<&S::max_steps>("max_steps", at_least(0),
                               "Number of optimizer steps, skipped ones included, after which "
                               "training ends even if epochs remain; 0: no limit.",
                               {.unit = "steps"}),
          field<&S::max_time_s>(
              "max_time", at_least(0),
              "Time of training after which it ends even if epochs remain; 0: no limit. It is the "
              "sum of the times from step to step: validations, checkpoints and rescales count, "
              "the time before a restart too, the time without replicas does not.",
              {.duration = true}),
          field<&S::rule>(
              "rule", any(),
              "How the learning rate follows the batch. adascale: by the gain measured from the "
              "gradients; adamscale: by its square root; linear, sqrt: by the batch's ratio to the "
              "initial one or its square root; legw: sqrt with a warm-up.",
              {.choices = {"adascale", "adamscale", "linear", "sqrt", "legw"},
               .fallback = "adascale for sgd and adagrad, the program's own for program, "
                           "adamscale for the others"}),
          field<&S::legw_warmup_epochs>("legw_warmup_epochs", at_least(0),
                                        "Length of legw's warm-up at the initial batch; only with "
                                        "rule: legw, which needs it.",
                                        {.unit = "epochs"}),
          field<&S::precision>(
              "precision", any(),
              "Number format of forward passes, by autocast; parameters, gradients and the "
              "optimizer's state stay as they are. fp16: with a dynamic loss scale.",
              {.choices = {"fp32", "bf16", "fp16"}}),
          field<&S::gradient_compression>(
              "gradient_compression", any(),
              "Number format in which fp32 gradients travel where replicas are on several hosts. "
              "bf16: half the bytes; the rounding error of a replica's gradient is added to its "
              "next one. Sparse gradients, and all by NCCL, stay as they are.",
              {.choices = {"none", "bf16"}}),
          field<&S::validate_every_epochs>(
              "validate_every_epochs", above(0),
              "Time from one validation to the next; there is always one at the end.",
              {.unit = "epochs"}),
          field<&S::seed>("seed", at_least(0),
                          "Seed of all random choices in training, such as the order of the "
                          "samples and dropout."),
          field<&S::deterministic>(
              "deterministic", any(),
              "Train bitwise the same weights for any number of replicas, whatever rescales, "
              "deaths and restarts there are; adaptdl-train(5) says how, and what must not "
              "change."),
          field<&S::deterministic_shards>(
              "deterministic_shards", between(1, 1024),
              "Number of shards that deterministic cuts each step into, and of the replicas that "
              "can share a step; another number gives other weights.",
              {.unit = "shards"}),
          field<&S::statistics>(
              "statistics", any(),
              "Averaging of the gradient statistics. recent: over the part of training that looks "
              "like the present; adaptdl: over 1000 steps of the initial batch, whatever changed "
              "since, as AdaptDL does.",
              {.choices = {"recent", "adaptdl"}}),
          field<&S::statistics_every>("statistics_every", at_least(0),
                                      "Optimizer steps from one measurement of gradient statistics "
                                      "to the next; 0: adaptdl chooses by their cost.",
                                      {.unit = "steps"}),
          field<&S::max_nonfinite>(
              "max_nonfinite", at_least(1),
              "Number of steps in a row with a loss or gradient that is "
              "infinite or not a number, after which the job fails. Such a step is skipped.",
              {.unit = "steps"}),
          field<&S::checkpoint_interval_s>("checkpoint_interval_s", above(0),
                                           "Longest time from one checkpoint to the next.",
                                           {.unit = "seconds"}),
          field<&S::checkpoints_kept>("checkpoints_kept", between(1, 1000),
                                      "Number of newest checkpoints kept on disk."),
      },
      &kSpec};
}

Section data() {
  using S = DataSpec;
  return {
      "data",
      "Sources of the samples: the list train and, optionally, the list validation.",
      {
          field<&S::validation_fraction>("validation_fraction", from_to_below(0, 1),
                                         "Fraction of the training samples reserved for "
                                         "validation; not with a list validation. If windows "
                                         "overlap, the last ones."),
          field<&S::split_seed>("split_seed", at_least(0), "Seed of the choice of these samples."),
          field<&S::prefetch_threads>(
              "prefetch_threads", between(0, 64),
              "Threads of each replica that prepare batches; 0 prepares them between steps."),
          field<&S::prefetch_batches>("prefetch_batches", between(1, 1024),
                                      "Batches of each replica kept ready.", {.unit = "batches"}),
          field<&S::shuffle>("shuffle", any(), "Shuffle the samples for every pass."),
          field<&S::continuous>(
              "continuous", any(),
              "Each place in a batch goes on with the samples in order: for models that carry "
              "state from one window of a text to the next. Not shuffled; validation_fraction "
              "takes the last samples. An epoch of schedules is one of whole batches, as with "
              "drop_last."),
          field<&S::shuffle_buffer>("shuffle_buffer", between(0, 1 << 30),
                                    "Samples of a program's stream that are shuffled together; a "
                                    "replica keeps its own of them in memory. 0: shuffle only the "
                                    "shards.",
                                    {.unit = "samples"}),
          field<&S::shards_at_once>(
              "shards_at_once", between(1, 64),
              "Shards of a program's stream that are read side by side, if it is shuffled.",
              {.unit = "shards"}),
          field<&S::drop_last>(
              "drop_last", any(),
              "Skip the last samples of a pass if they do not fill a batch; an epoch of schedules "
              "is then one of whole batches, unless these take several passes."),
      },
      &kSpec.data};
}

Section source() {
  using S = DataSource;
  const Names stored = {"npy", "idx", "csv", "torch", "images", "image_labels", "tar", "text"};
  const Names arrays = {"npy", "idx", "csv", "torch", "text"};
  const Names synthetic = {"synthetic"};
  return {
      "data.train[], data.validation[]",
      "One tensor of every sample each, in the order of training_step's list. All sources of a "
      "list "
      "have equally many samples; both lists are of the same length.",
      {
          field<&S::format>(
              "format", any(),
              "npy: a .npy file, or a member of a .npz; idx: MNIST's format; csv: columns of "
              "numbers; torch: a tensor written by torch.save; images: all JPEG and PNG images "
              "below a folder; image_labels: the numbers of their classes; tar: members of the "
              "samples in tar files, as WebDataset has them; text: tokens of a text; synthetic: "
              "generated.",
              {.choices = {"npy", "idx", "csv", "torch", "images", "image_labels", "tar", "text",
                           "synthetic"}}),
          field<&S::path>(
              "path", any(),
              "The file, or the folder of images; relative to the folder of the archive. tar: "
              "also a pattern of names with *, ?, [...], {A,B} and {000..099}.",
              {.applies = stored, .fallback = "required, except for synthetic"}),
          field<&S::key>("key", any(),
                         "Name of the member of a .npz, or of the entry of a dictionary that "
                         "torch.save wrote.",
                         {.applies = {"npy", "torch"}, .fallback = "the only one"}),
          field<&S::member>(
              "member", any(),
              "The member of each sample that is its tensor, by what follows the first dot of "
              "its name: jpg, jpeg or png, an image; cls, an integer as text; npy, an array.",
              {.applies = {"tar"}, .fallback = "required"}),
          field<&S::tokens>(
              "tokens", any(),
              "What is a token. bytes: each byte; pieces: the longest text of the vocabulary "
              "that follows; words: a word, or a single punctuation mark, without the blanks.",
              {.choices = {"bytes", "pieces", "words"}, .applies = {"text"}}),
          field<&S::vocabulary>(
              "vocabulary", any(),
              "The file that numbers pieces or words: one each line, the first has the number "
              "0; \\n, \\t, \\r and \\\\ stand for a line's end, a tab, a carriage return and a "
              "backslash. What is not in it becomes <unk>, if it has that line.",
              {.applies = {"text"}, .fallback = "required for pieces and words"}),
          field<&S::header_lines>("header_lines", at_least(0), "Lines to skip at the top.",
                                  {.unit = "lines", .applies = {"csv"}}),
          field<&S::columns>(
              "columns", at_least(0),
              "[FIRST, END]: columns from FIRST, counted from 0, up to but not including END.",
              {.applies = {"csv"}, .fallback = "all columns"}),
          field<&S::dtype>(
              "dtype", any(), "Type that the numbers are converted to.",
              {.choices = {"float32", "float64", "float16", "bfloat16", "uint8", "int8", "int16",
                           "int32", "int64", "bool"},
               .fallback = "as stored, images uint8; csv: float32; image_labels, cls, text: int64; "
                           "synthetic: float32, with classes int64"}),
          field<&S::scale>("scale", any(),
                           "Factor for every number after the conversion. Integers need a whole "
                           "one."),
          field<&S::offset>("offset", any(),
                            "Number added after scale. Integers need a whole one."),
          field<&S::shape>("shape", at_least(1),
                           "Shape of one sample's tensor, for instance [1, 8, 8]. Images: "
                           "[CHANNELS, HEIGHT, WIDTH] with 1 (grey) or 3 channels.",
                           {.fallback = "as stored; required for images, and for synthetic "
                                        "without classes"}),
          field<&S::synthetic_samples>(
              "samples", at_least(0), "Number of samples to generate.",
              {.unit = "samples", .applies = synthetic, .fallback = "required"}),
          field<&S::synthetic_classes>("classes", at_least(0),
                                       "Generate integer labels from 0 to below this; 0: "
                                       "generate normally distributed numbers.",
                                       {.applies = synthetic}),
          field<&S::seed>("seed", at_least(0), "Seed of the generated samples.",
                          {.applies = synthetic}),
          field<&S::window>("window", at_least(0),
                            "Cut samples out of one long array: each has this many consecutive "
                            "elements; 0: do not. Required for text.",
                            {.unit = "elements", .applies = arrays}),
          field<&S::window_stride>(
              "window_stride", at_least(1),
              "Elements from the start of one window to the start of the next.",
              {.unit = "elements", .applies = arrays}),
          field<&S::window_shift>(
              "window_shift", at_least(0),
              "Shift of all windows: 1 gives, for each element of a window, the next element.",
              {.unit = "elements", .applies = arrays}),
      },
      &kSource};
}

Section batch() {
  using S = BatchSpec;
  return {
      "batch",
      "Batch sizes are totals over all replicas, except for the atomic batch, which one replica "
      "processes in one pass. atomic: [MIN, MAX] sets atomic_min and atomic_max.",
      {
          field<&S::initial>(
              "initial", at_least(1),
              "Batch size for which the learning rate was chosen; training starts with it.",
              {.unit = "samples", .required = true}),
          field<&S::adaptive>(
              "adaptive", any(),
              "Let adaptdl choose batch size and accumulation for the best goodput, up to max."),
          field<&S::max>("max", at_least(0), "Largest batch size; 0: the initial one.",
                         {.unit = "samples", .fallback = "initial"}),
          field<&S::atomic_min>("atomic_min", at_least(1), "Smallest atomic batch size.",
                                {.unit = "samples"}),
          field<&S::atomic_max>("atomic_max", at_least(0),
                                "Largest atomic batch size, as memory allows; 0: max.",
                                {.unit = "samples", .fallback = "max"}),
          field<&S::accumulation>(
              "accumulation", any(),
              "Allow gradient accumulation over several atomic batches in one optimizer step."),
      },
      &kSpec.batch};
}

Section optimizer() {
  using S = OptimizerSpec;
  return {
      "optimizer",
      "Options and arithmetic are those of PyTorch's optimizers of the same names; lamb is that of "
      "arXiv 1904.00962, lion that of arXiv 2302.06675.",
      {
          field<&S::kind>("kind", any(),
                          "The optimizer. program: the one that a program of the runtime library "
                          "brings (adaptdl/optimizer.h).",
                          {.choices = {"sgd", "adam", "adamw", "nadam", "rmsprop", "adagrad",
                                       "adadelta", "lamb", "lion", "program"}}),
          field<&S::clip_norm>("clip_norm", at_least(0),
                               "Largest 2-norm of the averaged gradient over all parameters; a "
                               "larger gradient is scaled down to it. 0: no limit."),
          field<&S::clip_value>(
              "clip_value", at_least(0),
              "Largest magnitude of any element of the averaged gradient. 0: no limit."),
      },
      &kSpec.optimizer};
}

Section optimizer_numbers() {
  using S = OptimizerSettings;
  const Names adams = {"adam", "adamw"}, averaging = {"adam", "adamw", "nadam", "lamb", "lion"};
  return {
      "optimizer, optimizer.groups[]",
      "",
      {
          field<&S::lr>("lr", above(0), "Learning rate at the initial batch.",
                        {.fallback = "required; adadelta: 1"}),
          field<&S::weight_decay>(
              "weight_decay", at_least(0),
              "Weight decay: decoupled for adamw and lion, added to the update before it is "
              "normalised for lamb, handed to the program's for program, added to the gradient for "
              "the others. The default is 0 for adamw, too (PyTorch's: 0.01)."),
          field<&S::decoupled_weight_decay>("decoupled_weight_decay", any(),
                                            "Decouple nadam's weight decay, too.",
                                            {.applies = {"nadam"}}),
          field<&S::momentum>("momentum", from_to_below(0, 1), "Momentum.",
                              {.applies = {"sgd", "rmsprop"}}),
          field<&S::dampening>("dampening", between(0, 1), "Dampening of the momentum.",
                               {.applies = {"sgd"}}),
          field<&S::nesterov>("nesterov", any(),
                              "Nesterov's momentum; needs momentum above 0 and no dampening.",
                              {.applies = {"sgd"}}),
          field<&S::beta1>("beta1", from_to_below(0, 1),
                           "Decay of the average gradient; lion: as the update sees it.",
                           {.applies = averaging}),
          field<&S::beta2>("beta2", from_to_below(0, 1),
                           "Decay of the average squared gradient; lion: of the average gradient.",
                           {.applies = averaging, .fallback = "0.999; lion: 0.99"}),
          field<&S::momentum_decay>("momentum_decay", at_least(0),
                                    "How fast the momentum rises from beta1 / 2 to beta1.",
                                    {.applies = {"nadam"}}),
          field<&S::eps>(
              "eps", at_least(0), "Added to denominators; 0 is the optimizer's default.",
              {.applies = {"adam", "adamw", "nadam", "rmsprop", "adagrad", "adadelta", "lamb"},
               .fallback = "1e-8; adadelta and lamb: 1e-6; adagrad: 1e-10"}),
          field<&S::amsgrad>("amsgrad", any(), "Use the largest average squared gradient so far.",
                             {.applies = adams}),
          field<&S::alpha>("alpha", from_to_below(0, 1), "Decay of the average squared gradient.",
                           {.applies = {"rmsprop"}}),
          field<&S::centered>("centered", any(), "Normalise by the estimated variance.",
                              {.applies = {"rmsprop"}}),
          field<&S::lr_decay>("lr_decay", at_least(0), "Decay of the learning rate with the steps.",
                              {.applies = {"adagrad"}}),
          field<&S::initial_accumulator>("initial_accumulator", at_least(0),
                                         "Sum of squared gradients to start with.",
                                         {.applies = {"adagrad"}}),
          field<&S::rho>("rho", from_to_below(0, 1),
                         "Decay of the averages of squared gradients and squared updates.",
                         {.applies = {"adadelta"}}),
      },
      &kNumbers};
}

Section group() {
  return {"optimizer.groups[]",
          "Groups of parameters with options of their own, which default to the optimizer's.",
          {
              field<&ParameterGroup::match>("match", any(),
                                            "Pattern of parameter names: * is any text, ? any "
                                            "character. The first group that matches "
                                            "counts.",
                                            {.required = true}),
          },
          &kGroup};
}

Section schedule() {
  using S = SchedulePart;
  const Names falling = {"step", "multi_step", "exponential", "plateau"};
  return {
      "schedule[]",
      "Factors of the learning rate, as functions of the progress in epochs at the initial batch, "
      "whatever the present batch is. The parts follow one another; each starts from the "
      "optimizer's learning rate. After the last part its final factor stays.",
      {
          field<&S::kind>(
              "kind", any(),
              "constant: factor; step: times gamma every every_epochs; multi_step: times gamma at "
              "each milestone; exponential: gamma to the power of epochs / every_epochs; linear: a "
              "line from start_factor to final_factor; polynomial: from 1 to final_factor by a "
              "power of what is left; cosine: half a wave from 1 to final_factor; "
              "cosine_restarts: such a half wave every every_epochs; one_cycle: up from "
              "1 / div_factor to 1, and down to that divided by final_div_factor; warmup: a line "
              "from start_factor to 1; plateau: times gamma when validations stop improving.",
              {.choices = {"constant", "step", "multi_step", "exponential", "linear", "polynomial",
                           "cosine", "cosine_restarts", "one_cycle", "warmup", "plateau"}}),
          field<&S::epochs>(
              "epochs", at_least(0),
              "Length of the part; 0, in the last part only: to the end of training by the setting "
              "epochs, even if max_steps or max_time ends it before.",
              {.unit = "epochs",
               .fallback = "to the end; required for warmup and before another part"}),
          field<&S::factor>("factor", at_least(0), "The factor.", {.applies = {"constant"}}),
          field<&S::every_epochs>(
              "every_epochs", above(0), "Interval; cosine_restarts: the first one.",
              {.unit = "epochs", .applies = {"step", "exponential", "cosine_restarts"}}),
          field<&S::multiplier>("multiplier", between(1, 100),
                                "How many times as long as the one before each interval is.",
                                {.applies = {"cosine_restarts"}}),
          field<&S::milestones>(
              "milestones", above(0),
              "Points at which the factor falls, from the part's start, in rising order.",
              {.unit = "epochs", .applies = {"multi_step"}, .fallback = "required"}),
          field<&S::gamma>("gamma", {.low = 0, .high = 100, .low_excluded = true},
                           "Multiplier of the factor.", {.applies = falling}),
          field<&S::power>("power", {.low = 0, .high = 100, .low_excluded = true},
                           "Power of the part's fraction that is left.",
                           {.applies = {"polynomial"}}),
          field<&S::start_factor>("start_factor", between(0, 1), "Factor at the start.",
                                  {.applies = {"warmup", "linear"}, .fallback = "0; linear: 1/3"}),
          field<&S::final_factor>("final_factor", at_least(0),
                                  "Factor at the end; cosine_restarts: of each interval.",
                                  {.applies = {"linear", "polynomial", "cosine", "cosine_restarts"},
                                   .fallback = "0; linear: 1"}),
          field<&S::pct_start>("pct_start", between(0, 1),
                               "Fraction of the part in which the factor rises.",
                               {.applies = {"one_cycle"}}),
          field<&S::div_factor>("div_factor", {.low = 1, .high = 1e12},
                                "The factor starts at 1 divided by this.",
                                {.applies = {"one_cycle"}}),
          field<&S::final_div_factor>("final_div_factor", {.low = 1e-3, .high = 1e12},
                                      "The last factor is the first divided by this.",
                                      {.applies = {"one_cycle"}}),
          field<&S::anneal_strategy>("anneal_strategy", any(),
                                     "Between these factors: half a cosine wave, or a line.",
                                     {.choices = {"cos", "linear"}, .applies = {"one_cycle"}}),
          field<&S::three_phase>("three_phase", any(),
                                 "Fall to the first factor as fast as it rose, then to the last.",
                                 {.applies = {"one_cycle"}}),
          field<&S::cycle_momentum>("cycle_momentum", any(),
                                    "Move momentum, or beta1, the other way: from max_momentum to "
                                    "base_momentum, and back.",
                                    {.applies = {"one_cycle"}}),
          field<&S::base_momentum>("base_momentum", from_to_below(0, 1),
                                   "Momentum where the factor is 1.", {.applies = {"one_cycle"}}),
          field<&S::max_momentum>("max_momentum", from_to_below(0, 1),
                                  "Momentum at the start and at the end.",
                                  {.applies = {"one_cycle"}}),
          field<&S::metric>("metric", any(),
                            "Metric to watch, of those that validation_step returns.",
                            {.applies = {"plateau"}, .fallback = "loss"}),
          field<&S::maximize>("maximize", any(), "The metric should rise.",
                              {.applies = {"plateau"}}),
          field<&S::patience>("patience", at_least(0),
                              "Number of validations without improvement before the factor falls.",
                              {.unit = "validations", .applies = {"plateau"}}),
          field<&S::cooldown>("cooldown", at_least(0),
                              "Number of validations after a fall that do not count.",
                              {.unit = "validations", .applies = {"plateau"}}),
          field<&S::threshold>("threshold", at_least(0),
                               "Change of the metric that counts as an improvement.",
                               {.applies = {"plateau"}}),
          field<&S::threshold_mode>(
              "threshold_mode", any(),
              "rel: threshold is relative to the best value, and below 1; abs: a difference.",
              {.choices = {"rel", "abs"}, .applies = {"plateau"}}),
          field<&S::min_factor>("min_factor", between(0, 1), "The factor does not fall below this.",
                                {.applies = {"plateau"}}),
      },
      &kPart};
}

Section best() {
  using S = BestSpec;
  return {"best",
          "With this map, or early_stopping, the model of the best validation so far is kept as "
          "best.pt beside model.pt. Both need validation data.",
          {
              field<&S::metric>("metric", any(),
                                "Metric by which models are compared, of those that "
                                "validation_step returns."),
              field<&S::mode>("mode", any(),
                              "min: the smallest value is the best one; max: the largest.",
                              {.choices = {"min", "max"}}),
          },
          &kBest};
}

Section early_stopping() {
  using S = EarlyStoppingSpec;
  return {"early_stopping",
          "With this map training ends when the metric of best no longer improves.",
          {
              field<&S::patience>("patience", at_least(1),
                                  "Number of validations in a row without an improvement after "
                                  "which training ends.",
                                  {.unit = "validations", .required = true}),
              field<&S::min_delta>("min_delta", at_least(0),
                                   "Change of the metric that counts as an improvement, if it is "
                                   "larger than this."),
          },
          &kEarlyStopping};
}

Section from() {
  using S = FromSpec;
  return {
      "from",
      "With this map a new run begins with the parameters, frozen ones too, and buffers of a "
      "file. A run that has a checkpoint of its own continues from that. Tensors match by their "
      "names; numbers of another precision are converted. A buffer that the file lacks keeps "
      "its value.",
      {
          field<&S::path>("path", any(),
                          "The file: a model.pt or train.pt, a dictionary of tensors that "
                          "torch.save wrote, or a .safetensors file; relative to the folder of "
                          "the archive.",
                          {.required = true}),
          field<&S::rename>("rename", any(),
                            "Rules OLD=NEW that change names of the file, such as "
                            "\"module.*=*\"; the first one that matches a whole name counts. "
                            "One * on each side stands for the same text."),
          field<&S::ignore>("ignore", any(),
                            "Patterns of names that need not match, such as \"head.*\": * is "
                            "any text, ? any character. Such a parameter keeps its value if "
                            "the file lacks it or has another shape; such a tensor of the file "
                            "may be superfluous. Everything else must match."),
      },
      &kFrom};
}

}  // namespace

const Table& table() {
  static const Table table = {
      root(),  data(),     source(), batch(),          optimizer(), optimizer_numbers(),
      group(), schedule(), best(),   early_stopping(), from()};
  return table;
}

}  // namespace adaptdl::settings
