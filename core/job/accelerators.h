#pragma once

// The kinds of accelerators on which a job may run, as its user names them. Pure.

#include <string>
#include <vector>

namespace adaptdl {

// Patterns of names: of a GPU's product ("NVIDIA A100-SXM4-80GB" here, "NVIDIA-A100-SXM4-80GB" as a
// label of Kubernetes), or of a kind of slots. `*`, `?` and `[...]` have a shell's meaning, and
// upper and lower case are the same. None: any kind.
using Accelerators = std::vector<std::string>;

inline constexpr size_t kMostAccelerators = 64;
inline constexpr size_t kLongestAccelerator = 128;  // bytes

// What is wrong: more or longer ones, an empty one, or one with a comma; "" if nothing is.
std::string accelerators_problem(const Accelerators& accelerators);

// Whether a kind is among them; one that is not known, "", only if any is.
bool among(const Accelerators& accelerators, const std::string& kind);

}  // namespace adaptdl
