#pragma once

// Checks what this machine has for training, without changing anything.

#include <string>
#include <vector>

#include "core/formats/json.h"

namespace adaptdl::cli {

struct Finding {
  enum class Status { fine, note, missing };
  std::string name;  // "cores", "libtorch", ...
  Status status = Status::fine;
  std::string detail;  // one sentence without full stop
  std::string fix;     // a command, or an instruction; "" if nothing is missing
  Json facts;          // for programs: an object
};

std::vector<Finding> examine_machine();

// Text for people: a line for each check, marked "ok", "--" or "!!", and the fix below.
std::string describe(const std::vector<Finding>& findings, bool color);

// {"ok": ..., "checks": [{name, status, detail, fix, facts}]}
Json to_json(const std::vector<Finding>& findings);

// Whether everything is there for training an archive.
bool all_fine(const std::vector<Finding>& findings);

}  // namespace adaptdl::cli
