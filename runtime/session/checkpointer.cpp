#include "runtime/session/checkpointer.h"

#include <algorithm>
#include <cstring>
#include <pthread.h>

#include "core/base/error.h"
#include "runtime/archive/tensor_types.h"
#include "runtime/session/device.h"
#include "runtime/session/model_tensors.h"
#include "runtime/session/newest_checkpoint.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

using nlohmann::json;

std::string checkpoint_dtype(const at::Tensor& tensor) {
  const std::string_view name = dtype_name(tensor.scalar_type());
  if (!name.empty()) return std::string(name);
  fail("a tensor of type {} cannot be saved in a checkpoint", at::toString(tensor.scalar_type()));
}

// Training does not change what is frozen, so it cannot have spoilt it.
bool must_be_finite(const std::string& name, const std::set<std::string>& any_numbers) {
  return !any_numbers.contains(name) && !name.starts_with(kFrozenPrefix);
}

constexpr double kFirst = 2;  // s; from the beginning of training to its first checkpoint

// Copies the tensors into the buffer; returns views of the copies. What is on the device is copied
// as it was at `point`.
std::vector<TensorView> copy_out(SnapshotBuffer& buffer, const std::vector<NamedTensor>& tensors,
                                 const std::set<std::string>& any_numbers, const SideStream& side,
                                 const std::shared_ptr<const c10::Event>& point) {
  const at::NoGradGuard no_grad;
  const SideStream::Scope scope(side, point);
  std::vector<size_t> sizes;
  for (const auto& named : tensors) sizes.push_back(named.tensor.nbytes());
  buffer.layout(sizes);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor from = tensors[i].tensor.detach().contiguous();
    if (sizes[i] == 0) continue;
    if (from.is_cpu()) {  // by this thread alone: training has the others
      std::memcpy(buffer.part(i).data(), from.const_data_ptr(), sizes[i]);
      continue;
    }
    at::from_blob(buffer.part(i).data(), from.sizes(), from.options().device(at::kCPU))
        .copy_(from, /*non_blocking=*/true);
  }
  side.wait();
  std::vector<TensorView> views;
  for (size_t i = 0; i < tensors.size(); ++i) {
    views.push_back({tensors[i].name, checkpoint_dtype(tensors[i].tensor),
                     tensors[i].tensor.sizes().vec(),
                     static_cast<const SnapshotBuffer&>(buffer).part(i),
                     must_be_finite(tensors[i].name, any_numbers)});
  }
  return views;
}

void check_replaces(const CheckpointStore& store, const CheckpointHeader& header) {
  const auto there = store.peek();
  if (!there) return;
  const bool newer = held(*there, there->job, 0).newer_than(held(header, header.job, 0));
  if (there->job == header.job && !newer) return;
  fail(
      "{} has one of step {} of run {}, from which this run has not gone on; remove it, or start "
      "the run again on all hosts to go on from the newest that they have",
      store.directory(), there->step, there->job);
}

}  // namespace

Checkpointer::Checkpointer(std::string directory, int keep, double longest_s, Announce announce,
                           at::Device device)
    : directory_(std::move(directory)),
      keep_(keep),
      longest_s_(longest_s),
      announce_(std::move(announce)),
      side_(device),
      buffer_(pinning(device)) {
  if (directory_.empty()) return;
  writer_.emplace(CheckpointStore(directory_, keep_), [this](const CheckpointResult& result) {
    json event = {{"event", "checkpoint"}, {"step", result.step}};
    if (result.error.empty()) {
      event["path"] = result.path;
      event["bytes"] = result.bytes;
      event["seconds"] = result.seconds;
      event["held_up_s"] = held_up_s_.load();
      measured(result);
      event["next_s"] = interval_s();
    } else {
      event["error"] = result.error;
      if (!result.tensor.empty()) event["tensor"] = result.tensor;
    }
    announce_(event, kind_);
  });
}

Checkpointer::~Checkpointer() {
  writer_.reset();
}

void Checkpointer::begun() {
  last_ = Monotonic::now();
  started_ = false;
}

void Checkpointer::trained(double seconds) {
  const std::lock_guard lock(mutex_);
  failures_.trained(seconds);
}

void Checkpointer::failed() {
  const std::lock_guard lock(mutex_);
  failures_.failed();
}

json Checkpointer::state() const {
  const std::lock_guard lock(mutex_);
  json state = {{"trained_s", failures_.trained_s}, {"failures", failures_.failures}};
  if (cost_) state["cost"] = {{"training_s", cost_->training_s}, {"write_s", cost_->write_s}};
  return state;
}

void Checkpointer::load_state(const json& state) {
  if (state.is_null()) return;  // an earlier version wrote none
  const std::lock_guard lock(mutex_);
  failures_ = {state.at("trained_s").get<double>(), state.at("failures").get<double>()};
  const auto cost = state.find("cost");
  if (cost == state.end()) return cost_.reset();
  cost_ = {cost->at("training_s").get<double>(), cost->at("write_s").get<double>()};
}

// On the writer's thread.
void Checkpointer::measured(const CheckpointResult& result) {
  // Training competes with both threads for processors.
  const CheckpointCost now{std::max(held_up_s_.load(), copy_s_.load()) + result.cpu_s,
                           result.seconds};
  const std::lock_guard lock(mutex_);
  const CheckpointCost before = cost_.value_or(now);
  cost_ = {(before.training_s + now.training_s) / 2, (before.write_s + now.write_s) / 2};
}

double Checkpointer::interval_s() const {
  const std::lock_guard lock(mutex_);
  const double first = std::min(kFirst, longest_s_);
  if (!cost_) return started_ ? longest_s_ : first;  // it could not be written
  const double interval = checkpoint_interval(*cost_, failures_.mtbf_s(), longest_s_);
  return started_ ? interval : std::min(interval, first);
}

bool Checkpointer::due(double step_s) const {
  if (!writer_ || writer_->busy()) return false;
  return hurry_ || seconds_since(last_) + step_s / 2 >= interval_s();
}

void Checkpointer::start(CheckpointHeader header, std::vector<NamedTensor> tensors, Kind kind) {
  if (!writer_ || writer_->busy()) return;
  last_ = Monotonic::now();
  started_ = true;
  hurry_ = false;
  kind_ = kind;
  // Not on the writer's thread: its priority is low, and the next update waits for the copy.
  copied_ =
      std::async(std::launch::async, [this, tensors = std::move(tensors), point = side_.here()] {
        pthread_setname_np(pthread_self(), "snapshot");
        const auto begun = Monotonic::now();
        auto views = copy_out(buffer_, tensors, any_numbers_, side_, point);
        copy_s_ = seconds_since(begun);
        return views;
      }).share();
  writer_->submit([this, kind, header = std::move(header), copied = copied_]() mutable {
    CheckpointContents contents;
    contents.tensors = copied.get();
    if (kind == Kind::copy) check_replaces(*store(), header);
    contents.header = std::move(header);
    return contents;
  });
  held_up_s_ = seconds_since(last_);
}

void Checkpointer::release() {
  if (!copied_.valid()) return;
  const auto begun = Monotonic::now();
  copied_.wait();  // the writer reports its exception
  copied_ = {};
  held_up_s_ = held_up_s_ + seconds_since(begun);
}

bool Checkpointer::write(CheckpointHeader header, std::vector<NamedTensor> tensors, Kind kind) {
  if (!writer_) return false;
  wait();
  start(std::move(header), std::move(tensors), kind);
  release();
  const CheckpointResult result = writer_->wait();
  if (!result.tensor.empty()) throw NotFinite(result.tensor);
  if (!result.error.empty()) {
    fail("cannot write a checkpoint to {}: {}", directory_, result.error);
  }
  return true;
}

void Checkpointer::wait() {
  release();
  if (writer_) writer_->wait();
}

std::optional<CheckpointStore> Checkpointer::store() const {
  if (directory_.empty()) return std::nullopt;
  return CheckpointStore(directory_, keep_);
}

void restore_tensors(const LoadedCheckpoint& checkpoint, const std::vector<NamedTensor>& tensors) {
  const at::NoGradGuard no_grad;
  for (const auto& named : tensors) {
    const TensorView* saved = checkpoint.find(named.name);
    if (!saved)
      fail("{}: has no tensor \"{}\"; another program wrote it", checkpoint.path, named.name);
    if (saved->shape != named.tensor.sizes().vec() ||
        saved->dtype != checkpoint_dtype(named.tensor)) {
      fail("{}: tensor \"{}\" has another shape or type; another program wrote it", checkpoint.path,
           named.name);
    }
    const at::Tensor source =
        at::from_blob(const_cast<std::byte*>(saved->bytes.data()), saved->shape,
                      named.tensor.options().device(at::kCPU).requires_grad(false));
    named.tensor.detach().copy_(source);
  }
}

std::string other_frozen(const LoadedCheckpoint& checkpoint, const std::string& digest) {
  const std::string saved = checkpoint.header.state.value(kFrozenDigest, "");
  if (saved.empty() || saved == digest) return "";
  return fmt::format(
      "the program's frozen parameters or constants are not those that {} was trained with; the "
      "model is a mixture of both, unless you go on with the program of that time",
      checkpoint.path);
}

}  // namespace adaptdl
