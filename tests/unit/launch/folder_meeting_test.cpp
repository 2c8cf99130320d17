#include "core/launch/hosts/folder_meeting.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/launch/hosts/agent_link.h"
#include "core/net/tcp.h"
#include "tests/support/closed_port.h"

using namespace adaptdl;
using namespace adaptdl::launch;

TEST_CASE("folder meeting: hosts find the leading one of their own start, and share a key") {
  const TemporaryDirectory folder("folder-meeting");
  const std::string place = join_path(folder.path(), "checkpoints");
  const FolderMeeting leader(place, "job 1"), other(place, "job 1"), stranger(place, "job 2");
  CHECK(leader.key() == other.key());
  CHECK_THROWS_WITH_AS(other.find(), doctest::Contains("has not written"), Error);
  const Fd listener = listen_tcp(0);
  leader.begin();
  leader.lead(reached_at({}), port_of(listener.get()));
  const LauncherAddress found = other.find();
  CHECK(found.port == port_of(listener.get()));
  connect_tcp(found.host, found.port, Monotonic::now() + std::chrono::seconds(5));
  CHECK_THROWS_WITH_AS(stranger.find(), doctest::Contains("has not written"), Error);
}

TEST_CASE("folder meeting: a leading host that does not answer is told with its addresses") {
  const TemporaryDirectory folder("folder-meeting");
  const FolderMeeting meeting(folder.path(), "job 1");
  const adaptdl::testing::ClosedPort closed;
  meeting.lead({{"127.0.0.1", "lo"}}, closed.port);
  const std::string where = fmt::format("127.0.0.1 port {}: ", closed.port);
  CHECK_THROWS_WITH_AS(meeting.find(), doctest::Contains(where.c_str()), Error);
  write_file_atomic(join_path(folder.path(), "leader.json"), "{\"start\": 1}");
  CHECK_THROWS_AS(meeting.find(), Error);
}

TEST_CASE("folder meeting: the end of an earlier run is not taken for that of a new one") {
  const TemporaryDirectory folder("folder-meeting");
  const FolderMeeting leader(folder.path(), ""), late(folder.path(), "");
  leader.end(3);
  CHECK_THROWS_WITH_AS(late.find(), doctest::Contains("has not written"), Error);  // not at once
  const FolderMeeting again(folder.path(), "");
  again.begin();
  CHECK_FALSE(path_exists(join_path(folder.path(), "leader.json")));
}
