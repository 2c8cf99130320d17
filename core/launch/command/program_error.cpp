#include "core/launch/command/program_error.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/text.h"
#include "core/formats/json_fields.h"

namespace adaptdl::launch {

namespace {

constexpr size_t kMostFile = 1u << 20;
constexpr size_t kMostMessage = 500;
constexpr size_t kMostErrorLine = 300;
constexpr size_t kMostLines = 20;

// At most `most` bytes, on one line.
std::string one_line(std::string text, size_t most) {
  if (text.size() > most) text = text.substr(0, most) + " ...";
  return without_controls(std::move(text));
}

std::vector<std::string> last_part(const std::string& text) {
  std::vector<std::string> lines;
  for (std::string& line : split(text, '\n')) {
    if (line.find_first_not_of(" \r\t") == std::string::npos) continue;
    lines.push_back(one_line(std::move(line), kMostErrorLine));
  }
  if (lines.size() > kMostLines) lines.erase(lines.begin(), lines.end() - kMostLines);
  return lines;
}

std::optional<double> time_of(const Json& value) {
  std::optional<double> time;
  if (value.is_string()) time = try_parse<double>(value.get<std::string>());
  if (value.is_number()) time = value.get<double>();
  if (time && !(std::isfinite(*time) && *time > 0)) return std::nullopt;
  return time;
}

// As gloo, NCCL, the store of torch.distributed and the system say it.
bool tells_of_lost_peer(const std::string& text) {
  for (const char* words :
       {"Connection closed by peer", "Connection reset by peer", "Broken pipe", "Socket closed",
        "remote process exited", "Failed to recv, got 0 bytes"}) {
    if (text.find(words) != std::string::npos) return true;
  }
  return false;
}

bool lost_a_peer(const EndedReplica& replica) {
  if (replica.error) return tells_of_lost_peer(replica.error->message);
  return std::any_of(replica.log.begin(), replica.log.end(), tells_of_lost_peer);
}

}  // namespace

std::optional<ProgramError> parse_program_error(std::string_view text) {
  try {
    const Json file = parse_json(text, "error file", {.max_bytes = kMostFile});
    const Json& message = member(file, "message");
    ProgramError error;
    if (message.is_string()) {
      error.message = one_line(message.get<std::string>(), kMostMessage);
    } else {
      error.message = one_line(text_at(message, "message"), kMostMessage);
      const Json& extra = object_at(message, "extraInfo");
      error.traceback = last_part(text_at(extra, "py_callstack"));
      error.at_s = time_of(member(extra, "timestamp"));
    }
    if (error.message.empty() && error.traceback.empty()) return std::nullopt;
    return error;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<ProgramError> read_program_error(const std::string& path) {
  try {
    if (!path_exists(path)) return std::nullopt;
    return parse_program_error(read_file(path, kMostFile));
  } catch (const Error&) {
    return std::nullopt;
  }
}

int first_failure(const std::vector<EndedReplica>& ended) {
  const auto order = [](const EndedReplica& replica) {
    const bool known = replica.error && replica.error->at_s;
    const double at_s = known ? std::min(*replica.error->at_s, replica.at_s) : replica.at_s;
    return std::pair(lost_a_peer(replica), std::floor(at_s));
  };
  int first = -1;
  for (size_t i = 0; i < ended.size(); ++i) {
    if (!ended[i].failed()) continue;
    if (first < 0 || order(ended[i]) < order(ended[static_cast<size_t>(first)])) {
      first = static_cast<int>(i);
    }
  }
  return first;
}

}  // namespace adaptdl::launch
