#pragma once

// The systemd user unit of the local service.

#include <string>
#include <vector>

namespace adaptdl::client {

// The absolute path of this program's file.
std::string this_program();

// The unit's text for the program at `path`; `flags`: of `adaptdl serve`.
std::string service_unit(const std::string& path, const std::vector<std::string>& flags);

// Writes the unit to the user's units, and prints (unless `quiet`) the next steps: ending a service
// that runs already, enabling the unit, and lingering, without which it ends with the last session.
// Returns the exit code.
int install_unit(const std::vector<std::string>& flags, bool quiet);

}  // namespace adaptdl::client
