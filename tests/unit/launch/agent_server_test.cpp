#include "core/launch/hosts/agent_server.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/poll.h"
#include "core/base/system.h"
#include "core/net/socket.h"

using namespace adaptdl;
using namespace adaptdl::launch;
using nlohmann::json;

namespace {

struct Launcher {
  Seconds kill_patience = HostsOptions{}.kill_patience;
  std::vector<std::string> events = {};
  int own_slots = 1, most = kMostHosts;
  bool folder_decides = false;
  std::map<std::string, std::string> terms = {};
  std::optional<Roster> before = {};  // this launcher takes over
  std::vector<std::unique_ptr<Replica>> kept = {};
  std::vector<Roster> remembered = {};
  AgentServer agents{
      {.secret = "secret",
       .slots = own_slots,
       .terms = terms,
       .remember = [this](const Roster& roster) { remembered.push_back(roster); },
       .folder_decides = folder_decides,
       .most = most,
       .kill_patience = kill_patience},
      "run",
      before.value_or(Roster{.run_id = "r"}),
      {[this](const AgentServer::Slots& slots, const std::string& host) {
         events.push_back(fmt::format("{} joined {}", host, fmt::join(slots, ",")));
       },
       [this](const AgentServer::Slots& slots, const std::string& host, const std::string& why) {
         events.push_back(fmt::format("{} left {}: {}", host, fmt::join(slots, ","), why));
       },
       before ? [this](std::unique_ptr<Replica> replica, const json& generations) {
         events.push_back(fmt::format("{} kept {}", replica->id, generations.dump()));
         kept.push_back(std::move(replica));
       } : decltype(AgentServer::Events::kept)()}};

  // Serves until that is so.
  template <typename F>
  bool until(F&& condition, Monotonic::duration patience = std::chrono::seconds(10)) {
    const TimePoint end = Monotonic::now() + patience;
    while (Monotonic::now() < end) {
      agents.serve();
      if (condition()) return true;
      std::vector<pollfd> waits;
      agents.add_waits(waits);
      ::poll(waits.data(), waits.size(), 5);
    }
    return false;
  }
};

// The next message, while the launcher serves; null at the end of the stream, or if none comes.
json hear_from(Launcher& launcher, Channel& channel, bool* open = nullptr) {
  json heard;
  bool there = true;
  launcher.until([&] {
    if (auto message = channel.receive(Monotonic::now())) {
      heard = std::move(*message);
      return true;
    }
    // Nothing there, and yet readable: the end.
    there = !wait_ready(channel.fd(), POLLIN, Monotonic::now());
    return !there;
  });
  if (open != nullptr) *open = there;
  return heard;
}

// As the launcher keeps it.
json kept(Roster roster) {
  roster.led_here = true;
  return to_json(roster);
}

// The other side, by hand.
struct OtherSide {
  explicit OtherSide(Launcher& launcher, const std::string& secret = "secret",
                     const std::string& run = "run")
      : channel(greeted(launcher, agent_key(secret, run))) {}

  static Stream greeted(Launcher& launcher, const TlsKey& key) {
    Stream stream(connect_tcp("127.0.0.1", launcher.agents.port(),
                              Monotonic::now() + std::chrono::seconds(5)),
                  key, TlsSide::client);
    launcher.until([&] { return stream.shake_hands() != IoState::later; });
    return stream;
  }

  json hear(Launcher& launcher) { return hear_from(launcher, channel, &open); }

  bool closed(Launcher& launcher) {
    while (!hear(launcher).is_null()) {
    }
    return !open;
  }

  json join(Launcher& launcher, const std::string& id, int slots = 1,
            const json& terms = json::object(), int leads_at = 0, bool tells = true) {
    channel.send({{"type", "join"},
                  {"id", id},
                  {"host", "host-" + id},
                  {"slots", slots},
                  {"terms", terms},
                  {"leads_at", leads_at}});
    json answer = hear(launcher);
    const json knows{{"type", "knows"}, {"number", 0}, {"shares", false}};
    if (tells && answer.is_object() && answer["type"] == "joined") channel.send(knows);
    return answer;
  }

  // Until the launcher has read all that this one has sent.
  void be_heard(Launcher& launcher, int slot) {
    const auto replica = launcher.agents.start(99, slot, json::object());
    channel.send({{"type", "started"}, {"member", 99}, {"pid", 5}});
    CHECK(launcher.until([&] { return replica->process->pid() == 5; }));
    channel.send({{"type", "ended"}, {"member", 99}});
    CHECK(launcher.until([&] { return replica->process->poll().has_value(); }));
  }

  // The roster that the launcher tells next, which this one then knows.
  Roster learn(Launcher& launcher, bool shares) {
    const json message = hear(launcher);
    REQUIRE(message["type"] == "roster");
    const Roster roster = roster_from_json(message["roster"], "roster");
    channel.send({{"type", "knows"}, {"number", roster.number}, {"shares", shares}});
    return roster;
  }

  Channel channel;
  bool open = true;
};

}  // namespace

TEST_CASE("an agent joins, starts a replica and hands on what it says") {
  Launcher launcher;
  OtherSide agent(launcher);
  const json joined = agent.join(launcher, "a");
  CHECK(joined["type"] == "joined");
  CHECK(joined["owner"] == fmt::format("{} on {}", getpid(), host_name()));
  CHECK(launcher.events == std::vector<std::string>{"host-a joined 1"});
  CHECK_THROWS_WITH_AS(launcher.agents.start(0, 4, json::object()),
                       doctest::Contains("slot 4 has disconnected"), Error);

  auto replica = launcher.agents.start(7, 1, {{"run_id", "1"}, {"replicas", 2}});
  CHECK(replica->slots == std::vector<int>{1});
  const json start = agent.hear(launcher);
  CHECK(start["member"] == 7);
  CHECK(start["slot"] == 0);
  CHECK(start["invitation"] == json{{"run_id", "1"}, {"replicas", 2}});
  agent.channel.send({{"type", "started"}, {"member", 7}, {"pid", 123}});
  agent.channel.send({{"type", "say"}, {"member", 7}, {"message", {{"type", "hello"}}}});
  CHECK(launcher.until([&] { return replica->process->pid() == 123; }));
  CHECK(hear_from(launcher, replica->channel)["type"] == "hello");

  const json event = {{"type", "event"}, {"event", json::object()}};
  for (int i = 0; i < 2; ++i) {
    agent.channel.send({{"type", "say"}, {"member", 7}, {"message", event}});
  }
  CHECK(launcher.until([&] { return launcher.agents.keep_events(); }));
  for (int i = 0; i < 2; ++i) CHECK(hear_from(launcher, replica->channel) == event);
  const PassedOn told{.generation = 2, .step = 4};
  launcher.agents.events_passed_on(told);
  const json replicas = {{{"member", 7}, {"events", 2}}};
  CHECK(agent.hear(launcher) ==
        json{{"type", "passed-on"}, {"told", to_json(told)}, {"replicas", replicas}});
  CHECK_FALSE(launcher.agents.keep_events());

  replica->channel.post({{"type", "stop"}});
  CHECK(agent.hear(launcher)["message"] == json{{"type", "stop"}});
  agent.channel.send({{"type", "stopped"}, {"member", 7}, {"stopped", true}});
  CHECK(launcher.until([&] { return replica->process->stop_change() == true; }));
  replica->process->kill();
  CHECK(agent.hear(launcher) == json{{"type", "kill"}, {"member", 7}});

  // How it ended is known only when all that it said is.
  agent.channel.send({{"type", "say"}, {"member", 7}, {"message", {{"type", "bye"}}}});
  agent.channel.send({{"type", "ended"}, {"member", 7}, {"signaled", true}, {"value", SIGKILL}});
  std::optional<ExitStatus> status;
  CHECK(launcher.until([&] { return (status = replica->process->poll()).has_value(); }));
  CHECK(status->signaled);
  CHECK(hear_from(launcher, replica->channel)["type"] == "bye");
  CHECK(hear_from(launcher, replica->channel).is_null());
  CHECK(replica->process->lost().empty());
  CHECK_FALSE(replica->process->memory_ran_out());

  const auto hungry = launcher.agents.start(8, 1, json::object());
  agent.channel.send(
      {{"type", "ended"}, {"member", 8}, {"signaled", true}, {"value", SIGKILL}, {"memory", true}});
  CHECK(launcher.until([&] { return hungry->process->poll().has_value(); }));
  CHECK(hungry->process->memory_ran_out());
  CHECK(agent.hear(launcher)["type"] == "start");

  launcher.agents.end(5);
  CHECK(agent.hear(launcher) == json{{"type", "end"}, {"exit", 5}});
}

TEST_CASE("an agent that is gone takes its replicas along, and says why once") {
  Launcher launcher;
  std::optional<OtherSide> agent(launcher);
  agent->join(launcher, "1");
  const auto replica = launcher.agents.start(0, 1, json::object());
  agent->channel.send({{"type", "say"}, {"member", 0}, {"message", {{"type", "hello"}}}});
  agent.reset();
  CHECK(launcher.until([&] { return replica->process->poll().has_value(); }));
  CHECK(replica->process->lost() == "its host host-1 is gone");
  CHECK(hear_from(launcher, replica->channel)["type"] == "hello");
  CHECK(hear_from(launcher, replica->channel).is_null());
  CHECK(launcher.events == std::vector<std::string>{"host-1 joined 1", "host-1 left 1: is gone"});

  // One that was to go has left before.
  OtherSide leaver(launcher);
  leaver.join(launcher, "2");
  leaver.channel.send({{"type", "leaving"}});
  leaver.channel.send({{"type", "leaving"}});
  CHECK(launcher.until([&] { return launcher.events.size() == 4; }));
  CHECK(launcher.events.back() == "host-2 left 2: was told to stop");
}

TEST_CASE("an agent that does not end what it is told to is given up, and may come again") {
  Launcher launcher{.kill_patience = Seconds(1)};
  OtherSide agent(launcher);
  agent.join(launcher, "1");
  const auto first = launcher.agents.start(0, 1, json::object());
  first->process->kill();
  agent.channel.send({{"type", "ended"}, {"member", 0}, {"signaled", true}, {"value", SIGKILL}});
  CHECK(launcher.until([&] { return first->process->poll().has_value(); }));
  CHECK(first->process->lost().empty());

  const auto second = launcher.agents.start(1, 1, json::object());
  const TimePoint begun = Monotonic::now();
  CHECK(launcher.until([&] { return seconds_since(begun) > 1.2; }));
  CHECK(launcher.events.size() == 1);  // what ended in time is nobody's fault
  second->process->kill();
  CHECK(launcher.agents.deadline() <= Monotonic::now() + std::chrono::seconds(1));
  CHECK(launcher.until([&] { return second->process->poll().has_value(); }));
  CHECK(second->process->lost() == "its host host-1 did not end replica 1 in time");
  CHECK(launcher.events.back() == "host-1 left 1: did not end replica 1 in time");
  CHECK(agent.closed(launcher));
  OtherSide again(launcher);
  CHECK(again.join(launcher, "1")["type"] == "joined");
}

TEST_CASE("a host that comes again takes the place of its old connection") {
  Launcher launcher;
  OtherSide before(launcher);
  before.join(launcher, "1");
  const auto replica = launcher.agents.start(0, 1, json::object());
  OtherSide now(launcher);
  CHECK(now.join(launcher, "1")["type"] == "joined");
  CHECK(replica->process->poll().has_value());
  CHECK(launcher.events == std::vector<std::string>{"host-1 joined 1",
                                                    "host-1 left 1: connected again",
                                                    "host-1 joined 2"});
  CHECK(before.closed(launcher));
}

TEST_CASE("hosts have as many slots as they offer, after the launcher's own") {
  Launcher launcher{.own_slots = 2, .most = 3};
  OtherSide two(launcher), three(launcher), late(launcher);
  CHECK(two.join(launcher, "two", 2)["type"] == "joined");
  CHECK(three.join(launcher, "three", 3)["type"] == "joined");
  CHECK(launcher.events ==
        std::vector<std::string>{"host-two joined 2,3", "host-three joined 4,5,6"});
  CHECK(launcher.agents.hosts() == 3);
  const auto replica = launcher.agents.start(7, 6, json::object());
  CHECK(three.hear(launcher)["slot"] == 2);

  // There is no place for another one until one leaves.
  const json refused = late.join(launcher, "late");
  CHECK(refused["type"] == "refused");
  CHECK(refused["final"] == false);
  two.channel.send({{"type", "leaving"}});
  CHECK(launcher.until([&] { return launcher.agents.hosts() == 2; }));
  CHECK(launcher.events.back() == "host-two left 2,3: was told to stop");
  OtherSide again(launcher);
  CHECK(again.join(launcher, "late")["type"] == "joined");
  CHECK(launcher.events.back() == "host-late joined 7");
}

TEST_CASE("hosts have the same terms as the launcher") {
  Launcher launcher{.terms = {{"program", "a"}, {"device", "cpu"}}};
  OtherSide same(launcher), other(launcher), none(launcher), odd(launcher), no_object(launcher);
  CHECK(same.join(launcher, "1", 1, {{"program", "a"}, {"device", "cpu"}})["type"] == "joined");
  json refused = other.join(launcher, "2", 1, {{"program", std::string(3000, 'b')}});
  CHECK(refused["final"] == true);
  CHECK(refused["reason"] ==
        "its device is none, that of the launcher's host cpu; all hosts need the same");
  refused = none.join(launcher, "3");
  CHECK(refused["type"] == "refused");
  refused = odd.join(launcher, "4", 1, {{"program", std::string(3000, 'b')}, {"device", "cpu"}});
  CHECK(refused["reason"] == fmt::format("its program is {}, that of the launcher's host a; all "
                                         "hosts need the same",
                                         std::string(100, 'b')));
  CHECK(no_object.join(launcher, "5", 1, 7)["final"] == true);
  CHECK(launcher.events == std::vector<std::string>{"host-1 joined 1"});
}

TEST_CASE("strangers are let go") {
  Launcher launcher;
  OtherSide other_secret(launcher, "guess"), other_run(launcher, "secret", "another");
  OtherSide loud(launcher), odd(launcher);
  CHECK(other_secret.join(launcher, "1").is_null());
  CHECK(other_run.join(launcher, "1").is_null());
  loud.channel.send({{"type", "join"}, {"host", std::string(100'000, 'x')}});
  CHECK(loud.closed(launcher));
  odd.channel.send({{"type", "say"}, {"member", 0}, {"message", json::object()}});
  CHECK(odd.closed(launcher));
  OtherSide nameless(launcher);
  nameless.channel.send({{"type", "join"}, {"id", "1"}, {"slots", 1}});
  CHECK(nameless.closed(launcher));
  for (const int slots : {-1, kMostSlotsOfHost + 1}) {
    OtherSide greedy(launcher);
    CHECK(greedy.join(launcher, "1", slots).is_null());
  }
  Channel plain(
      connect_tcp("127.0.0.1", launcher.agents.port(), Monotonic::now() + std::chrono::seconds(5)));
  plain.send({{"type", "join"}, {"id", "1"}, {"host", "host-1"}, {"slots", 1}});
  bool open = true;
  CHECK(hear_from(launcher, plain, &open).is_null());
  CHECK_FALSE(open);
  CHECK(launcher.events.empty());
}

TEST_CASE("many silent strangers keep no agent out") {
  Launcher launcher;
  std::vector<std::unique_ptr<OtherSide>> silent;
  const auto connect = [&](int count) {
    for (int i = 0; i < count; ++i) {
      silent.push_back(std::make_unique<OtherSide>(launcher));
    }
  };
  connect(60);
  OtherSide agent(launcher);
  CHECK(agent.join(launcher, "3")["type"] == "joined");
  connect(10);
  CHECK(silent.front()->closed(launcher));
  OtherSide second(launcher);
  CHECK(second.join(launcher, "4")["type"] == "joined");
  CHECK(launcher.events == std::vector<std::string>{"host-3 joined 1", "host-4 joined 2"});
}

TEST_CASE("hosts that are lost at once may go on without the launcher, which then may not train") {
  Launcher launcher;
  std::vector<std::unique_ptr<OtherSide>> agents;
  for (const char* id : {"1", "2"}) {
    agents.push_back(std::make_unique<OtherSide>(launcher));
    CHECK(agents.back()->join(launcher, id, 1, json::object(), 1000)["run_id"] == "r");
  }
  CHECK(agents[0]->learn(launcher, false).size == 2);
  Roster roster = agents[0]->learn(launcher, false);
  CHECK(to_json(agents[1]->learn(launcher, false)) == to_json(roster));
  CHECK(roster.size == 3);
  CHECK_FALSE(roster.shared);
  CHECK(roster.hosts[1].address == "127.0.0.1");
  CHECK(roster.hosts[1].port == 1000);
  agents[0]->be_heard(launcher, 1);
  agents[1]->be_heard(launcher, 2);
  CHECK(launcher.agents.may_train());
  agents.clear();
  CHECK(launcher.until([&] { return launcher.agents.hosts() == 1; }));
  CHECK_FALSE(launcher.agents.may_train());
  launcher.agents.give_up_lost();
  CHECK(launcher.agents.may_train());
}

TEST_CASE("a witness has no slots, and counts once it has a roster without the lost hosts") {
  Launcher launcher{.most = 2, .terms = {{"program", "a"}, {"version", "1"}}};
  OtherSide stranger(launcher), witness(launcher);
  std::optional<OtherSide> host(std::in_place, launcher);
  const json refused = stranger.join(launcher, "old", 0, {{"version", "0"}});
  CHECK(refused["reason"].get<std::string>().starts_with("its version is 0"));
  host->join(launcher, "1", 1, {{"program", "a"}, {"version", "1"}}, 1000);
  host->learn(launcher, false);
  // Not one of the most hosts, and never one that leads.
  CHECK(witness.join(launcher, "w", 0, {{"version", "1"}}, 1000)["type"] == "joined");
  CHECK(launcher.events == std::vector<std::string>{"host-1 joined 1"});
  CHECK(launcher.agents.hosts() == 2);
  CHECK(launcher.agents.all_hosts().size() == 2);
  const Roster all = witness.learn(launcher, false);
  CHECK(all.size == 3);
  CHECK(all.find("w")->port == 0);
  host->learn(launcher, true);  // a witness has no folder to share
  const Roster shared = witness.learn(launcher, false);
  CHECK(shared.shared);
  host->learn(launcher, false);
  const Roster apart = witness.learn(launcher, false);
  CHECK_FALSE(apart.shared);
  host->learn(launcher, false);
  host->be_heard(launcher, 1);
  CHECK(launcher.agents.may_train());

  host.reset();
  CHECK(launcher.until([&] { return launcher.agents.hosts() == 1; }));
  CHECK_FALSE(launcher.agents.may_train());  // the witness may have gone over to the host
  CHECK(launcher.agents.may_train_soon());
  const Roster rest = witness.learn(launcher, false);
  CHECK(rest.size == 2);
  CHECK_FALSE(may_go_on(rest, "w"));
  CHECK(launcher.until([&] { return launcher.agents.may_train(); }));
}

TEST_CASE("a launcher that takes over trains once the hosts that follow it know of it") {
  const Roster before{
      .number = 4, .run_id = "r", .size = 3, .hosts = {{"1", "x", 1}, {"2", "y", 1}}};
  for (const bool lost : {false, true}) {
    CAPTURE(lost);
    Launcher launcher{.own_slots = 0, .before = before};
    std::vector<std::unique_ptr<OtherSide>> agents;
    for (const char* id : {"1", "2"}) {
      agents.push_back(std::make_unique<OtherSide>(launcher));
      agents.back()->join(launcher, id, 1, json::object(), 1000);
      json knows{{"type", "knows"}, {"number", 4}, {"shares", false}};
      if (id[0] == '2') agents.back()->channel.send(knows);  // it had given up the last run
      knows["roster"] = to_json(before);
      knows["told"] = to_json(PassedOn{});
      if (id[0] == '1') agents.back()->channel.send(knows);
      if (id[0] == '1') continue;
      CHECK(launcher.until([&] { return launcher.agents.hosts_of(before) == 1; }));
      agents.back()->channel.send(knows);
      CHECK(launcher.until([&] { return launcher.agents.hosts_of(before) == 2; }));
    }
    launcher.agents.lead({});
    CHECK(launcher.agents.takes_over());
    CHECK_FALSE(launcher.agents.may_train());
    CHECK(launcher.agents.may_train_soon());
    agents[0]->learn(launcher, false);
    if (lost) {
      agents.pop_back();
      CHECK(launcher.until([&] { return launcher.agents.hosts() == 1; }));
      CHECK(launcher.agents.takes_over());
      CHECK_FALSE(launcher.agents.may_train_soon());
    } else {
      agents[1]->learn(launcher, false);
      CHECK(launcher.until([&] { return launcher.agents.may_train(); }));
      CHECK_FALSE(launcher.agents.takes_over());
    }
  }
}

TEST_CASE("a launcher that takes over counts a host in whose place another process listens") {
  const Roster before{
      .number = 4, .run_id = "r", .size = 2, .hosts = {{"1", "127.0.0.1", 1001}, {"2", "y", 1002}}};
  Launcher launcher{.own_slots = 0, .before = before};
  OtherSide elsewhere(launcher), other_port(launcher), same(launcher), in_its_place(launcher);
  json knows{{"type", "knows"}, {"number", 0}, {"shares", false}, {"holds", 3}};
  const auto heard = [&](OtherSide& agent, const std::string& id, int leads_at) {
    agent.join(launcher, id, 1, json::object(), leads_at);
    const int64_t holds = launcher.agents.newest_checkpoint() + 1;
    knows["holds"] = holds;
    agent.channel.send(knows);
    CHECK(launcher.until([&] { return launcher.agents.newest_checkpoint() == holds; }));
  };
  heard(elsewhere, "a", 1002);
  heard(other_port, "b", 1003);
  heard(same, "1", 1001);  // it has told nothing of what it kept
  in_its_place.join(launcher, "c", 1, json::object(), 1001);
  CHECK(launcher.agents.hosts_of(before) == 0);
  // What an earlier process there, or one of another run, has left.
  Roster left{.number = 9, .run_id = "another", .hosts = {}};
  left.announced = {8, {5}};
  knows["remembered"] = to_json(left);
  heard(elsewhere, "a", 1002);
  CHECK(launcher.agents.remembered().number == 0);
  left.run_id = "r";
  knows["remembered"] = to_json(left);
  in_its_place.channel.send(knows);
  CHECK(launcher.until([&] { return launcher.agents.hosts_of(before) == 1; }));
  CHECK(launcher.agents.remembered().announced.generation == 8);
  launcher.agents.lead({8, {}});
  json told;
  while ((told = in_its_place.hear(launcher))["type"] == "beat") {
  }
  CHECK(told["roster"]["number"] == 10);
}

TEST_CASE("hosts that go on by a shared folder alone keep no launcher from training") {
  Launcher launcher{.folder_decides = true};
  auto agent = std::make_unique<OtherSide>(launcher);
  CHECK(agent->join(launcher, "1", 1, json::object(), 1000)["run_id"] == "r");
  CHECK_FALSE(agent->learn(launcher, true).shared);  // it has not said so yet
  CHECK_FALSE(launcher.agents.others_may_lead());
  CHECK(agent->learn(launcher, true).shared);
  CHECK(launcher.agents.others_may_lead());
  OtherSide apart(launcher);
  CHECK(apart.join(launcher, "2", 1, json::object(), 1000)["run_id"] == "r");
  CHECK_FALSE(agent->learn(launcher, true).shared);
  CHECK_FALSE(apart.learn(launcher, false).shared);
  agent->be_heard(launcher, 1);
  apart.be_heard(launcher, 2);
  CHECK_FALSE(launcher.agents.others_may_lead());
  agent.reset();
  apart.channel.send({{"type", "leaving"}});
  CHECK(launcher.until([&] { return launcher.agents.hosts() == 1; }));
  CHECK(launcher.agents.may_train());
}

TEST_CASE("a host is in no roster before it has told whether it shares the folder") {
  Launcher launcher;
  OtherSide first(launcher), second(launcher);
  first.join(launcher, "1", 1, json::object(), 1000, false);
  first.channel.send({{"type", "knows"}, {"number", 0}, {"shares", true}});
  CHECK(first.learn(launcher, true).shared);
  second.join(launcher, "2", 1, json::object(), 1000, false);
  CHECK(launcher.agents.hosts() == 3);
  first.be_heard(launcher, 1);
  CHECK(launcher.remembered.back().hosts.size() == 1);
  second.channel.send({{"type", "knows"}, {"number", 0}, {"shares", true}});
  const Roster both = second.learn(launcher, true);
  CHECK(both.hosts.size() == 2);
  CHECK(both.shared);
}

TEST_CASE("a new host does not stand in for lost ones, which may go on without the launcher") {
  Launcher launcher;
  std::vector<std::unique_ptr<OtherSide>> agents;
  const auto joined = [&](const char* id, int leads_at) {
    agents.push_back(std::make_unique<OtherSide>(launcher));
    CHECK(agents.back()->join(launcher, id, 1, json::object(), leads_at)["run_id"] == "r");
  };
  joined("1", 1001);
  joined("2", 1002);
  agents[0]->learn(launcher, false);
  agents[0]->learn(launcher, false);
  agents[1]->learn(launcher, false);
  agents[0]->be_heard(launcher, 1);
  agents[1]->be_heard(launcher, 2);
  agents.clear();
  CHECK(launcher.until([&] { return launcher.agents.hosts() == 1; }));
  joined("3", 1003);
  CHECK(launcher.agents.hosts() == 2);
  CHECK_FALSE(launcher.agents.may_train());
  joined("4", 1001);  // listens where host 1 did, which is gone, then
  CHECK(launcher.until([&] { return launcher.agents.may_train(); }));
}

TEST_CASE("hosts that were told to stop do not go on without the launcher") {
  for (const std::string leaves : {"1", "3"}) {
    INFO("host " << leaves << " leaves");
    Launcher launcher;
    std::vector<std::unique_ptr<OtherSide>> agents;
    const auto joined = [&](const char* id) {
      agents.push_back(std::make_unique<OtherSide>(launcher));
      CHECK(agents.back()->join(launcher, id, 1, json::object(), 1000)["run_id"] == "r");
    };
    joined("1");
    joined("2");
    agents[0]->learn(launcher, false);
    agents[0]->learn(launcher, false);
    agents[1]->learn(launcher, false);
    agents[0]->be_heard(launcher, 1);
    agents[1]->be_heard(launcher, 2);
    if (leaves == "3") joined("3");  // by what the others have, it does not count
    agents[leaves == "1" ? 0 : 2]->channel.send({{"type", "leaving"}});
    const std::string told = fmt::format("host-{0} left {0}: was told to stop", leaves);
    CHECK(launcher.until([&] { return std::ranges::count(launcher.events, told) == 1; }));
    agents.clear();
    CHECK(launcher.until([&] { return launcher.agents.hosts() == 1; }));
    CHECK(launcher.agents.may_train() == (leaves == "1"));
  }
}

TEST_CASE("hosts may go on by a roster that not all have acknowledged") {
  Launcher launcher;
  std::vector<std::unique_ptr<OtherSide>> agents;
  const auto joined = [&](const char* id) {
    agents.push_back(std::make_unique<OtherSide>(launcher));
    CHECK(agents.back()->join(launcher, id, 1, json::object(), 1000)["run_id"] == "r");
  };
  joined("1");
  agents[0]->learn(launcher, false);
  agents[0]->be_heard(launcher, 1);
  for (const char* id : {"2", "3", "4"}) joined(id);
  // Host 1 says nothing any more.
  while (agents[1]->learn(launcher, false).size < 5) {
  }
  agents[2]->learn(launcher, false);
  agents[3]->learn(launcher, false);
  CHECK(launcher.agents.may_train());
  agents.pop_back();  // the others and the launcher are more than half of any roster
  CHECK(launcher.until([&] { return launcher.agents.hosts() == 4; }));
  CHECK(launcher.agents.may_train());
  agents.clear();
  CHECK(launcher.until([&] { return launcher.agents.hosts() == 1; }));
  CHECK_FALSE(launcher.agents.may_train());
  CHECK(launcher.agents.lost().size() == 4);
  launcher.agents.give_up_lost();
  CHECK(launcher.agents.may_train());
}

TEST_CASE("hosts may go on by the first rosters, before any is acknowledged") {
  Launcher launcher;
  std::vector<std::unique_ptr<OtherSide>> agents;
  for (const char* id : {"1", "2"}) {
    agents.push_back(std::make_unique<OtherSide>(launcher));
    CHECK(agents.back()->join(launcher, id, 1, json::object(), 1000)["run_id"] == "r");
  }
  CHECK(agents[1]->hear(launcher)["roster"]["size"] == 3);
  CHECK(launcher.agents.may_train());
  CHECK(launcher.remembered.back().hosts.size() == 2);
  agents.clear();
  CHECK(launcher.until([&] { return launcher.agents.hosts() == 1; }));
  CHECK_FALSE(launcher.agents.may_train());
  // What another launcher of theirs has told since.
  Roster theirs = launcher.remembered.back();
  theirs.number += 2;
  theirs.launcher = "another";
  OtherSide again(launcher);
  again.join(launcher, "3", 1, json::object(), 1002, false);
  again.channel.send(
      {{"type", "knows"}, {"number", 0}, {"shares", false}, {"remembered", to_json(theirs)}});
  CHECK(launcher.until([&] { return launcher.agents.overtaken(); }));
}

TEST_CASE("hosts that are all told to stop at once do not go on without the launcher") {
  Launcher launcher{.own_slots = 0};
  OtherSide agent(launcher);
  agent.join(launcher, "1", 1, json::object(), 1000);
  const Roster roster = agent.learn(launcher, false);
  for (int i = 0; i < 2; ++i) {
    agent.channel.send({{"type", "leaving"}});
    agent.channel.send({{"type", "knows"}, {"number", roster.number}, {"shares", false}});
  }
  CHECK(launcher.until([&] { return launcher.agents.hosts() == 0; }));
  CHECK(launcher.agents.may_train());
}

TEST_CASE("hosts that do not share the launcher's checkpoint folder have one each") {
  Launcher launcher;
  OtherSide first(launcher), second(launcher), third(launcher);
  first.join(launcher, "1", 2, json::object(), 1000);
  first.learn(launcher, false);
  second.join(launcher, "2", 1, json::object(), 1000);
  second.learn(launcher, true);
  third.join(launcher, "3", 1, json::object(), 1000);
  third.learn(launcher, false);
  const AgentServer& agents = launcher.agents;
  CHECK(launcher.until([&] { return agents.folder_of(3) == 0; }));
  CHECK(agents.folder_of(0) == 0);
  CHECK(agents.folder_of(1) != 0);
  CHECK(agents.folder_of(1) == agents.folder_of(2));
  CHECK(agents.folder_of(4) != 0);
  CHECK(agents.folder_of(4) != agents.folder_of(1));
}

TEST_CASE("a launcher that takes over hears what the hosts have kept, until it leads") {
  const Roster before{
      .number = 4, .run_id = "r", .size = 3, .hosts = {{"1", "x", 1}, {"2", "y", 1}}};
  Roster newer = before;
  newer.number = 5;
  Launcher launcher{.own_slots = 0, .before = before};
  const json keeps = {{"type", "keeps"},
                      {"member", 7},
                      {"slot", 1},
                      {"pid", 12},
                      {"generations", {{{"generation", 3}}}}};
  OtherSide first(launcher);
  first.join(launcher, "1", 2, json::object(), 1000);
  first.channel.send(keeps);
  first.channel.send({{"type", "say"}, {"member", 7}, {"message", {{"type", "hello"}}}});
  CHECK(launcher.until([&] { return launcher.kept.size() == 1; }));
  CHECK(launcher.agents.hosts_of(launcher.agents.before()) == 0);  // it may keep more
  first.channel.send({{"type", "knows"},
                      {"number", 5},
                      {"shares", false},
                      {"holds", 12},
                      {"roster", to_json(newer)},
                      {"told", to_json(PassedOn{3, 9})}});
  CHECK(launcher.agents.newest_checkpoint() == -1);
  CHECK(launcher.until([&] { return launcher.agents.hosts_of(launcher.agents.before()) == 1; }));
  CHECK(launcher.agents.before().number == 5);
  CHECK(launcher.agents.newest_checkpoint() == 12);
  CHECK(launcher.agents.told() == PassedOn{3, 9});
  CHECK(launcher.events.back() == R"(7 kept [{"generation":3}])");
  const Replica& replica = *launcher.kept.front();
  CHECK(replica.slots == std::vector<int>{1});
  CHECK(replica.process->pid() == 12);
  CHECK(hear_from(launcher, launcher.kept.front()->channel)["type"] == "hello");

  launcher.agents.lead({3, {7}});
  OtherSide late(launcher);
  late.join(launcher, "2", 2, json::object(), 1000);
  CHECK(late.learn(launcher, false).number == 7);
  late.channel.send(keeps);
  CHECK(late.hear(launcher) == json{{"type", "kill"}, {"member", 7}});

  // The replicas live on where it gives up.
  launcher.agents.leave_to_others();
  launcher.kept.clear();
  for (json heard; !(heard = first.hear(launcher)).is_null();) CHECK(heard["type"] != "kill");
  CHECK_FALSE(first.open);
}

TEST_CASE("an agent that is busy telling hears up to where a launcher that hands over has told") {
  std::optional<Launcher> launcher(std::in_place);
  OtherSide agent(*launcher);
  agent.join(*launcher, "a");
  auto replica = launcher->agents.start(7, 1, json::object());
  const json event = {{"type", "event"}, {"event", {{"event", "step"}, {"step", 4}}}};
  const json said = {{"type", "say"}, {"member", 7}, {"message", event}};
  agent.channel.send(said);
  CHECK(launcher->until([&] { return launcher->agents.keep_events(); }));
  for (int i = 0; i < 100; ++i) agent.channel.send(said);

  std::thread handing([&] {
    launcher->agents.hand_over({.generation = 2, .step = 4});
    replica.reset();
    launcher.reset();
  });
  json last;
  while (auto message = agent.channel.receive()) last = *message;
  CHECK(last["type"] == "passed-on");
  CHECK(last["told"] == to_json(PassedOn{2, 4}));
  CHECK(last["replicas"] == json{{{"member", 7}, {"events", 1}}});
  // The launcher stays until this end is closed, too, and reads: a connection that is closed with
  // something unread is reset, and what has not been sent is lost.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  CHECK(agent.channel.send(said));
  ::shutdown(agent.channel.fd(), SHUT_WR);
  handing.join();
  int problem = 0;
  socklen_t size = sizeof problem;
  CHECK(::getsockopt(agent.channel.fd(), SOL_SOCKET, SO_ERROR, &problem, &size) == 0);
  CHECK(problem == 0);
}

TEST_CASE("the newest roster is remembered with the generation that its launcher announces last") {
  Launcher launcher;
  launcher.agents.announced({1, {1}});
  CHECK(launcher.remembered.empty());  // there is no other host
  std::optional<OtherSide> a(std::in_place, launcher);
  a->join(launcher, "a", 1, json::object(), 1000);
  CHECK(a->learn(launcher, true).announced.generation == 1);
  const Roster shared = a->learn(launcher, true);
  CHECK(shared.shared);
  CHECK(to_json(launcher.remembered.back()) == kept(shared));
  launcher.agents.announced({2, {1, 2}});
  CHECK(launcher.remembered.back().number == shared.number);
  CHECK(launcher.remembered.back().announced.members == std::vector<MemberId>{1, 2});
  std::optional<OtherSide> b(std::in_place, launcher);
  b->join(launcher, "b", 1, json::object(), 1001);
  // a has told that it shares the folder, b has not yet.
  const Roster apart = b->learn(launcher, true);
  CHECK(launcher.remembered.back().number == apart.number);
  CHECK_FALSE(launcher.remembered.back().shared);
  CHECK(launcher.remembered.back().announced.generation == 2);
  const Roster next = b->learn(launcher, true);
  CHECK(next.shared);
  CHECK(to_json(launcher.remembered.back()) == kept(next));
  // When all others are lost nobody hears of it any more, but whoever takes over reads it.
  a.reset();
  b.reset();
  CHECK(launcher.until([&] { return launcher.events.size() == 4; }));
  launcher.agents.announced({3, {1}});
  CHECK(launcher.remembered.back().hosts.empty());
  CHECK(launcher.remembered.back().announced.generation == 3);
}

TEST_CASE("hosts that may go on without the launcher are remembered until the others know") {
  Launcher launcher;
  std::optional<OtherSide> a(std::in_place, launcher);
  a->join(launcher, "a", 1, json::object(), 1000);
  a->learn(launcher, false);
  OtherSide b(launcher);
  b.join(launcher, "b", 1, json::object(), 1001);
  b.learn(launcher, false);
  const Roster all = a->learn(launcher, false);
  CHECK(launcher.until([&] { return launcher.remembered.back().hosts.size() == 2; }));
  CHECK(launcher.remembered.back().number == all.number);
  a.reset();  // b may hear of it, or be gone, too
  CHECK(launcher.until([&] { return launcher.events.size() == 3; }));
  launcher.agents.announced({2, {1}});
  CHECK(launcher.remembered.back().hosts.size() == 2);
  const Roster less = b.learn(launcher, false);
  CHECK(less.hosts.size() == 1);
  CHECK(launcher.until([&] { return launcher.remembered.back().hosts.size() == 1; }));
  CHECK(launcher.remembered.back().size == 2);
}

TEST_CASE("who scales a run does not give up hosts that may be lost later") {
  Launcher launcher;
  std::optional<OtherSide> a(std::in_place, launcher), b(std::in_place, launcher);
  for (auto* each : {&a, &b}) {
    (*each)->join(launcher, each == &a ? "a" : "b", 1, json::object(), each == &a ? 1000 : 1001);
    (*each)->learn(launcher, false);
  }
  a->learn(launcher, false);
  CHECK(launcher.until([&] { return launcher.remembered.back().hosts.size() == 2; }));
  launcher.agents.give_up_lost();
  a.reset();
  b.reset();
  CHECK(launcher.until([&] { return launcher.events.size() == 4; }));
  CHECK_FALSE(launcher.agents.may_train());
  launcher.agents.give_up_lost();
  CHECK(launcher.agents.may_train());
  CHECK(launcher.until([&] { return launcher.remembered.back().hosts.empty(); }));
}

TEST_CASE("a launcher that comes again waits for the hosts that may have gone on") {
  const Roster before{.number = 4, .run_id = "q", .size = 3, .hosts = {{"1", "127.0.0.1", 1000}}};
  Launcher launcher;
  launcher.agents.come_again(before);
  CHECK_FALSE(launcher.agents.may_train());
  OtherSide other(launcher);
  other.join(launcher, "2", 1, json::object(), 1001);
  other.be_heard(launcher, 1);
  CHECK_FALSE(launcher.agents.may_train_soon());
  OtherSide in_its_place(launcher);
  in_its_place.join(launcher, "3", 1, json::object(), 1000);
  CHECK(launcher.until([&] { return launcher.agents.may_train_soon(); }));
  CHECK_FALSE(launcher.agents.may_train());  // it may have another launcher, unheard
  in_its_place.learn(launcher, false);
  CHECK(launcher.until([&] { return launcher.agents.may_train(); }));
}

TEST_CASE("a launcher whose lost hosts have had another one since hears of it") {
  Launcher launcher;
  std::optional<OtherSide> a(std::in_place, launcher);
  a->join(launcher, "a", 1, json::object(), 1000);
  a->learn(launcher, false);
  std::optional<OtherSide> b(std::in_place, launcher);
  b->join(launcher, "b", 1, json::object(), 1001);
  b->learn(launcher, false);
  a->learn(launcher, false);
  CHECK(launcher.until([&] { return launcher.remembered.back().hosts.size() == 2; }));
  const Roster ours = launcher.remembered.back();
  a.reset();
  b.reset();
  CHECK(launcher.until([&] { return launcher.events.size() == 4; }));
  for (const int newer : {0, 1}) {
    Roster theirs = ours;
    theirs.number += 1;
    if (newer == 1) theirs.launcher = "another";
    OtherSide again(launcher);
    again.join(launcher, newer == 0 ? "c" : "d", 1, json::object(), 1002, false);
    again.channel.send(
        {{"type", "knows"}, {"number", 0}, {"shares", false}, {"remembered", to_json(theirs)}});
    again.be_heard(launcher, newer == 0 ? 3 : 4);
    CHECK(launcher.agents.overtaken() == (newer == 1));
  }
  CHECK(launcher.remembered.back().number == ours.number + 1);
  CHECK_FALSE(launcher.remembered.back().led_here);
}
