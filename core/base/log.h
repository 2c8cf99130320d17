#pragma once

// Log lines for people. Each is one line on standard error,
//   2026-01-31T08:05:09.123Z warning worker 3: text
// written at once, so that lines of several threads and processes do not mix. Thread-safe. If
// standard error is closed or full, lines are lost; nothing else happens.

#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>

namespace adaptdl {

enum class LogLevel : int { error, warning, info, debug };

// "error", "warning", "info" or "debug"; throws UsageError naming `what`.
LogLevel parse_log_level(std::string_view text, std::string_view what);

// Lines above this level are dropped. Default: info.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);

// Prefix of every text, such as "worker 3: ". Default: none. Call before threads start.
void set_log_name(const std::string& name);

// The text with its control characters, except newlines and tabs, as escapes such as \x1b, so that
// text from a file or another program cannot control a terminal.
std::string printable(std::string_view text);

// Writes the line at any level. Further lines of a text are indented; control characters are shown
// as escapes, because terminals display logs.
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
