#pragma once

// Files and folders that must not outlive the program. Thread-safe.

#include <string>

namespace adaptdl {

// Registers a path that sweep_temporary_paths() removes with its content, until it is forgotten.
// TemporaryDirectory does both for its folder.
void note_temporary_path(const std::string& path);
void forget_temporary_path(const std::string& path) noexcept;

// For a program that is about to end by a signal.
void sweep_temporary_paths() noexcept;

}  // namespace adaptdl
