#include "core/launch/hosts/ssh_client.h"

#include <fcntl.h>
#include <fmt/ranges.h>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/base/text.h"

namespace adaptdl::launch {
namespace {

constexpr Seconds kCopy{1800};  // at most
constexpr size_t kMaxBinary = size_t{2} << 30;
constexpr size_t kMaxLine = 4000;

// What a command said last, for the sentence about its failure.
std::string last_line(const std::string& text) {
  std::string last;
  for (const std::string& line : split(text, '\n')) {
    if (!line.empty()) last = without_controls(line);
  }
  return last.substr(0, kMaxLine);
}

}  // namespace

std::vector<std::string> ssh_words() {
  std::vector<std::string> words;
  for (const std::string& word : split(environment_variable("ADAPTDL_SSH").value_or("ssh"), ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

std::string shell_quoted(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += R"('\'')";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

SshClient::SshClient(std::vector<std::string> words)
    : words_(std::move(words)),
      digest_(to_hex(sha256(bytes_of(read_file("/proc/self/exe", kMaxBinary))))) {}

SpawnOptions SshClient::command(const std::string& host, const std::string& script) const {
  SpawnOptions spawned;
  spawned.argv = words_;
  for (const char* option :
       {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=4",
        "ControlMaster=no"}) {  // one would keep our pipes open
    spawned.argv.insert(spawned.argv.end(), {"-o", option});
  }
  // The user's shell there may be any.
  spawned.argv.insert(spawned.argv.end(), {"-T", "--", host, "exec sh -c " + shell_quoted(script)});
  spawned.new_process_group = true;
  return spawned;
}

std::string SshClient::ask(const std::string& host, const std::string& script, int input,
                           Seconds timeout) const {
  SpawnOptions spawned = command(host, script);
  spawned.descriptors = {{input, 0}};
  const CapturedRun done = run_and_capture(std::move(spawned), timeout, true);
  if (done.status.success()) return done.output;
  if (!done.status.signaled && done.status.value == kSshFailed) {
    fail("ssh: {}. `{} {} true` must work without a question", last_line(done.output),
         fmt::join(words_, " "), host);
  }
  fail("{} ({})", last_line(done.output), done.status.describe());
}

// The end of the connection looks like the end of the file, hence its size.
void SshClient::put(const std::string& host, const std::string& file,
                    const std::string& names) const {
  const Fd source = open_file(file, O_RDONLY);
  ask(host,
      fmt::format(
          R"({}; t=$f.$$; mkdir -p "$d" && cat > "$t" && n=$(wc -c < "$t") && test $n -eq {} &&)"
          R"( chmod 700 "$t" && mv -f "$t" "$f" || {{ rm -f "$t"; exit 1; }})",
          names, file_size(file)),
      source.get(), kCopy);
}

// A folder for each version of the binary.
std::string SshClient::binary_folder() const {
  return "d=${XDG_CACHE_HOME:-$HOME/.cache}/adaptdl/hosts/" + digest_;
}

void SshClient::put_binary(const std::string& host) const {
  put(host, "/proc/self/exe", binary_folder() + "; f=$d/adaptdl");
}

void SshClient::bring_binary(const std::string& host, const std::function<void()>& say) const {
  const Fd null = open_file("/dev/null", O_RDONLY);
  const std::string missing = ask(
      host, binary_folder() + "; test -x \"$d/adaptdl\" || echo no-binary", null.get(), kShortTask);
  if (missing.find("no-binary") == std::string::npos) return;
  say();
  put_binary(host);
}

}  // namespace adaptdl::launch
