#pragma once

// A run whose program does not know adaptdl (a Python AdaptDL script, any command). Its replicas
// start together as one generation. To change their number or slots, all are asked to stop
// (SIGTERM: they write a checkpoint and exit 143) and started again. decide() chooses the next
// action; as in rendezvous.h, nothing here reads a clock or touches a process.
//
// Invariants
//  1. A generation starts only when no process of the one before lives.
//  2. Numbers of generations grow (the shell's: they outlive this process).
//  3. A generation ends by itself, by SIGTERM, or by SIGKILL after SIGTERM and its time.

#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/process.h"

namespace adaptdl::launch {

struct CommandRules {
  int slots_per_replica = 1;
  int max_failures = 3;  // generations in a row that fail without progress; more end the run
  bool in_row = true;    // false: generations that fail at all
  Seconds grace{30};     // from SIGTERM to SIGKILL, for a checkpoint
  // How long the others may continue after one has failed by itself. Short, because training stands
  // still; it lets those that fail for the same reason say so.
  Seconds settle{0.05};
  Seconds failed_grace{5};  // from SIGTERM to SIGKILL when there is nothing to save
  Seconds long_life{600};   // a generation that lived this long made progress
  // From the start of a generation that failed to the next start, if it is the second in a row;
  // doubles each time. One that lived longer is started again at once.
  Seconds backoff{1};
  Seconds longest_backoff{60};
  Seconds probe{0.2};      // time between checks of the supervisor
  Seconds disk_probe{10};  // time between attempts to start on a full disk
  // Hosts that come within a moment share one restart: how long after the newest another one is
  // waited for, and how long after the first at most.
  Seconds together{2};
  Seconds longest_together{10};
};

enum class CommandStop { none, checkpoint, now };

struct CommandReplica {
  bool alive = true;
  ExitStatus status;  // once it is dead
};

// All known facts. Changed only by the functions below.
struct CommandView {
  int target = 1;                        // requested replicas, >= 1
  std::vector<int> slots;                // the run's; none: the run shares all cores
  CommandStop stop = CommandStop::none;  // whether the run is to end

  std::vector<CommandReplica>
      replicas;           // of the present generation, by rank; none between two generations
  std::vector<int> held;  // its slots: slots_per_replica for each, by rank
  TimePoint started;
  std::optional<TimePoint> failed_at;  // when the first of its replicas failed
  int failed_rank = -1;                // its rank
  bool asked_outside = false;  // it ended with 143, although this launcher had not asked it to
  std::optional<TimePoint> kill_at;  // SIGTERM was sent; when to send SIGKILL
  bool killed = false;               // SIGKILL was sent

  bool finished = false;
  int failures = 0;                                  // in a row
  TimePoint retry_at;                                // no generation starts before
  bool supervisor_up = true;                         // the supervisor that the replicas use answers
  bool disk_full = false;                            // the newest attempt to start found no room
  std::optional<TimePoint> first_host, newest_host;  // that has come since the last start

  int living() const;
};

enum class CommandAction {
  wait,       // until something happens, or `deadline`
  start,      // `count` replicas on `slots`
  terminate,  // SIGTERM (or Ctrl-C) to all, and remember `deadline` for SIGKILL
  kill,       // SIGKILL to all
  finish,     // the run has finished
  stopped,    // the run was asked to stop, and has
  give_up,    // the run has failed
};

struct CommandDecision {
  CommandAction action = CommandAction::wait;
  std::string reason;  // for people
  std::optional<TimePoint> deadline;
  int count = 0;
  std::vector<int> slots;
};

// Pure. After every change of the view and at its deadline: call, carry out, apply(), and repeat
// until it returns wait or an end.
CommandDecision decide(TimePoint now, const CommandView& view, const CommandRules& rules);
void apply(CommandView& view, const CommandDecision& decision, TimePoint now);

// A host has come; `all`: no other one will.
void host_came(CommandView& view, bool all, TimePoint now);

// The generation that apply() noted could not start, for a full disk; none of it lives.
void start_failed(CommandView& view, TimePoint now, const CommandRules& rules);

// A replica's process and its whole group have ended.
void exited(CommandView& view, int rank, const ExitStatus& status, TimePoint now);

// Of a generation whose replicas have all ended, before generation_ended(). It was asked to end,
// and all have exited with 143: such a program can be restarted.
bool can_restart(const CommandView& view);
// It was asked to end for a restart, and all have exited with 0: the run counts as finished.
bool finished_when_asked(const CommandView& view);

// Whether a generation that ends now forgives the failures before it: it wrote a newer checkpoint
// than there was before (`progress`), or lived long.
bool forgives(const CommandView& view, bool progress, TimePoint now, const CommandRules& rules);

// The whole generation has ended. `progress` and `now` as in forgives().
void generation_ended(CommandView& view, bool progress, TimePoint now, const CommandRules& rules);

}  // namespace adaptdl::launch
