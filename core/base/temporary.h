#pragma once

// Files and folders that are not to outlive the program. Thread-safe.

#include <string>

namespace adaptdl {

// From then on until it is forgotten, sweep_temporary_paths() removes it with its content.
// TemporaryDirectory does both for its own.
void note_temporary_path(const std::string& path);
void forget_temporary_path(const std::string& path) noexcept;

// For a program that a signal ends now.
void sweep_temporary_paths() noexcept;

}  // namespace adaptdl
