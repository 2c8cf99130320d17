#pragma once

#include <string>

#include "cli/commands.h"

namespace adaptdl::cli {

// `adaptdl --help`: a description, the commands, the global flags. `fancy`: with bold headings.
std::string program_help(bool fancy);

// `adaptdl GROUP --help`: the group's description and commands.
std::string group_help(const CommandGroup& group, bool fancy);

// `adaptdl COMMAND --help`: usage, text, arguments, flags, examples, from the table.
std::string command_help(const Command& command, bool fancy);

// "adaptdl run [FLAGS] PROGRAM [-- ARGS...]"
std::string usage_line(const Command& command);

}  // namespace adaptdl::cli
