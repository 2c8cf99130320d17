#include "core/launch/hosts/folder_meeting.h"

#include <algorithm>

#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/formats/json.h"
#include "core/launch/hosts/agent_link.h"
#include "core/launch/hosts/meeting_point.h"

namespace adaptdl::launch {
namespace {

constexpr const char* kFile = "leader.json";
constexpr const char* kKey = "hosts.key";
constexpr size_t kMostBytes = 64u << 10;
constexpr std::chrono::milliseconds kAnswerPatience{1000};  // for each address
// Until then an end may be that of an earlier run, whose start had the same name or none.
constexpr std::chrono::seconds kEndsAfter{10};

}  // namespace

FolderMeeting::FolderMeeting(std::string folder, std::string start)
    : folder_(std::move(folder)), start_(std::move(start)) {
  make_durable_directories(folder_, 0700);
}

std::string FolderMeeting::file() const {
  return join_path(folder_, kFile);
}

Json FolderMeeting::read_place() const {
  return parse_json(read_file(file(), kMostBytes), file());
}

std::string FolderMeeting::key() const {
  return host_key(join_path(folder_, kKey));
}

void FolderMeeting::begin() const {
  if (!path_exists(file())) return;
  if (read_place().contains("exit")) remove_tree(file());
}

void FolderMeeting::forget() const {
  if (path_exists(file())) remove_tree(file());
}

void FolderMeeting::lead(const std::vector<HostAddress>& addresses, uint16_t port) const {
  Json place = {{"start", start_}, {"addresses", Json::array()}, {"port", port}};
  for (const HostAddress& each : addresses) place["addresses"].push_back(each.address);
  write_file_atomic(file(), dump_json(place) + "\n", 0600);
}

void FolderMeeting::end(int exit) const {
  write_file_atomic(file(), dump_json({{"start", start_}, {"exit", exit}}) + "\n", 0600);
}

LauncherAddress FolderMeeting::find() const {
  // Listed, because a client of NFS looks for a name that it has missed again only after a while.
  const std::vector<std::string> names = list_directory(folder_);
  const auto none = [&]() -> LauncherAddress {
    fail("the leading host, of rank 0, has not written {} yet; all hosts need to share this folder",
         file());
  };
  if (std::ranges::find(names, kFile) == names.end()) return none();
  const Json place = read_place();
  if (json_get<std::string>(place, "start", file()) != start_) return none();
  if (const auto exit = json_find<int>(place, "exit", file())) {
    if (Monotonic::now() < begun_ + kEndsAfter) return none();
    throw RunEnded(*exit);
  }
  const auto port = json_get<uint16_t>(place, "port", file());
  std::string problems;
  for (const auto& address : json_get<std::vector<std::string>>(place, "addresses", file())) {
    try {
      connect_tcp(address, port, Monotonic::now() + kAnswerPatience);
      return {address, port};
    } catch (const Error& error) {
      problems += fmt::format("; {}", error.what());
    }
  }
  fail("no address of the leading host answers{}", problems);
}

}  // namespace adaptdl::launch
