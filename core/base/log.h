#pragma once

// What a process says about its own work, to people: one line on standard error each,
//   2026-01-31T08:05:09.123Z warning worker 3: text
// in one write, so that lines of several threads and processes do not mix. Thread-safe. A standard
// error that is closed or full loses lines; nothing else happens.

#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>

namespace adaptdl {

enum class LogLevel : int { error, warning, info, debug };

// "error", "warning", "info" or "debug"; throws UsageError naming `what`.
LogLevel parse_log_level(std::string_view text, std::string_view what);

// Lines above this level are dropped; at first: info.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);

// Put before every text, as "worker 3: "; at first empty. Call before threads start.
void set_log_name(const std::string& name);

// The text with its control characters, but newlines and tabs, as escapes such as \x1b: what came
// from a file or another program may not steer a terminal.
std::string printable(std::string_view text);

// Writes the line, whatever the level. Further lines of a text are indented, and control
// characters shown as escapes: a log is read on terminals.
void log_line(LogLevel level, std::string_view text);

template <typename... Args>
void log_at(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::error, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::warning, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::info, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::debug, format, std::forward<Args>(args)...);
}

}  // namespace adaptdl
