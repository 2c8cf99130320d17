#pragma once

// When training ends by its settings, and which validation is the best one. Pure functions of
// Progress: all replicas compute the same from the same numbers.

#include <set>
#include <string>

#include "core/job/training_spec.h"
#include "runtime/session/progress.h"

namespace adaptdl {

// Of a number of epochs, a sum of many gains.
constexpr double kRounding = 1e-9;

// Throws Error if the metric of `spec.best` is not among `metrics`, which validation_step returns.
void check_best_metric(const TrainingSpec& spec, const std::set<std::string>& metrics);

// What ends a training that has done `epochs` passes: a limit that it has reached, or early
// stopping. Nothing if it goes on, as after a limit was raised.
EndedBy reached_limit(const Progress& progress, const TrainingSpec& spec, double epochs);

// Of a run that goes on from a checkpoint after `epochs` passes, whose settings may differ from
// those before: the next validation is at most `spec.validate_every_epochs` away, and another
// metric, or another mode than `mode_before` ("min", "max"; "": not known), is judged anew.
void follow_settings(Progress& progress, const TrainingSpec& spec, double epochs,
                     const std::string& mode_before);

// The scale-invariant iterations at which training will end, where its epochs have `of_epochs`:
// fewer if max_steps or max_time comes first, at the mean pace so far. >= progress.iterations.
double expected_iterations(const Progress& progress, const TrainingSpec& spec, double of_epochs);

// Judges the newest validation, of `progress.step`: it may be the best one so far, and early
// stopping may end the training. A metric that is not finite is no improvement. Throws Error as
// check_best_metric().
void judge_validation(Progress& progress, const TrainingSpec& spec);

// "max_steps", as in the event `end`; "" for nothing.
std::string name_of(EndedBy ended_by);

// Why training ended before its last epoch, as a sentence for people; "" if it did not.
std::string describe_end(const Progress& progress, const TrainingSpec& spec);

}  // namespace adaptdl
