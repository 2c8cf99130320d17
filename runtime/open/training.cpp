#include "adaptdl/training.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/log.h"
#include "runtime/open/open_loop.h"
#include "runtime/open/open_program.h"
#include "runtime/session/check_tensors.h"
#include "runtime/session/program_data.h"
#include "runtime/session/run_program.h"
#include "runtime/session/session.h"
#include "runtime/session/step_failure.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

OpenedRun open_settings(Session& session, const std::string& settings) {
  OpenedRun run = open_run(
      session, [&settings](const std::string&) { return settings; }, std::make_shared<StepHooks>(),
      /*own_data=*/true);
  if (run.launch.evaluate) fail("a program with its own loop cannot be run with --evaluate");
  if (run.spec.deterministic) {
    fail(
        "deterministic: true does not work with a program's own loop, which may compute anything "
        "that depends on the replicas; hand over the model (adaptdl/run_program.h), or remove the "
        "setting");
  }
  return run;
}

}  // namespace

double Accumulator::mean(const std::string& name) const {
  const auto count = sums_.find("count"), sum = sums_.find(name);
  if (count == sums_.end() || sum == sums_.end() || count->second == 0) return 0;
  return sum->second / count->second;
}

struct Training::Impl : Collectives {
  explicit Impl(const std::string& settings) {
    keep_freed_memory();
    checked([&] { run = open_settings(session, settings); });
    present = this;
  }

  ~Impl() override {
    std::set_terminate(before);
    present = nullptr;
  }

  // Tells the launcher of an exception that nobody catches, as the closed loop does.
  static void end_by_exception() {
    try {
      if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "adaptdl: %s\n", reason_of(error).c_str());
      if (present) present->left_by(error);  // else the constructor has failed
      _exit(static_cast<int>(ExitCode::error));
    } catch (...) {  // of no type that says anything
    }
    if (present) present->before();
    std::abort();
  }

  // The loop ends before training does: the other replicas go on without this one.
  void left_by(const std::exception& error) {
    if (!loop || loop->over() || failed) return;
    const StepFailure failure = loop->failure(error);
    report(failure.what(), failure.exit_code(), failure.step);
    if (session.has_launcher() || std::uncaught_exceptions() > 0) return;
    log_warning("{}; nothing is saved", reason_of(error));
  }

  // Tells the launcher of an error before the program does with it what it likes.
  template <typename Call>
  auto checked(const Call& call) -> decltype(call()) {
    try {
      return call();
    } catch (const StepFailure& failure) {
      report(failure.what(), failure.exit_code(), failure.step);
      throw;
    } catch (const Error& error) {
      report(error.what(), error.exit_code(), 0);
      throw;
    } catch (const std::exception& error) {
      report(reason_of(error), ExitCode::error, 0);
      throw;
    }
  }

  // `step`: that failed on this replica alone, as far as it knows; 0: it is an error on all.
  void report(const std::string& message, ExitCode code, int64_t step) {
    failed = true;
    nlohmann::json fatal = {
        {"type", "fatal"}, {"message", message}, {"exit", static_cast<int>(code)}};
    if (step > 0) fatal["step"] = step;
    session.send(fatal);
  }

  OpenProgram& before_loop(const char* caller) {
    if (loop) checked([&] { fail("{} must come before the loop over epochs()", caller); });
    return program;
  }

  OpenLoop& in_loop(const char* caller) {
    if (!loop) fail("{} must stand in a loop over epochs()", caller);
    return *loop;
  }

  // The user who sets `epochs` sees its effect only in a loop that obeys the settings.
  void tell_if_ignored(int64_t end) const {
    const bool given = std::ranges::any_of(run.launch.overrides, [](const std::string& setting) {
      return setting.starts_with("epochs=");
    });
    if (!given || run.spec.epochs == static_cast<double>(end)) return;
    log_warning(
        "--set epochs={:g} has no effect: the program trains until epoch {} by "
        "remaining_epochs_until(); a loop over epochs() obeys the settings",
        run.spec.epochs, end);
  }

  std::optional<int64_t> next_epoch() {
    if (!loop) {
      if (!program.can_save()) run.launch.options.model_path = run.launch.options.best_path = "";
      check_tensors(program);
      fit_schedule(run.spec);  // remaining_epochs_until() may have changed its end
      auto& options = run.launch.options;
      options.data = open_program_data(data, run.spec, options.data_dir);
      options.models = program.models();
      if (!options.models.empty()) {
        run.spec.data.drop_last = true;
        run.spec.batch.accumulation = false;
      }
      loop.emplace(program, run.spec, options, session, sums);
    }
    return loop->next_epoch();
  }

  int rank() const override { return session.rank(); }
  int replicas() const override { return session.replicas(); }
  std::string combined(const std::string& mine, const Combine& combine) override {
    return checked([&] { return in_loop("collective()").combined(mine, combine); });
  }

  static inline Impl* present = nullptr;
  std::terminate_handler before = std::set_terminate(end_by_exception);

  Session session;
  OpenedRun run;
  OpenProgram program;
  ProgramData data;
  Accumulator accumulator;
  std::map<std::string, double> sums;  // of the present body
  bool failed = false;
  std::optional<OpenLoop> loop;
};

Training::Training(const std::string& settings) : impl_(std::make_unique<Impl>(settings)) {}

Training::~Training() {
  impl_->left_by(Error(std::uncaught_exceptions() > 0
                           ? "an exception left the training loop"
                           : "the program left its loop before training was over; finish() ends "
                             "training after an epoch"));
}

at::Device Training::device() const {
  return impl_->run.launch.options.device;
}
int Training::rank() const {
  return impl_->session.rank();
}
int Training::replicas() const {
  return impl_->session.replicas();
}

void Training::add_parameters(const std::vector<NamedTensor>& parameters) {
  impl_->before_loop("add_parameters()").add_parameters(parameters);
}
void Training::add_buffers(const std::vector<NamedTensor>& buffers) {
  impl_->before_loop("add_buffers()").add_buffers(buffers);
}
void Training::add_model(const std::string& name, const std::vector<NamedTensor>& parameters) {
  OpenProgram& program = impl_->before_loop("add_model()");
  impl_->checked([&] { program.add_model(name, parameters); });
}
void Training::save_model(std::function<void(const std::string&)> save) {
  impl_->before_loop("save_model()").save_with(std::move(save));
}
void Training::use_optimizer(
    std::function<std::unique_ptr<UpdateRule>(const OptimizerGroup&)> make_rule) {
  OpenProgram& program = impl_->before_loop("use_optimizer()");
  impl_->checked([&] {
    if (impl_->run.spec.optimizer.kind != OptimizerSpec::Kind::program) {
      fail(
          "use_optimizer(): optimizer.kind in the settings names another; write program there, or "
          "remove the call");
    }
    program.rule_from(std::move(make_rule));
  });
}

void Training::use_scaling_rule(std::function<double(const BatchScale&)> rule) {
  OpenProgram& program = impl_->before_loop("use_scaling_rule()");
  impl_->checked([&] {
    if (impl_->run.spec.rule) fail("use_scaling_rule(): the settings have a rule; remove it");
    program.scale_by(std::move(rule));
  });
}
double& Training::add_sum(const std::string& name) {
  impl_->before_loop("add_sum()");
  return impl_->sums[name];
}

void Training::add_state(const std::string& name, std::function<std::string()> save,
                         std::function<void(const std::string&)> load) {
  OpenProgram& program = impl_->before_loop("add_state()");
  impl_->checked([&] { program.add_state(name, std::move(save), std::move(load)); });
}

void Training::use_data(std::shared_ptr<const ProgramDataset> train,
                        std::shared_ptr<const ProgramDataset> validation) {
  impl_->before_loop("use_data()");
  impl_->data.train = std::move(train);
  impl_->data.validation = std::move(validation);
  impl_->checked([&] { check_program_data(impl_->data, impl_->run.spec.data); });
}

void Training::transform_data(Transform train, Transform validation) {
  impl_->before_loop("transform_data()");
  impl_->data.transform = std::move(train);
  impl_->data.transform_validation = std::move(validation);
}

Sequence<int64_t> Training::epochs() {
  Impl& self = *impl_;
  return Sequence<int64_t>([&self] { return self.checked([&] { return self.next_epoch(); }); });
}

Sequence<int64_t> Training::remaining_epochs_until(int64_t end) {
  Impl& self = *impl_;
  self.checked([&] {
    if (self.loop) fail("remaining_epochs_until() must come before the loop");
    if (end < 1) fail("remaining_epochs_until({}): there is no such epoch", end);
    self.tell_if_ignored(end);
    self.run.spec.epochs = static_cast<double>(end);
  });
  return epochs();
}

Sequence<Batch> Training::batches() {
  Impl& self = *impl_;
  return Sequence<Batch>([&self] {
    return self.checked([&]() -> std::optional<Batch> {
      auto pass = self.in_loop("batches()").next_batch();
      if (!pass) return {};
      return Batch{std::move(pass->batch), pass->samples, pass->goes_on};
    });
  });
}

void Training::step(const at::Tensor& loss) {
  impl_->checked([&] { impl_->in_loop("step()").step(loss); });
}

void Training::step(const std::string& model, const at::Tensor& loss) {
  impl_->checked([&] { impl_->in_loop("step()").turn(impl_->program.model(model), loss); });
}

Sequence<Batch> Training::validation_batches() {
  Impl& self = *impl_;
  self.checked([&] { self.in_loop("validation_batches()").begin_validation(); });
  return Sequence<Batch>([&self] {
    return self.checked([&]() -> std::optional<Batch> {
      auto pass = self.loop->next_validation_batch(self.accumulator.sums_);
      if (!pass) return {};
      return Batch{std::move(pass->batch), pass->samples, false};
    });
  });
}

StepInfo Training::last_step() const {
  return impl_->checked([&] { return impl_->in_loop("last_step()").last_step(); });
}
double Training::epochs_done() const {
  return impl_->checked([&] { return impl_->in_loop("epochs_done()").epochs_done(); });
}
double Training::sum(const std::string& name) const {
  return impl_->checked([&] {
    if (!impl_->sums.contains(name)) fail("sum(): add_sum() was not called for \"{}\"", name);
    return impl_->in_loop("sum()").sum(name);
  });
}
void Training::log(const std::string& name, double value) {
  impl_->checked([&] { impl_->in_loop("log()").log(name, value); });
}

void Training::finish() {
  impl_->checked([&] { impl_->in_loop("finish()").finish(); });
}

Collectives& Training::collective() {
  return *impl_;
}

Accumulator& Training::accumulator() {
  return impl_->accumulator;
}

}  // namespace adaptdl
