#pragma once

// A small simulated world for the rendezvous: replicas with inboxes that take time, training that
// needs every member, and accidents. Time is virtual; everything follows from the seed.

#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/launch/run/rendezvous.h"

namespace adaptdl::launch::testing {

struct Accidents {
  double kill = 0, stop = 0, leave = 0, scale = 0;  // chance of each per tick of 10 ms
  double bad_start = 0;    // chance that a newcomer dies or never says hello
  double stale = 0;        // chance per tick of an old message again
  double break_links = 0;  // chance per tick that a communicator fails
  double move = 0;         // chance per tick that the run gets other slots
};

class World {
 public:
  // `slots`: replicas for which there are slots; 0 = no limit.
  World(uint64_t seed, int min, int max, int target, int slots, int slots_per_replica = 1,
        int spares = 0);

  // Plays `ticks` of 10 ms. Stops early when the launcher gave up.
  void play(int ticks, const Accidents& accidents);
  void end_accidents();  // stopped replicas go on
  void signal_leave(MemberId id);
  void set_slots(std::vector<int> slots);

  // Empty when everything promised has held so far.
  const std::vector<std::string>& complaints() const { return complaints_; }
  bool gave_up() const { return gave_up_; }
  // As many members as wanted, all in the same generation, and otherwise only spares that are
  // ready, as many as there are slots for.
  bool settled() const;
  int64_t steps() const { return step_; }
  int restarts() const { return restarts_; }
  const View& view() const { return view_; }
  const std::string& reason() const { return reason_; }
  std::string describe() const;

 private:
  struct Message {
    TimePoint at;
    enum Kind { hello, connected, switched, lost, leaving, bye } kind;
    uint64_t generation = 0;
    bool connecting = false;
  };
  struct Told {
    TimePoint at;
    Generation generation;
    bool hand_over = false;
  };
  struct Worker {
    MemberId id = 0;
    std::vector<int> slots;
    bool alive = true, stopped = false, never_hello = false, gone_by_itself = false;
    TimePoint hello_at, die_at = TimePoint::max(), reap_at = TimePoint::max();
    std::deque<Told> inbox;
    std::deque<Message> outbox;
    TimePoint death_seen_at = TimePoint::max();
    bool said_hello = false, death_told = false;
    uint64_t newest = 0;                   // newest generation heard of
    std::optional<Generation> connecting;  // links being made
    std::optional<Generation> next;        // links made
    std::optional<Generation> in;          // the generation it is in
    bool working = false;                  // that generation has not broken
    bool trained = false, synced = false, checkpoint_asked = false;
    int64_t applied = 0;
    TimePoint notice_at = TimePoint::max();  // when it will notice that its generation broke
  };

  void complain(const std::string& what);
  TimePoint soon(int most_ms);
  bool chance(double probability);
  bool displaced(MemberId id) const;  // on slots that are not the run's any more
  Worker* worker(MemberId id);
  void tell(Worker& worker, Message::Kind kind, uint64_t generation = 0, bool connecting = false);
  void kill(Worker& worker);
  void have_accidents(const Accidents& accidents);
  void work(Worker& worker);
  void connect_links();
  void train();
  void step(const Generation& generation);
  void enter(Worker& worker, const Generation& generation);
  void leave(Worker& worker);
  void launcher();
  void hear(MemberId id, const Message& message);
  void decide_all();
  std::vector<int> take_slots(const Decision& decision, int i);
  void check_announcement(const Decision& decision);
  void check_spares(const Decision& decision);
  void check_stale(MemberId id);

  std::mt19937_64 random_;
  RendezvousOptions options_;
  TimePoint now_;
  View view_;
  std::vector<Worker> workers_;
  std::map<uint64_t, Generation> generations_;  // all that were ever announced
  std::set<uint64_t> broken_links_;
  MemberId next_id_ = 0;
  int64_t step_ = 0, checkpoint_ = 0;
  uint64_t step_generation_ = 0;
  int restarts_ = 0;
  bool gave_up_ = false;
  TimePoint calm_since_;  // since when nothing happened that may hold up those who train
  TimePoint last_step_;
  std::string reason_;
  std::vector<std::string> complaints_;
};

}  // namespace adaptdl::launch::testing
