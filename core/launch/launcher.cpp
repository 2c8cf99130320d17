#include "core/launch/launcher.h"

#include <algorithm>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/socket.h"

namespace adaptdl::launch {

namespace {

// A process whose channel has ended is about to end; it is helped along after this.
constexpr std::chrono::seconds kEndPatience{2};

RendezvousOptions rendezvous_options(const RunOptions& options) {
  RendezvousOptions result;
  result.min = options.replicas.min;
  result.max = options.replicas.max;
  result.slots = options.slots;
  result.slots_per_replica = options.slots_per_replica;
  result.max_restarts = options.max_restarts;
  result.start_timeout = Seconds(options.start_timeout_s);
  result.connect_timeout = Seconds(options.connect_timeout_s);
  result.leave_timeout = Seconds(options.grace_s);
  return result;
}

}  // namespace

Launcher::Launcher(const RunOptions& options, RunFolder& folder, Output& output,
                   SignalCatcher& signals)
    : options_(options),
      folder_(folder),
      output_(output),
      signals_(signals),
      logs_(
          options.log_dir, options.log_bytes_max,
          [&output](std::string line) { output.talk(std::move(line)); }, options.echo_logs),
      starter_(options, logs_),
      control_(options.control_socket, [this](const auto& request) { return on_request(request); }),
      stream_(output, Monotonic::now(), [this](int64_t step) { on_step(step); }),
      rendezvous_(rendezvous_options(options)),
      watch_(options.hang_timeout_s),
      started_(rfc3339(std::chrono::system_clock::now())) {
  view_.target = options.replicas.initial;
  view_.forming_since = Monotonic::now();
  if (!options.hosts) return;
  agents_ = std::make_unique<Agents>(
      *options.hosts, options.name,
      Agents::Events{[this](int slot, const std::string& host) { host_joined(slot, host); },
                     [this](int slot, const std::string& host, const std::string& why) {
                       host_left(slot, host, why);
                     }});
}

int Launcher::run() {
  record("starting");
  emit_start();
  decide_all();
  while (!ending_ || !replicas_.empty()) {
    wait();
    if (agents_) agents_->serve();
    take_signals();
    take_messages();
    if (take_ends()) take_messages();  // to tell of an end takes a while
    control_.serve();
    decide_all();
    note_generation();
    stream_.advance(view_);
    find_hung();
    check_deadlines();
  }
  return finish();
}

Replica* Launcher::find(MemberId id) {
  const auto found = replicas_.find(id);
  return found == replicas_.end() ? nullptr : found->second.get();
}

void Launcher::wait() {
  std::vector<pollfd> waits{{signals_.fd(), POLLIN, 0}};
  control_.add_waits(waits);
  TimePoint until = std::min(deadline_.value_or(TimePoint::max()), control_.deadline());
  if (agents_) {
    agents_->add_waits(waits);
    until = std::min(until, agents_->deadline());
  }
  if (ending_) until = std::min(until, ending_->kill_at);
  if (watch_.counting()) {
    const auto look = std::chrono::duration_cast<Monotonic::duration>(HangWatch::kLook);
    until = std::min(until, Monotonic::now() + look);
  }
  for (const auto& [id, replica] : replicas_) {
    waits.push_back({replica->process->descriptor(), POLLIN, 0});
    if (replica->open) waits.push_back(replica->channel.wait());
    if (replica->ended_at) until = std::min(until, *replica->ended_at + kEndPatience);
  }
  poll_until(waits, until);
}

void Launcher::take_signals() {
  for (const int number : signals_.take()) {
    if (number == SIGCHLD) {
      child_signal_ = true;
    } else if (ending_ && ending_->result != "finished") {
      kill_all();  // the second one: without a checkpoint
      ending_->checkpoint = false;
    } else if (!ending_) {
      end({.result = "stopped", .exit = 128 + number, .repair = true, .checkpoint = true});
    }
  }
  if (!child_signal_ && !agents_) return;
  for (auto& [id, replica] : replicas_) note_stopped(*replica);
}

// A stopped process is not a dead one, but everybody waits for it; the user should know for whom.
void Launcher::note_stopped(Replica& replica) {
  while (const auto stopped = replica.process->stop_change()) {
    Member* member = view_.find(replica.id);
    if (member == nullptr || member->stopped == *stopped) continue;
    member->stopped = *stopped;
    watch_.disturbed();
    output_.talk(*stopped
                     ? fmt::format("replica {} was stopped; training waits for it (process {})",
                                   replica.id, replica.process->pid())
                     : fmt::format("replica {} goes on", replica.id));
  }
}

// What anybody said before somebody died comes before that death, or a survivor might count as one
// who has no state yet. It may have been said after its channel was looked at: so once one is found
// to have ended, all others are looked at again.
void Launcher::take_messages() {
  std::vector<Replica*> ended;
  size_t known;
  do {
    known = ended.size();
    for (auto& [id, replica] : replicas_) {
      if (!replica->open || std::count(ended.begin(), ended.end(), replica.get()) != 0) continue;
      replica->channel.flush();
      if (!drain(*replica)) ended.push_back(replica.get());
    }
    if (agents_ && ended.size() > known) agents_->serve();
  } while (ended.size() > known);
  for (Replica* replica : ended) on_death(*replica);
}

bool Launcher::take_ends() {
  bool any = false;
  for (auto entry = replicas_.begin(); entry != replicas_.end();) {
    Replica& replica = *entry->second;
    const std::optional<ExitStatus> status = replica.process->poll();
    if (!status) {
      if (replica.ended_at && Monotonic::now() >= *replica.ended_at + kEndPatience) {
        replica.process->kill();
        replica.ended_at = Monotonic::now();
      }
      ++entry;
      continue;
    }
    if (replica.open) take_messages();  // all that was said before it died counts
    on_exit(replica, *status);
    entry = replicas_.erase(entry);
    any = true;
  }
  if (child_signal_ && getpid() == 1) {
    reap_strangers([this](pid_t pid) {
      return std::any_of(replicas_.begin(), replicas_.end(),
                         [pid](const auto& entry) { return entry.second->process->pid() == pid; });
    });
  }
  child_signal_ = false;
  return any;
}

void Launcher::decide_all() {
  deadline_.reset();
  if (view_.finished && (!ending_ || ending_->result != "finished")) {
    end({.result = "finished", .exit = 0});
  }
  if (ending_ && !ending_->repair) return;
  for (;;) {
    const Decision decision = decide(Monotonic::now(), view_, rendezvous_);
    reason_ = decision.reason;
    if (decision.action == Action::wait) {
      deadline_ = decision.deadline;
      return;
    }
    carry_out(decision);
    apply(view_, decision, Monotonic::now());
    if (ending_ && !ending_->repair) return;
  }
}

// Once a generation is in force: into the stream, and into the record.
void Launcher::note_generation() {
  if (view_.current.number == noted_generation_) return;
  if (view_.current.number != 0) {
    stream_.generation(view_.current, static_cast<int>(noted_members_));
    noted_members_ = view_.current.members.size();
    if (state_ == "starting") record("training");
  }
  noted_generation_ = view_.current.number;
}

void Launcher::check_deadlines() {
  if (!ending_) return;
  const bool together = ending_->result == "finished" || ending_->checkpoint;
  if (together && trained() == 0) {
    // Who was on its way into the next generation has nobody to wait for any more.
    for (auto& [id, replica] : replicas_) {
      if (replica->open && !replica->said_bye) kill(*replica);
    }
  }
  if (Monotonic::now() < ending_->kill_at) return;
  if (ending_->checkpoint && !replicas_.empty()) {
    output_.talk(fmt::format("no end within {:.0f} s; killing what is left", options_.grace_s));
  }
  kill_all();
}

}  // namespace adaptdl::launch
