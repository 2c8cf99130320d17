#pragma once

// The systemd user unit of the local service.

#include <string>

namespace adaptdl::client {

// This program's own file, as an absolute path.
std::string this_program();

// The unit's text for the program at `path`.
std::string service_unit(const std::string& path);

// Writes it into the user's units, and says (unless `quiet`) what to do next: enabling it, and
// lingering, without which it ends with the last session. Returns the exit code.
int install_unit(bool quiet);

}  // namespace adaptdl::client
