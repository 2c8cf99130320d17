#pragma once

// Writes the models that a run is for: the trained one, and the one of the best validation.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>

#include "adaptdl/program.h"
#include "core/job/training_spec.h"
#include "runtime/session/progress.h"
#include "runtime/session/trainer.h"

namespace adaptdl {

// For the training thread of rank 0. Borrows its arguments.
class ModelSaver {
 public:
  ModelSaver(Program& program, const TrainingSpec& spec, const TrainOptions& options)
      : program_(program), spec_(spec), options_(options) {}

  // Tensors, named as in checkpoints, that may hold numbers that are not finite.
  void allow_any_numbers(std::set<std::string> names) { any_numbers_ = std::move(names); }

  // Writes the trained model, durably, and returns its path, or "" if none is wanted. Tries again
  // for ten minutes, since a full disk should not lose the model, or until `stop` returns true.
  // Calls `failed` after the first attempt, if that fails. Throws Error if the last one does, and
  // if the model holds numbers that are not finite: what training has spoilt must not pass for
  // trained.
  std::string save_trained(const std::function<bool()>& stop, const std::function<void()>& failed);

  // Whether the program's parameters are those of the best validation so far.
  bool is_best(const Progress& progress) const;
  // Whether there is a file to write for the best validation, which was after `step`.
  bool wants_best(int64_t step) const;
  // Writes the program's parameters there, and returns what went wrong, or "". Tries only once: the
  // other replicas wait, and a later model may be better.
  std::string save_best(int64_t step);
  // The best validation and its model, if there is such a file, as in the event `end`; null if
  // there was no validation.
  nlohmann::json best(const Progress& progress) const;

 private:
  // Has the program write the file beside `path`, and makes it `path` once it is on disk. Throws.
  void save(const std::string& path);
  void require_finite() const;

  Program& program_;
  const TrainingSpec& spec_;
  const TrainOptions& options_;
  std::set<std::string> any_numbers_;
  std::optional<int64_t> saved_best_;  // the step of the best model that was saved here
  bool best_is_saved_ = true;          // the newest attempt succeeded
};

}  // namespace adaptdl
