#include "core/launch/run/cut_hosts.h"

#include <doctest/doctest.h>

#include "core/launch/run/rendezvous.h"

namespace cut_hosts_test {

using namespace adaptdl;
using namespace adaptdl::launch;

namespace {

using Hosts = std::vector<int>;
constexpr TimePoint kStart{};

TimePoint at(double seconds) {
  return kStart + std::chrono::duration_cast<Monotonic::duration>(Seconds(seconds));
}

int host_of(const Member& member) {
  return member.slots.front();
}

// A replica on each of `hosts`, which train together.
View training(int hosts) {
  View view;
  view.current.number = view.last_generation = 1;
  for (int host = 0; host < hosts; ++host) {
    const auto id = static_cast<MemberId>(host);
    started(view, id, kStart, {host});
    view.find(id)->state = MemberState::active;
    view.current.members.push_back(id);
  }
  return view;
}

void announce(View& view, std::vector<MemberId> members, TimePoint now) {
  Decision decision;
  decision.action = Action::announce;
  decision.generation = {++view.last_generation, std::move(members), true, "links", now};
  apply(view, decision, now);
}

}  // namespace

TEST_CASE("the side of a cut with fewer replicas goes, and of equals the newest") {
  CHECK(smaller_sides({}, {{0, 1}}).empty());
  CHECK(smaller_sides({{0, 1}}, {{0, 1}, {1, 1}}) == Hosts{1});
  CHECK(smaller_sides({{0, 1}}, {{0, 1}, {1, 2}}) == Hosts{0});
  CHECK(smaller_sides({{1, 2}}, {{0, 4}, {1, 4}, {2, 4}}) == Hosts{2});
  CHECK(smaller_sides({{1, 2}}, {{2, 1}}) == Hosts{1});  // which has none yet
  // One that nobody reaches, even the launcher's.
  CHECK(smaller_sides({{0, 1}, {0, 2}, {0, 3}}, {{0, 2}, {1, 1}, {2, 1}, {3, 1}}) == Hosts{0});
  CHECK(smaller_sides({{0, 3}, {1, 3}, {2, 3}}, {{0, 1}, {1, 1}, {2, 1}, {3, 2}}) == Hosts{3});
  // Two halves.
  CHECK(smaller_sides({{0, 2}, {0, 3}, {1, 2}, {1, 3}}, {{0, 1}, {1, 1}, {2, 1}, {3, 1}}) ==
        Hosts{3, 2});
}

TEST_CASE("hosts that do not reach each other for a while part, and are tried again later") {
  View view = training(3);
  announce(view, {0, 1, 2}, at(100));
  CutHosts hosts;
  CHECK(hosts.deadline(view) == TimePoint::max());
  said_cut(view, 2, 1, view.last_generation, at(101));
  CHECK(hosts.deadline(view) == at(110));
  CHECK(hosts.leave_out(view, at(109), host_of).empty());
  said_cut(view, 2, 1, view.last_generation, at(109.8));
  CHECK(hosts.leave_out(view, at(110.2), host_of).empty());  // others may say so, too
  CHECK(hosts.leave_out(view, at(110.3), host_of) == Hosts{2});
  CHECK(hosts.pause(2) == CutHosts::kFirstPause);
  said_leaving(view, 2, at(110.3));
  CHECK(hosts.leave_out(view, at(111), host_of).empty());
  CHECK(hosts.deadline(view) == at(125.3));
  CHECK(hosts.pause_over(at(125)).empty());
  CHECK(hosts.pause_over(at(126)) == Hosts{2});
  CHECK(hosts.pause_over(at(127)).empty());
  CHECK(hosts.deadline(view) == TimePoint::max());

  // A replica of it that does not reach the others either: its pauses grow.
  died(view, 2, at(160));
  reaped(view, 2);
  CHECK(view.cuts.empty());
  started(view, 3, at(160), {2});
  said_hello(view, 3, at(160));
  announce(view, {0, 1, 3}, at(160));
  said_cut(view, 3, 1, view.last_generation, at(180));  // nobody answered at all
  CHECK(hosts.leave_out(view, at(180.5), host_of) == Hosts{2});
  CHECK(hosts.pause(2) == 2 * CutHosts::kFirstPause);
  CHECK(hosts.pause_over(at(211)) == Hosts{2});

  // It was back for longer than it was away: another cut begins with the first pause again.
  said_cut(view, 3, 1, view.last_generation, at(275));
  CHECK(hosts.leave_out(view, at(275.5), host_of) == Hosts{2});
  CHECK(hosts.pause(2) == CutHosts::kFirstPause);
  hosts.forget(2);
  CHECK(hosts.pause_over(at(1000)).empty());
}

TEST_CASE("a cut is over when both train together") {
  View view = training(3);
  announce(view, {0, 1, 2}, at(1));
  said_cut(view, 2, 1, 1, at(2));  // of an old generation
  CHECK(view.cuts.empty());
  said_cut(view, 2, 7, 2, at(2));
  CHECK(view.cuts.empty());
  said_cut(view, 2, 1, 2, at(2));
  CHECK(view.cuts.size() == 1);
  said_switched(view, 2, 2, at(3));
  CHECK(view.cuts.empty());
  // Both of one host: that is no cut between hosts.
  announce(view, {0, 1, 2}, at(4));
  said_cut(view, 2, 1, 3, at(5));
  CHECK(CutHosts().leave_out(view, at(60), [](const Member&) { return 0; }).empty());
  CHECK(CutHosts().leave_out(view, at(60), [](const Member&) { return -1; }).empty());
}

}  // namespace cut_hosts_test
