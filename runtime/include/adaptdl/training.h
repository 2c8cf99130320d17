#pragma once

// The open loop: a program keeps its own main, model and loop, and this library feeds and steps it.
// (program.h is the closed loop, which the library runs.)
//
//   int main() {
//     adaptdl::Training training(R"(
//       data: {train: [{path: images.npy}, {path: labels.npy}], validation_fraction: 0.1}
//       batch: {initial: 64, adaptive: true, max: 1024}
//       optimizer: {kind: sgd, lr: 0.1}
//     )");
//     Net net;
//     net->to(training.device());
//     training.add(*net);
//     for (int64_t epoch : training.remaining_epochs_until(10)) {
//       net->train();
//       for (auto& batch : training.batches()) {
//         training.step(torch::nll_loss(net->forward(batch.data[0]), batch.data[1]));
//       }
//     }
//   }
//
// Start it with `adaptdl run ./my-program --replicas 1:4`, or alone by hand.
//
// What a replica does. A replica that joins a run begins main() like the first one. epochs() waits
// until it has the state of the others, and its loops begin where theirs are: it skips the epochs
// and batches that are done. A replica that leaves the run, or is told to stop, ends its process
// inside the library (exit code 0 or 143), after the step that it is in; no destructor runs.
//
// Repeated batches. When a replica dies in a step, the others do not lose the step: batches() gives
// each its new share of the same samples, and the loop's body runs again. The library undoes what
// the abandoned body did to buffers and other registered state. So a body whose lasting state is
// all registered (add(), add_buffers(), add_state(), the accumulator) needs to know nothing of it;
// what it adds up in variables of its own would count twice, and differ between replicas.
//
// Accumulation. Where a step needs more samples than fit at once, batches() gives its atomic
// batches one after another, and step() updates the parameters after the last one. The body runs
// once for each in the same way and need not know which is the last.
//
// Several models, each with a loss of its own, as in a GAN: register each with add_model(), and
// call step(name, loss) for each turn. A step is then one batch, in which a model may take any
// number of turns, none too; `if`s around them depend on last_step(). When a replica dies, the body
// runs again for the same batch, and turns that are finished change nothing then.
//
// A new replica begins at the top of the body of the epoch in which the others are. So what stands
// in the body before its loops is done once more there, and must bear that, like net->train().
// Change registered state in the loop over batches(), or after the body's last loop.
//
// All replicas must run the same loops in the same order. They may leave the loop over batches()
// early, together; those over epochs() and validation_batches() end by themselves, and finish()
// ends training. A condition of a loop, of finish(), or around them may depend on the epoch and,
// after its validation, on the accumulator's sums; never on the rank, on a replica's own loss, or
// on the sums of another epoch, which a new replica does not have.

#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "adaptdl/collective.h"
#include "adaptdl/map_dataset.h"
#include "adaptdl/named_tensor.h"
#include "adaptdl/optimizer.h"
#include "adaptdl/program_data.h"
#include "adaptdl/stream_dataset.h"
#include "adaptdl/version.h"

namespace adaptdl {

// A replica's share of a step, or of a validation.
struct Batch {
  std::vector<at::Tensor> data;  // one per data column, or as collate() made them, on the
                                 // training's device; samples along dimension 0
  int64_t size = 0;              // samples, >= 1
  // With data.continuous: each sample follows the one at its place in the batch before, which this
  // process had. Else begin with new state: at the start, after a rescale, with another batch.
  bool goes_on = false;
};

// The newest finished step, the same on all replicas. The numbers after `progress` are 0 until this
// process has finished one.
struct StepInfo {
  int64_t step = 0;          // from 1; 0: there is none
  double progress = 0;       // scale-invariant iterations so far: steps of the initial batch
  double loss = 0;           // mean over the step's samples
  double learning_rate = 0;  // of the first parameter group, after schedule and scaling rule
  double gain = 0;           // iterations that the step was worth
  double noise_scale = 0;    // of the gradient, samples; 0 = not known yet
  int64_t batch = 0;  // samples of a whole step: replicas x atomic_batch x (accumulation + 1)
  int64_t atomic_batch = 0;
  int accumulation = 0;  // passes before the last
};

// What a range-based for loop goes through, once.
template <typename T>
class Sequence {
 public:
  explicit Sequence(std::function<std::optional<T>()> next) : next_(std::move(next)) {}

  class Iterator {
   public:
    explicit Iterator(Sequence& sequence) : sequence_(&sequence) { ++*this; }
    T& operator*() const { return *sequence_->current_; }
    Iterator& operator++() {
      sequence_->current_.reset();  // its memory is for the next one
      sequence_->current_ = sequence_->next_();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return !sequence_->current_; }

   private:
    Sequence* sequence_;
  };
  Iterator begin() { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  std::function<std::optional<T>()> next_;
  std::optional<T> current_;
};

// Named sums of a validation. In the loop over validation_batches() each replica adds what it finds
// in its batches; after the loop all replicas have the sums of all. The next such loop begins with
// none. Names are without line breaks, and the same on all replicas.
class Accumulator {
 public:
  double& operator[](const std::string& name) { return sums_[name]; }
  const std::map<std::string, double>& sums() const { return sums_; }
  // sums()[name] / sums()["count"]; 0 without a count.
  double mean(const std::string& name) const;

 private:
  friend class Training;
  std::map<std::string, double> sums_;
};

// One for a process, made before other threads start. All calls come from the thread that made it.
// Errors are std::runtime_error; after one, this replica cannot go on. Where it leaves the loop by
// an exception or a return, the others go on without it, and the launcher replaces it; the run ends
// if another replica fails in the same step.
class Training {
 public:
  // Joins the run that started this process, or begins one as a single replica. `settings` is the
  // text of an adaptdl.yaml (adaptdl-train(5)); --set overrides it. Throws for invalid settings.
  // Without a launcher it reads data from the working directory, and keeps checkpoints in the
  // folder $ADAPTDL_CHECKPOINT_PATH if that is set; SIGINT and SIGTERM then write one and exit with
  // 143.
  explicit Training(const std::string& settings);
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  at::Device device() const;  // put parameters and buffers there before add()
  int rank() const;           // 0 to replicas() - 1; both may change from step to step
  int replicas() const;

  // Before the loop over epochs:

  // What is trained, and what training changes without gradients, as Program::parameters() and
  // buffers(). The tensors are shared: the optimizer changes them in place, and they must not be
  // replaced. Initial values may differ between replicas: those of rank 0 are used.
  void add_parameters(const std::vector<NamedTensor>& parameters);
  void add_buffers(const std::vector<NamedTensor>& buffers);
  // Those of a torch::nn::Module; `prefix` comes before their names. Frozen parameters, without a
  // gradient, are left out: neither other replicas nor checkpoints get them. If they are drawn at
  // random, call torch::manual_seed() before, so that they are the same in each process, or
  // register them as buffers: buffers are synchronised and checkpointed.
  template <typename Module>
  void add(const Module& module, const std::string& prefix = "");

  // One of several models that take turns: step(name, loss) changes only its parameters. Their
  // names begin with "NAME.", for optimizer.groups; frozen ones are left out as by add(). Then all
  // parameters belong to such a model, a batch is one pass (no accumulation), the last samples of a
  // pass that make no whole batch are left out, and an adaptive batch needs two replicas to measure
  // the noise.
  template <typename Module>
  void add_model(const std::string& name, const Module& module);
  void add_model(const std::string& name, const std::vector<NamedTensor>& parameters);

  // State of the program's own beside tensors, such as counters: as bytes, at most a few megabytes,
  // equal on all replicas between steps. `save` is called before each step and for each checkpoint,
  // `load` with what it returned then: when this replica joins others, goes on from a checkpoint,
  // or undoes a step. Names are unique; a checkpoint without one leaves that state as it is.
  void add_state(const std::string& name, std::function<std::string()> save,
                 std::function<void(const std::string& bytes)> load);

  // Data of the program's own, where the settings have no data.train: a MapDataset or a
  // StreamDataset each. Without `validation`, the settings' data.validation_fraction of a
  // MapDataset is kept for it.
  void use_data(std::shared_ptr<const ProgramDataset> train,
                std::shared_ptr<const ProgramDataset> validation = nullptr);
  // What is done to each sample of these data, or of the settings', such as an augmentation.
  // `validation`: to those of the validation; without it they stay as they are read.
  void transform_data(Transform train, Transform validation = nullptr);

  // Writes the trained model into the new file `path`: called on rank 0 after the last epoch, and
  // after the best validation. `path` is a temporary name beside the one that the launcher wants
  // (model.pt without one; best.pt): adaptdl renames the file once it is on disk.
  void save_model(std::function<void(const std::string& path)> save);

  // The optimizer of a group. The settings must say `optimizer: {kind: program}`.
  void use_optimizer(
      std::function<std::unique_ptr<UpdateRule>(const OptimizerGroup& group)> make_rule);

  // A scaling rule of one's own, as Program::lr_factor().
  void use_scaling_rule(std::function<double(const BatchScale& at)> rule);

  // A number that the loop over batches() adds up, such as right answers: over all replicas and
  // steps of an epoch. Add to the reference before step(), which takes what is there; a body that
  // runs again begins with 0. Without line breaks, and the same on all replicas.
  double& add_sum(const std::string& name);

  // The loop:

  // The epochs that are not finished, from 0 in a new run, until the settings' limits (epochs,
  // max_steps, early stopping) or epoch `end`, which replaces the settings' `epochs`: a schedule
  // that lasts to the end of training lasts to `end`. The first call of begin() waits for the run's
  // state. Where the body leaves batches() early, the same epoch comes again, at the next batch.
  // After the last epoch the model is saved.
  Sequence<int64_t> epochs();
  Sequence<int64_t> remaining_epochs_until(int64_t end);

  // What is left of the epoch. Call step() once for each batch.
  Sequence<Batch> batches();
  // `loss`: one floating-point number with a gradient, the mean over the newest batch. Runs the
  // backward pass. After the last batch of a step, averages the gradients, updates the parameters
  // and clears the gradients; zero_grad() is not needed. Throws if the loss is not such a number,
  // or if the body has called backward() on a parameter itself: add the losses and give their sum
  // here, and compute other gradients by torch::autograd::grad().
  void step(const at::Tensor& loss);

  // A turn of one of several models. `loss` as above, but gradients reach only this model's
  // parameters, which are updated at once.
  void step(const std::string& model, const at::Tensor& loss);

  // This replica's share of the validation data, each sample once for any number of replicas. At
  // most one loop in each epoch, after its batches(). If a replica dies meanwhile, the loop begins
  // again with an empty accumulator. Its sums, divided by its "count" if there is one, are the
  // metrics of the event `validation`, of `best` and of early stopping. Turning gradients off and
  // net->eval() are up to the body. The next call throws if the loop was left early.
  Sequence<Batch> validation_batches();
  Accumulator& accumulator();

  // Ends training after the epoch of the present body, as if it were the last: epochs() gives no
  // more, and the model is saved. All replicas call it in the same epoch. Go on to the end of the
  // body, and do not leave the loop over epochs().
  void finish();

  // Values that the replicas exchange between the epoch's batches, all of them, and its validation:
  // where each replica comes in each epoch, also a new one. When a replica dies meanwhile, the
  // others finish the call without it. Elsewhere it throws.
  Collectives& collective();

  // In the loop:

  StepInfo last_step() const;
  // What the finished steps of this epoch have added up, the same on all replicas.
  double sum(const std::string& name) const;
  double epochs_done() const;  // passes over the data; with an adaptive batch, by their worth

  // Adds a point at the newest finished step to a curve of the program's own: an event `scalar`,
  // and TensorBoard's user/NAME. Rank 0's counts, and is lost if a replica dies just then. Call it
  // after step(): what comes before is repeated with the body.
  void log(const std::string& name, double value);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

namespace detail {

// Those that are trained, and the buffers, of a torch::nn::Module.
template <typename Module>
std::pair<std::vector<NamedTensor>, std::vector<NamedTensor>> tensors_of(
    const Module& module, const std::string& prefix) {
  std::vector<NamedTensor> parameters, buffers;
  for (const auto& item : module.named_parameters()) {
    if (item.value().requires_grad()) parameters.push_back({prefix + item.key(), item.value()});
  }
  for (const auto& item : module.named_buffers()) {
    if (item.value().defined()) buffers.push_back({prefix + item.key(), item.value()});
  }
  return {std::move(parameters), std::move(buffers)};
}

}  // namespace detail

template <typename Module>
void Training::add(const Module& module, const std::string& prefix) {
  const auto [parameters, buffers] = detail::tensors_of(module, prefix);
  add_parameters(parameters);
  add_buffers(buffers);
}

template <typename Module>
void Training::add_model(const std::string& name, const Module& module) {
  const auto [parameters, buffers] = detail::tensors_of(module, name + ".");
  add_model(name, parameters);
  add_buffers(buffers);
}

}  // namespace adaptdl
