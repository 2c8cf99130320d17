#pragma once

// A run's identity on disk: the lock that keeps a second one out, and the record of what the run is
// and how far it came.
//   CHECKPOINT_DIR/run.lock  locked (flock) by the live launcher; holds its process number
//   CHECKPOINT_DIR/run.json  {format, name, program, arguments, settings, state, step, ...}
// The same record, with what only a live run has, is kept in the record file for `ls` and `logs`.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/fd.h"

namespace adaptdl::launch {

class RunFolder {
 public:
  // Makes the folder and takes the lock. Throws Error: a live run has it; the folder belongs to a
  // run of another name, or to a newer version of this program.
  RunFolder(const std::string& name, std::string folder, std::string record_file);

  // What the last run here left; null if nothing.
  const nlohmann::json& previous() const { return previous_; }
  bool was_finished() const {
    return previous_.is_object() && previous_.value("state", "") == "finished";
  }

  // One sentence for each thing of `record` that differs from the last run here.
  std::vector<std::string> changes(const nlohmann::json& record) const;

  // Removes what an earlier run left, checkpoints too, and nothing else that is in the folder.
  void clear();

  // Writes both files. Throws Error.
  void write(const nlohmann::json& record) const;

 private:
  const std::string folder_, record_file_;
  Fd lock_;
  nlohmann::json previous_;
};

}  // namespace adaptdl::launch
