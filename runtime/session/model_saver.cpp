#include "runtime/session/model_saver.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "runtime/session/model_tensors.h"
#include "runtime/session/step_failure.h"

namespace adaptdl {

using nlohmann::json;

std::string ModelSaver::save_trained(const std::function<bool()>& stop,
                                     const std::function<void()>& failed) {
  constexpr double kFirst = 1, kLongest = 60, kPatience = 600;  // s
  require_finite();
  if (options_.model_path.empty()) return "";
  const TimePoint begun = Monotonic::now();
  for (double pause = kFirst;; pause = std::min(2 * pause, kLongest)) {
    try {
      save(options_.model_path);
      return options_.model_path;
    } catch (const std::exception& error) {
      const std::string reason = reason_of(error);
      if (pause == kFirst) failed();
      if (stop() || seconds_since(begun) + pause > kPatience) {
        fail("the trained model cannot be saved: {}", reason);
      }
      log_warning("{}; the trained model is kept in memory, next attempt to save it in {} s",
                  reason, pause);
    }
    std::this_thread::sleep_for(Seconds(pause));
  }
}

void ModelSaver::save(const std::string& path) {
  const std::string part = part_path(path);
  ::unlink(part.c_str());  // of a killed writer: a program that saves nothing must not revive it
  try {
    program_.save(part);
    // A program may save its model elsewhere, or none.
    if (path_exists(part)) commit_part(path);
  } catch (...) {
    ::unlink(part.c_str());
    throw;
  }
}

void ModelSaver::require_finite() const {
  for (std::string name : not_finite(model_tensors(program_))) {
    if (any_numbers_.contains(name)) continue;
    name[name.find('/')] = ' ';  // parameter/x, buffer/x
    fail(
        "training came to its end, but {} holds numbers that are not finite; lower the learning "
        "rate or clip gradients, and continue from the newest checkpoint",
        name);
  }
}

bool ModelSaver::is_best(const Progress& progress) const {
  return spec_.best && !progress.best.empty() && progress.best_step == progress.step;
}

bool ModelSaver::wants_best(int64_t step) const {
  return !options_.best_path.empty() && saved_best_ != step;
}

std::string ModelSaver::save_best(int64_t step) {
  best_is_saved_ = false;
  try {
    save(options_.best_path);
  } catch (const std::exception& error) {
    log_warning("{}; the best model, of step {}, is not saved", error.what(), step);
    return error.what();
  }
  saved_best_ = step;
  best_is_saved_ = true;
  return "";
}

json ModelSaver::best(const Progress& progress) const {
  if (!spec_.best || progress.best.empty()) return nullptr;
  const auto& [metric, value] = *progress.best.begin();
  const bool wanted = best_is_saved_ && !options_.best_path.empty();
  // A run that goes on, or another host, may not have what was saved before.
  const bool saved = wanted && path_exists(options_.best_path);
  if (wanted && !saved && saved_best_ != progress.best_step) {
    log_warning("there is no {}: the best model, of step {}, was removed, or is on another host",
                options_.best_path, progress.best_step);
  }
  return {{"metric", metric},
          {"value", value},
          {"step", progress.best_step},
          {"model", saved ? json(options_.best_path) : json(nullptr)}};
}

}  // namespace adaptdl
