#pragma once

// Reads an event file back, independently of the writer: for tests.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace adaptdl {

struct ReadEvent {
  double wall_time_s = 0;
  int64_t step = 0;
  std::string version;
  std::map<std::string, float> scalars;
};

// nullopt when a length, a checksum or an encoding is wrong, or the file ends inside a record.
std::optional<std::vector<ReadEvent>> read_events(std::string_view file);

}  // namespace adaptdl
