#pragma once

#include <string>
#include <vector>

#include "core/formats/json.h"
#include "core/job/job_spec.h"

namespace adaptdl::client {

// The copy of a submission's source, in a folder that the service takes over with the request. The
// destructor removes it unless the service has it.
class IncomingProject {
 public:
  // Copies `source`, a folder or a file, unless it is ""; shows progress on a terminal if it takes
  // long. Adds settings and notes that result from copying. Ctrl-C, SIGTERM and SIGHUP interrupt
  // it. Throws Error.
  IncomingProject(const std::string& source, JobSpec& spec, std::vector<std::string>& notes,
                  bool quiet);
  ~IncomingProject();
  IncomingProject(const IncomingProject&) = delete;
  IncomingProject& operator=(const IncomingProject&) = delete;

  Json path() const { return path_.empty() ? Json() : Json(path_); }  // null without a source
  void keep() { path_.clear(); }                                      // the service has it

 private:
  std::string path_;
};

}  // namespace adaptdl::client
