#pragma once

// TensorBoard event files from a run's events.

#include <memory>
#include <optional>
#include <string>

#include "core/formats/json.h"
#include "core/launch/io/output_queue.h"
#include "core/tensorboard/event_file.h"

namespace adaptdl::launch {

// One thread (the launcher's output thread).
class TensorBoard {
 public:
  // Writes below `folder`/`run`, so that one TensorBoard can compare runs. Throws Error if the file
  // cannot be created; later errors only lose charts, and problem() reports them.
  TensorBoard(const std::string& folder, const std::string& run);

  void event(const Json& event);
  std::string problem() const;  // "" = everything was written

 private:
  void add(const std::string& tag, std::optional<double> value, double wall_time, int64_t step);
  void step(const Json& event, double wall_time);
  void gpu(const Json& event, double wall_time);

  EventFile file_;
  double start_wall_time_;
  double last_step_time_ = 0.0, last_flush_ = 0.0;
  int64_t steps_ = 0;
  std::optional<int64_t> newest_step_;
};

// Nothing if the file cannot be created, which it says: lost charts must not stop training.
std::shared_ptr<TensorBoard> charts_if_possible(const std::string& folder, const std::string& run,
                                                const Talk& talk);

}  // namespace adaptdl::launch
