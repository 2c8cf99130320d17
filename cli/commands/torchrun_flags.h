#pragma once

// torchrun's flags that have no effect here: about a rendezvous, other machines, and PyTorch's own
// ways to start and watch processes. `adaptdl torchrun` accepts them, so that command lines work
// as they are; commands with flags of their own say what to do instead.

#include <string_view>
#include <vector>

#include "cli/commands.h"

namespace adaptdl::cli {

struct TorchrunFlag {
  std::string_view name;      // without dashes
  std::string_view variable;  // torchrun's
  Kind kind = Kind::text;
  std::string_view instead;  // what to do without it: part of a sentence
};

// In the order of the help.
const std::vector<TorchrunFlag>& torchrun_flags_without_effect();

// What to do instead of a flag of torchrun that `run` and `submit` do not take; "" for other names.
// `name`: without dashes, words joined by hyphens.
std::string_view instead_of_torchrun_flag(std::string_view name);

}  // namespace adaptdl::cli
