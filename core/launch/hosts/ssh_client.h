#pragma once

// Commands on other hosts by the user's own ssh, and a copy of this binary there.

#include <functional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/process.h"

namespace adaptdl::launch {

inline constexpr int kSshFailed = 255;    // the exit code of ssh itself
inline constexpr Seconds kShortTask{60};  // for ask()

// The client and its flags: ADAPTDL_SSH, by default ssh.
std::vector<std::string> ssh_words();

// A word as POSIX shells read it.
std::string shell_quoted(const std::string& word);

// Any thread.
class SshClient {
 public:
  // `words`: as ssh_words().
  explicit SshClient(std::vector<std::string> words);

  // A program that runs the script of a shell on the host. The terminal's Ctrl-C does not reach it.
  SpawnOptions command(const std::string& host, const std::string& script) const;

  // Runs a script; returns what it wrote. `input`: a descriptor. Throws Error, with what it said
  // last.
  std::string ask(const std::string& host, const std::string& script, int input,
                  Seconds timeout) const;

  // Copies a file to the host. `names`: assigns $f, the file, and $d, its folder. The file is there
  // whole or not at all. Throws Error.
  void put(const std::string& host, const std::string& file, const std::string& names) const;

  // For scripts: assigns $d, the folder with the copy of this binary, `adaptdl`.
  std::string binary_folder() const;
  // Copies this binary there if it is not. `say`: called before a copy. Throws Error.
  void bring_binary(const std::string& host, const std::function<void()>& say) const;
  void put_binary(const std::string& host) const;

 private:
  const std::vector<std::string> words_;
  std::string digest_;  // of this binary
};

}  // namespace adaptdl::launch
