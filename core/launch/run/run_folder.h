#pragma once

// A run's identity on disk: the lock that keeps a second run out, and the record of what the run is
// and how far it has got.
//   CHECKPOINT_DIR/run.lock  locked (flock) by the live launcher; holds "PID on HOST"
//   CHECKPOINT_DIR/run.json  {format, name, program, arguments, settings, state, step, ...}
// The record file for `ls` and `logs` holds the same record, with the fields of a live run.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/fd.h"

namespace adaptdl::launch {

// What a run of this process writes into its lock file; and what a folder's holds ("": none).
std::string lock_owner();
std::string lock_owner(const std::string& folder);

// Whether a live launcher has that folder.
bool is_locked(const std::string& folder);

// A live run has the lock.
struct FolderInUse : Error {
  using Error::Error;
};

class RunFolder {
 public:
  // Creates the folder and takes the lock, for which it waits so long. Throws FolderInUse, and
  // Error if the folder belongs to a run of another name or to a newer version of this program.
  RunFolder(const std::string& name, std::string folder, std::string record_file,
            Seconds patience = Seconds(0));

  // The record of the last run in this folder; null if there is none.
  const nlohmann::json& previous() const { return previous_; }
  bool was_finished() const {
    return previous_.is_object() && previous_.value("state", "") == "finished";
  }

  // Whether `record` names another end of training than the last run's: a finished run may have
  // more to do.
  bool may_go_on(const nlohmann::json& record) const;

  // One sentence for each field of `record` that differs from the last run's.
  std::vector<std::string> changes(const nlohmann::json& record) const;

  // Removes the files of an earlier run, checkpoints included, and no others.
  void clear();

  // Writes both files. Throws Error.
  void write(const nlohmann::json& record) const;

 private:
  const std::string folder_, record_file_;
  Fd lock_;
  nlohmann::json previous_;
};

}  // namespace adaptdl::launch
