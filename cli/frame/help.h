#pragma once

#include <string>

#include "cli/commands.h"

namespace adaptdl::cli {

// `adaptdl --help`: what it is, the commands, the global flags. `fancy`: with bold headings.
std::string program_help(bool fancy);

// `adaptdl GROUP --help`: what it is about, and its commands.
std::string group_help(const CommandGroup& group, bool fancy);

// `adaptdl COMMAND --help`: usage, text, arguments, flags, examples, from the table.
std::string command_help(const Command& command, bool fancy);

// "adaptdl run [FLAGS] PROGRAM [-- ARGS...]"
std::string usage_line(const Command& command);

}  // namespace adaptdl::cli
