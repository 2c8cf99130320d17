#pragma once

// Why a replica failed, in its own words: the error file of PyTorch's elastic launcher. A program
// whose main function has the decorator torch.distributed.elastic.multiprocessing.errors.record
// writes its exception to the file that TORCHELASTIC_ERROR_FILE names:
//   {"message": {"message": "ValueError: ...", "extraInfo": {"py_callstack": "Traceback ...",
//                "timestamp": "1767225600"}}}

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/process.h"

namespace adaptdl::launch {

struct ProgramError {
  std::string message;                 // one line
  std::vector<std::string> traceback;  // its last lines; empty if there is none
  std::optional<double> at_s;          // seconds since 1970, often without a fraction
};

// Nothing if the text is not such a file. The program may have written anything: control characters
// become blanks, and long texts are cut. Pure; never throws.
std::optional<ProgramError> parse_program_error(std::string_view text);

// Nothing if there is no such file at `path`.
std::optional<ProgramError> read_program_error(const std::string& path);

// A replica that has ended.
struct EndedReplica {
  int rank = 0;
  ExitStatus status;
  std::string host;            // of another one; "": it was on the launcher's
  std::string lost;            // why its end is unknown, such as "its host node2 is gone"
  bool host_lost = false;      // that is why it ended
  double at_s = 0;             // when its end was seen, seconds since 1970
  bool asked = false;          // it had been asked to end before
  bool out_of_memory = false;  // the system killed it because memory ran out
  std::optional<ProgramError> error;
  std::vector<std::string> log;  // its last lines
  bool refused_pickle = false;   // of another host: CommandProcesses::needs_pickles()

  // It failed by itself. A program that was asked to end may fail in doing so; but if it tells an
  // exception, that was perhaps before.
  bool failed() const { return !status.success() && (!asked || error); }
};

// The index of the replica that failed first; the others' failures may be its consequence. One that
// only tells that the connection to another broke comes after all others. Then the time counts: of
// its exception, which may end its process only after those of others, or of its end. Within a
// second it is the one that ended first. `ended` is in order of their ends. -1: none has failed.
int first_failure(const std::vector<EndedReplica>& ended);

}  // namespace adaptdl::launch
