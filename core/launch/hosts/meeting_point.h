#pragma once

// Hosts that run one training without a scheduler: where they meet, and the key by which they know
// each other. The flags are torchrun's; it has no key.

#include <cstdint>
#include <string>
#include <string_view>

#include "core/launch/hosts/agent.h"

namespace adaptdl::launch {

inline constexpr uint16_t kMeetingPort = 29400;  // torchrun's default

// "HOST", "HOST:PORT" or "[IPV6]:PORT". Throws UsageError.
LauncherAddress parse_meeting_point(std::string_view text);

// Whether a name or an address is this machine's; "USER@HOST", as ssh has it, is HOST. False also
// if it cannot be resolved.
bool is_this_machine(const std::string& host);

// The file for the key of this user's runs on several hosts.
std::string default_key_file();

// The key in `file`, which is made (mode 0600) if it does not exist: processes that share the file
// then have the same one. Throws Error, also for a key that others may read, or a short one.
std::string host_key(const std::string& file);

// Throws Error "WHERE: ..." for a key that is so short that it could be guessed.
void check_host_key(const std::string& key, const std::string& where);

}  // namespace adaptdl::launch
