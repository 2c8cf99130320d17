// What rank 0 tells replicas that nobody has launched.

#include "runtime/standalone/roster.h"

#include <algorithm>
#include <doctest/doctest.h>

#include "core/launch/io/protocol.h"

using namespace adaptdl;
using namespace adaptdl::standalone;
using nlohmann::json;

namespace {

const TimePoint kStart = Monotonic::now();

Place place(int rank, int replicas) {
  Place place;
  place.rank = rank;
  place.replicas = replicas;
  return place;
}

json hello(int rank) {
  return {{"type", "hello"}, {"endpoint", rank}, {"accelerator", "cpu"}};
}

// A roster whose replicas have all joined, and said hello.
struct Began {
  explicit Began(int replicas) : Began(place(0, replicas)) {}
  explicit Began(const Place& own) : roster(own, "training", "00", kStart) {
    const int replicas = own.replicas;
    for (int rank = replicas; rank-- > 0;) {
      REQUIRE(roster.admit(join_message(place(rank, replicas), "training")).rank == rank);
    }
    for (int rank = 0; rank < replicas; ++rank) {
      CHECK(sent.empty());
      sent = roster.received(rank, hello(rank), kStart);
    }
  }
  Roster roster;
  Roster::Outbox sent;
};

std::string reason(const Roster::Admission& admission) {
  CHECK(admission.rank == -1);
  return admission.answer.value("reason", "");
}

json members_in(const json& message) {
  json all = json::array();
  for (const json& entry : message.at("members")) all.push_back(entry.at("member"));
  return all;
}

}  // namespace

TEST_CASE("the generation begins when all are there, in order of rank") {
  const Began began(3);
  REQUIRE(began.sent.size() == 3);
  for (const auto& [member, message] : began.sent) {
    CHECK(message.at("type") == "generation");
    CHECK(message.at("generation") == 1);
    CHECK(members_in(message) == json{0, 1, 2});
  }
}

TEST_CASE("who does not fit is refused with a reason") {
  Roster roster(place(0, 2), "training", "00", kStart);
  const auto refused = [&](const json& change) {
    json join = join_message(place(1, 2), "training");
    join.update(change);
    return reason(roster.admit(join));
  };
  CHECK(refused({{"replicas", 3}}) == "ADAPTDL_NUM_REPLICAS is 3 here and 2 on rank 0");
  CHECK(refused({{"restarts", 4}}) == "ADAPTDL_NUM_RESTARTS is 4 here and 0 on rank 0");
  CHECK(refused({{"job", "a/b"}}).find("another job") != std::string::npos);
  CHECK(refused({{"purpose", "collective"}}).find("different programs") != std::string::npos);
  CHECK(refused({{"rank", 2}}) == "there is no rank 2 of 2");
  CHECK(refused({{"rank", "1"}}) == "there is no rank -1 of 2");
  CHECK(refused({{"protocol", 99}}).find("build all") != std::string::npos);
  CHECK(refused({{"type", "hello"}}).find("first message") != std::string::npos);
  CHECK(roster.missing() == std::vector<int>{0, 1});
  CHECK(roster.admit(join_message(place(1, 2), "training")).rank == 1);
  CHECK(refused(json::object()).find("another replica") != std::string::npos);
  CHECK(roster.missing() == std::vector<int>{0});
}

TEST_CASE("a death makes a generation of the others, which stop after a checkpoint") {
  Began began(3);
  const Roster::Outbox sent = began.roster.closed(1);
  REQUIRE(sent.size() == 4);
  CHECK(members_in(sent[0].second) == json{0, 2});
  CHECK(sent[0].second.at("generation") == 2);
  CHECK(sent[2].second.at("mode") == "checkpoint");
  CHECK(sent[2].first == 2);  // rank 0 last
  CHECK(sent[3].first == 0);
  CHECK(sent[3].second.at("cause").get<std::string>().find("replica 1 has died") == 0);
  // A second one only makes another generation.
  const Roster::Outbox more = began.roster.closed(2);
  REQUIRE(more.size() == 1);
  CHECK(members_in(more[0].second) == json{0});
  CHECK(began.roster.all_but_first_ended());
}

TEST_CASE("rank 0's death is for the others to find out") {
  Began began(2);
  CHECK(began.roster.closed(0).empty());
  CHECK(began.roster.first_lost());
}

TEST_CASE("before training an end is the end of all, at once") {
  Roster roster(place(0, 2), "training", "00", kStart);
  roster.admit(join_message(place(0, 2), "training"));
  roster.admit(join_message(place(1, 2), "training"));
  roster.received(0, hello(0), kStart);
  SUBCASE("by a signal") {
    const auto sent = roster.received(1, {{"type", "leaving"}, {"reason", "SIGINT"}}, kStart);
    REQUIRE(sent.size() == 2);
    CHECK(sent[0].second.at("mode") == "now");
    CHECK(sent[0].second.at("exit") == 143);
  }
  SUBCASE("by a death") {
    const auto sent = roster.closed(1);
    REQUIRE(sent.size() == 1);
    CHECK(sent[0].second.at("exit") == 1);
  }
  SUBCASE("by an error") {
    const auto sent =
        roster.received(1, {{"type", "fatal"}, {"message", "no data"}, {"exit", 2}}, kStart);
    REQUIRE(sent.size() == 1);
    CHECK(sent[0].second.at("exit") == 2);
    CHECK(sent[0].second.at("cause") == "replica 1 has failed: no data");
  }
  CHECK(roster.admit(join_message(place(1, 2), "training")).rank == -1);
}

TEST_CASE("the patience for those who are missing ends") {
  Roster roster(place(0, 3), "training", "00", kStart);
  roster.admit(join_message(place(0, 3), "training"));
  roster.admit(join_message(place(2, 3), "training"));
  CHECK(roster.elapsed(kStart + std::chrono::seconds(599)).empty());
  const auto sent = roster.elapsed(roster.deadline());
  REQUIRE(sent.size() == 2);
  CHECK(sent[1].second.at("cause").get<std::string>().find("rank 1") != std::string::npos);
  CHECK(roster.deadline() == TimePoint::max());
}

TEST_CASE("replicas that lose each other without a death connect again, but not for ever") {
  Began began(2);
  const auto lost = [&](uint64_t generation) {
    return began.roster.received(
        1, {{"type", "lost"}, {"generation", generation}, {"reason", "no route"}}, kStart);
  };
  CHECK(lost(7).empty());  // of no generation that is
  CHECK(began.roster.deadline() == TimePoint::max());
  uint64_t generation = 1;
  for (; generation <= 20; ++generation) {
    CHECK(lost(generation).empty());
    CHECK(began.roster.elapsed(kStart).empty());
    const auto sent = began.roster.elapsed(began.roster.deadline());
    REQUIRE(sent.size() == 2);
    CHECK(sent[0].second.at("generation") == generation + 1);
  }
  lost(generation);
  const auto sent = began.roster.elapsed(began.roster.deadline());
  REQUIRE(sent.size() == 2);
  CHECK(sent[0].second.at("mode") == "now");
  CHECK(sent[0].second.at("cause").get<std::string>().find("no route") != std::string::npos);
}

TEST_CASE("a replica that has said goodbye is not missed") {
  Began began(2);
  CHECK(began.roster.received(1, {{"type", "bye"}, {"result", "finished"}}, kStart).empty());
  CHECK(began.roster.all_but_first_ended());
  CHECK(began.roster.closed(1).empty());
}

TEST_CASE("a replica for which others wait too long is told to end, and counts as dead") {
  Place own = place(0, 3);
  own.hang_timeout_s = 10;
  Began began(own);
  Roster& roster = began.roster;
  TimePoint now = kStart;
  const auto says = [&](int member, const json& message) {
    CHECK(roster.received(member, message, now).empty());
  };
  const auto waits = [&](int member, bool waiting) {
    says(member, {{"type", "waiting"}, {"generation", 1}, {"waiting", waiting}});
  };
  // As a coordinator that looks as often as it is asked to.
  const auto pass = [&](int seconds) {
    const TimePoint end = now + std::chrono::seconds(seconds);
    while (now < end) {
      if (const auto sent = roster.elapsed(now); !sent.empty()) return sent;
      now = std::min(end, roster.deadline());
    }
    return Roster::Outbox{};
  };
  says(0, {{"type", "event"}, {"event", {{"event", "step"}, {"step_s", 1.0}}}});
  waits(0, true);
  waits(2, true);
  CHECK(pass(15).empty());  // less than 20 steps
  waits(2, false);
  waits(0, false);
  CHECK(pass(60).empty());
  waits(0, true);
  waits(2, true);
  says(1, {{"type", "saving"}, {"saving", true}});
  CHECK(pass(60).empty());
  says(1, {{"type", "saving"}, {"saving", false}});
  CHECK(pass(10).empty());
  now += std::chrono::seconds(60);  // nobody looked
  CHECK(pass(5).empty());
  const auto sent = pass(20);
  REQUIRE(sent.size() == 5);
  CHECK(sent[0].first == 1);
  CHECK(sent[0].second.at("mode") == "now");
  CHECK(sent[1].second.at("type") == "generation");
  CHECK(members_in(sent[1].second) == json{0, 2});
  CHECK(sent[4].first == 0);
  CHECK(sent[4].second.at("mode") == "checkpoint");
  CHECK(sent[4].second.at("cause").get<std::string>().find("made no progress") !=
        std::string::npos);
  CHECK(roster.closed(1).empty());
}

TEST_CASE("where rank 0 hangs, its end is for the others to find out") {
  Place own = place(0, 2);
  own.hang_timeout_s = 1;
  Began began(own);
  CHECK(
      began.roster.received(1, {{"type", "waiting"}, {"generation", 1}, {"waiting", true}}, kStart)
          .empty());
  CHECK(began.roster.elapsed(kStart).empty());
  CHECK(began.roster.elapsed(kStart + std::chrono::seconds(1)).empty());  // one look ends none
  CHECK(began.roster.elapsed(kStart + std::chrono::seconds(2)).size() == 1);
}
