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
#include "core/launch/run.h"

namespace adaptdl::launch {

class RunFolder {
 public:
  static constexpr int kFormat = 1;

  // Makes the folder and takes the lock. Throws Error: a live run has it; the folder belongs to a
  // run of another name, or to a newer version of this program.
  explicit RunFolder(const RunOptions& options);

  // What the last run here left; null if nothing.
  const nlohmann::json& previous() const { return previous_; }
  bool was_finished() const {
    return previous_.is_object() && previous_.value("state", "") == "finished";
  }

  // One sentence for each thing that differs from the last run here.
  std::vector<std::string> changes() const;

  // Removes what an earlier run left, checkpoints too, and nothing else that is in the folder.
  void clear();

  // Merges `facts` into the record and writes both files. Trouble is kept for problem(): a full
  // disk does not end a run.
  void update(const nlohmann::json& facts) noexcept;
  const std::string& problem() const { return problem_; }

 private:
  const std::string folder_, record_file_;
  Fd lock_;
  nlohmann::json previous_, record_;
  std::string problem_;
};

}  // namespace adaptdl::launch
