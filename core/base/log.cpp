#include "core/base/log.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/system.h"
#include "core/base/text.h"

namespace adaptdl {

namespace {

constexpr std::array<const char*, 4> kNames = {"error", "warning", "info", "debug"};
constexpr std::array<const char*, 4> kColors = {"\033[31m", "\033[33m", "", "\033[2m"};

std::atomic<LogLevel> current_level = LogLevel::info;

std::string& log_name() {
  static std::string name;
  return name;
}

// Indents further lines below the first one.
void append_indented(std::string& line, std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  for (const char c : printable(text)) {
    line += c;
    if (c == '\n') line += "    ";
  }
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    if (is_wide_control(text, i)) {
      shown += fmt::format("\\u{:04x}", static_cast<unsigned char>(text[++i]));
    } else if ((byte < 0x20 && c != '\t' && c != '\n') || byte == 0x7f) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown += c;
    }
  }
  return shown;
}

LogLevel parse_log_level(std::string_view text, std::string_view what) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (text == kNames[i]) return static_cast<LogLevel>(i);
  }
  throw UsageError(
      fmt::format("{}: '{}' is not allowed; give {}", what, text, fmt::join(kNames, ", ")));
}

void set_log_level(LogLevel level) {
  current_level = level;
}
bool log_enabled(LogLevel level) {
  return level <= current_level.load();
}
void set_log_name(const std::string& name) {
  log_name() = name;
}

void log_line(LogLevel level, std::string_view text) {
  static const bool colored = wants_color(STDERR_FILENO);
  const auto index = static_cast<size_t>(level);
  std::string line = rfc3339(std::chrono::system_clock::now()) + " ";
  if (colored) line += kColors[index];
  line += kNames[index];
  if (colored && *kColors[index] != '\0') line += "\033[0m";
  line += " ";
  if (!log_name().empty()) line += log_name() + ": ";
  append_indented(line, text);
  line += "\n";
  const int saved = errno;
  [[maybe_unused]] const ssize_t put = ::write(STDERR_FILENO, line.data(), line.size());
  errno = saved;
}

}  // namespace adaptdl
