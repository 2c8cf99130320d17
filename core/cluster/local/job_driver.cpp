#include "core/cluster/local/job_driver.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/cluster/local/runner/run_record.h"
#include "core/job/hints.h"
#include "core/launch/command/leftovers.h"

namespace adaptdl::local {

namespace {

constexpr std::chrono::milliseconds kAskAgain{1000};  // a job that trains
constexpr std::chrono::milliseconds kAskSoon{100};    // a job that starts or rescales
constexpr Seconds kPatience{5};                       // timeout of a runner's answer
constexpr double kStartsUp = 10;                      // s in which a new runner need not answer
constexpr double kLivedLong = 600;                    // s; later deaths are counted from one again
constexpr int kMaxDeaths = 10;                        // of runners, in a row without a step
constexpr Seconds kAfterTrouble{1};
constexpr Seconds kLookAgain{60};  // for room on the disk, or for the end of a runner elsewhere
constexpr const char* kDiskFull = "DiskFull";
constexpr double kMoveLimit = 300;  // s until a job's replicas must run on other slots

TimePoint after(Seconds seconds) {
  return time_after(Monotonic::now(), seconds);
}

// The last line on standard error of a runner that failed before it started.
std::string last_words(const JobFolder& folder) {
  try {
    std::string text = read_file(folder.runner_errors(), 1u << 20);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text.substr(text.rfind('\n') + 1);
  } catch (const Error&) {
    return "";
  }
}

std::vector<int> numbers_of(const Machine& machine, std::vector<int> slots) {
  for (int& slot : slots) slot = machine.slot_number(slot);
  return slots;
}

}  // namespace

// An error of one job (no free descriptor, a damaged file in its folder) does not affect the
// others.
template <typename Act>
void JobDriver::for_each_job(const Act& act) {
  for (auto& [name, job] : parts_.jobs.all()) {
    try {
      act(job);
    } catch (const Error& error) {
      log_warning("{}: {}", name, error.what());
      job.ask_at = job.state.retry_at = after(kAfterTrouble);
    }
  }
}

JobFolder JobDriver::folder_of(const ActiveJob& job) const {
  return {parts_.paths.job(job.record.name)};
}

std::string JobDriver::supervisor_of(const ActiveJob& job) const {
  return fmt::format("{}/j/{}", parts_.supervisor.url(), job.record.token);
}

void JobDriver::adopt() {
  for (const auto& [loaded, problem] : parts_.jobs.load(parts_.machine)) {
    ActiveJob& job = *loaded;
    const std::string& name = job.record.name;
    job.restartable = shown_restartable(folder_of(job));
    parts_.supervisor.add(name, job.record.token);
    job.runner = RunnerProcess::find(folder_of(job));
    if (!problem.empty()) {
      if (job.runner) job.runner.send_signal(SIGTERM);
      end(job, "Failed", "Invalid",
          problem + "; another version of adaptdl wrote this job: delete it and submit it again",
          std::nullopt);
    } else if (job.runner) {
      job.state.live = true;
      job.runner_since = Monotonic::now();
      parts_.slots.hold(name, job.record.slots);
      job.state.granted = parts_.slots.held_by(name);
      // The supervisor may be at another port than before.
      job.to_scale = job.spec.kind == JobSpec::Kind::command;
    } else {
      restore_folder(job);
    }
  }
  for_each_job([this](ActiveJob& job) {
    if (job.state.live || job.record.ended() || runs_elsewhere(job)) return;
    if (note_last_runner(job)) job.state.retry_at = Monotonic::now();
  });
}

// After a power cut, a job that was submitted without a project and never ran may lack its folder.
void JobDriver::restore_folder(const ActiveJob& job) {
  const JobFolder folder = folder_of(job);
  try {
    if (path_exists(folder.job_file()) && file_size(folder.job_file()) > 0) return;
    write_job_file(job, parts_.paths, parts_.machine, is_directory(folder.project()));
  } catch (const Error& error) {  // its start will tell its user
    log_warning("{}: {}", job.record.name, error.what());
  }
}

TimePoint JobDriver::add_waits(std::vector<pollfd>& waits) const {
  TimePoint until = parts_.jobs.retry_at();
  const auto sooner = [&](TimePoint time) { until = std::min(until, time); };
  waits.push_back({parts_.supervisor.fd(), POLLIN, 0});
  for (const auto& [name, job] : parts_.jobs.all()) {
    if (job.state.live) {
      waits.push_back({job.runner.pidfd(), POLLIN, 0});
      if (job.query) {
        waits.push_back({job.query->fd(), POLLIN, 0});
        sooner(job.query->deadline());
      } else {
        sooner(job.ask_at);
      }
      if (job.state.stopping) sooner(job.state.kill_at);
    } else if ((job.state.wanted > 0 || job.record.reason == kRunsElsewhere) &&
               job.state.retry_at > Monotonic::now()) {
      sooner(job.state.retry_at);
    }
  }
  return until;
}

void JobDriver::take_news() {
  for_each_job([this](ActiveJob& job) {
    if (job.state.live && job.runner.ended()) {
      runner_ended(job, job.runner.pid(), job.runner.reap());
    }
  });
  for (auto& [name, hints] : parts_.supervisor.take_hints()) {
    if (ActiveJob* const job = parts_.jobs.find(name)) take_hints(*job, hints);
  }
  const TimePoint now = Monotonic::now();
  for_each_job([&](ActiveJob& job) {
    if (!job.state.live) return;
    if (job.query) {
      if (job.query->serve()) take_answer(job);
    } else if (now >= job.ask_at) {
      ask(job, job.to_stop ? ActiveJob::Query::stop : ActiveJob::Query::status);
    }
  });
}

void JobDriver::advance() {
  for_each_job([this](ActiveJob& job) {
    if (!job.record.ended()) advance(job);
  });
  if (!parts_.machine.has_kinds()) return;
  std::map<std::string, const JobState*> states;
  for (const auto& [name, job] : parts_.jobs.all()) states[name] = &job.state;
  if (ActiveJob* const stuck = parts_.jobs.find(stuck_job(states, parts_.slots))) {
    stop(*stuck, "to start again on slots of another kind, which are not free before");
  }
}

void JobDriver::stop(ActiveJob& job, const std::string& why) {
  job.state.stopping = job.to_stop = true;
  job.state.kill_at = after(Seconds(job.spec.grace_s + kStopSlack));
  parts_.jobs.note(job, "Stopping", why);
  ask(job, ActiveJob::Query::stop);
}

void JobDriver::advance(ActiveJob& job) {
  const bool elsewhere = !job.state.live && job.record.reason == kRunsElsewhere;
  if (elsewhere && runs_elsewhere(job)) return;
  for (;;) {
    const NextAction next = next_action(job.record.name, job.state, parts_.slots, Monotonic::now());
    switch (next.kind) {
      case NextAction::Kind::none:
        return;
      case NextAction::Kind::start:
        if (runs_elsewhere(job)) return;
        start(job, next.take);
        break;
      case NextAction::Kind::scale:
        scale(job, next);
        return;
      case NextAction::Kind::stop:
        stop(job, job.record.cancelled ? "cancelled by its user" : job.record.why);
        return;
      case NextAction::Kind::kill:
        job.state.kill_at = after(Seconds(kStopSlack));
        job.runner.send_signal(SIGKILL);
        parts_.jobs.note(job, "Killed", "the job did not stop in time", true);
        return;
      case NextAction::Kind::cancel:
        if (runs_elsewhere(job)) return;
        end(job, "Cancelled", "Cancelled", "cancelled by its user", std::nullopt);
        return;
    }
  }
}

void JobDriver::start(ActiveJob& job, int slots) {
  const JobFolder folder = folder_of(job);
  job.state.granted = parts_.slots.take(job.record.name, slots, job.state.kind);
  job.record.slots = job.state.granted;
  ++job.record.starts;
  count_slots(job);
  try {
    write_job_file(job, parts_.paths, parts_.machine, is_directory(folder.project()));
    job.runner = RunnerProcess::start(
        parts_.adaptdl, folder, numbers_of(parts_.machine, job.state.granted), supervisor_of(job));
  } catch (const DiskFull& error) {
    start_failed(job, error.what(), true);
    return;
  } catch (const Error& error) {
    start_failed(job, error.what(), false);
    return;
  }
  job.state.live = true;
  job.state.stopping = job.state.scaling = job.state.finished = false;
  job.runner_since = Monotonic::now();
  job.change = {job.runner_since, true};
  job.ask_at = after(kAskSoon);
  job.unanswered = job.training = job.present = 0;
  job.to_stop = job.to_scale = false;
  if (!job.record.started_s) job.record.started_s = wall_now_s();
  job.record.reason.clear();
  job.record.message.clear();
  parts_.jobs.note(job, "Started",
                   fmt::format("{} on slot{} {}", job.record.starts > 1 ? "restarted" : "started",
                               slots == 1 ? "" : "s", fmt::join(job.state.granted, ",")));
  parts_.jobs.save(job);
}

void JobDriver::start_failed(ActiveJob& job, const std::string& message, bool disk_full) {
  parts_.slots.keep_only(job.record.name, {});
  job.state.granted.clear();
  job.state.retry_at =
      after(disk_full ? kLookAgain : Seconds(restart_delay_s(++job.record.failures)));
  if (disk_full) job.record.reason = kDiskFull;
  job.record.message = message;
  parts_.jobs.note(job, disk_full ? kDiskFull : "StartFailed", message, true);
  parts_.jobs.save(job);
}

void JobDriver::scale(ActiveJob& job, const NextAction& next) {
  std::vector<int> granted = next.keep;
  const std::vector<int> more =
      parts_.slots.take(job.record.name, next.take, job.state.kind, job.state.granted);
  granted.insert(granted.end(), more.begin(), more.end());
  std::sort(granted.begin(), granted.end());
  count_slots(job);
  job.change = {Monotonic::now(), next.take > 0};
  job.state.granted = granted;
  job.state.scaling = job.to_scale = true;
  job.record.slots = parts_.slots.held_by(job.record.name);
  parts_.jobs.save(job);
  ask(job, ActiveJob::Query::scale);
}

void JobDriver::ask(ActiveJob& job, ActiveJob::Query kind) {
  Json request = {{"request", "status"}};
  if (kind == ActiveJob::Query::scale) {
    request = {
        {"request", "scale"},
        {"replicas", static_cast<int>(job.state.granted.size()) / job.state.slots_per_replica},
        {"slots", numbers_of(parts_.machine, job.state.granted)},
        {"supervisor", supervisor_of(job)}};
  } else if (kind == ActiveJob::Query::stop) {
    // Not by a signal: a restarted service may ask twice, and a second signal would skip the
    // checkpoint.
    request = {{"request", "cancel"}, {"checkpoint", true}};
  }
  job.query_kind = kind;
  job.query = std::make_unique<RunnerQuery>(folder_of(job).control_socket(), request, kPatience);
}

void JobDriver::take_answer(ActiveJob& job) {
  const Json answer = job.query->answer();
  job.query.reset();
  const auto said = answer.find("ok");
  bool ok = said != answer.end() && *said == true;
  job.ask_at = after(kAskSoon);
  if (job.query_kind == ActiveJob::Query::stop) {
    job.to_stop = !answer.is_object();  // a refusal: the runner is ending already
    return;
  }
  if (job.query_kind == ActiveJob::Query::scale) {
    job.state.scaling = false;
    job.to_scale = !ok;  // asked again after the next status
    if (!ok) job.ask_at = after(kAskAgain);
    if (ok && job.change) job.change->since = Monotonic::now();
    return;
  }
  try {
    if (ok) take_status(job, answer);
  } catch (const Error& error) {
    log_warning("{}: {}", job.record.name, error.what());
    ok = false;
  }
  if (!ok) {
    job.unanswered = std::min(job.unanswered + 1, 6);
    if (seconds_since(job.runner_since) > kStartsUp) {
      job.ask_at = after(kAskAgain * (1 << job.unanswered));
      if (job.unanswered == 1) return;  // the runner may be about to end
      job.record.reason = "NotAnswering";
      job.record.message = "the job's runner does not answer; the process may be stopped";
      parts_.jobs.save(job);
    }
    return;
  }
  job.unanswered = 0;
  if (job.record.reason == "NotAnswering" || job.record.reason == kRunsElsewhere) {
    job.record.reason.clear();
    job.record.message.clear();
    parts_.jobs.save(job);
  }
}

void JobDriver::take_status(ActiveJob& job, const Json& status) {
  job.training = std::max(0, json_get_or<int>(status, "replicas", "status", 0));
  const auto members = json_get_or<Json>(status, "members", "status", Json::array());
  job.present = static_cast<int>(members.size());
  const auto step = json_get_or<int64_t>(status, "step", "status", 0);
  if (step > job.step) job.record.failures = 0;
  job.step = std::max(job.step, step);
  job.state.finished = json_find<bool>(status, "finished", "status").value_or(false);
  bool strays = false;  // slots of a start that an earlier service did not record before it died
  if (const auto held = json_find<std::vector<int>>(status, "slots", "status")) {
    std::vector<int> kept = job.state.finished ? std::vector<int>() : job.state.granted;
    const std::vector<int> ours = parts_.slots.held_by(job.record.name);
    for (const int number : *held) {
      kept.push_back(parts_.machine.slot_of(number));
      strays = strays || std::find(ours.begin(), ours.end(), kept.back()) == ours.end();
    }
    const int before = parts_.slots.free();
    parts_.slots.keep_only(job.record.name, kept);
    if (parts_.slots.free() != before) {
      count_slots(job);
      job.record.slots = parts_.slots.held_by(job.record.name);
      job.unsaved = true;
    }
    if (job.state.finished && !job.state.stopping && job.state.wanted > 0) keep_held(job);
  }
  if (const auto hints = json_find<Json>(status, "hints", "status")) take_hints(job, *hints);
  if (json_find<bool>(status, "restartable", "status").value_or(false)) note_restartable(job);
  parts_.supervisor.live(job.record.name, std::max(1, job.state.wanted));
  // The runner has not received the request, or received it before it was ready.
  const int granted = static_cast<int>(job.state.granted.size()) / job.state.slots_per_replica;
  const int target = json_get_or<int>(status, "target", "status", granted);
  if (!job.state.stopping && !job.state.finished &&
      (target != granted || job.to_scale || (strays && granted > 0))) {
    job.state.scaling = true;
    ask(job, ActiveJob::Query::scale);
  }
  const bool moved = parts_.slots.held_by(job.record.name) == job.state.granted;
  if (job.change && job.training == granted && moved) {
    if (job.change->grows) job.start_s = seconds_since(job.change->since);
    job.restarting_since = job.change->since;
    job.change.reset();
  }
  if (parts_.machine.has_kinds() && !moved) give_up_move(job);
  const bool settled = job.training == job.state.wanted && moved;
  job.ask_at = after(settled ? kAskAgain : kAskSoon);
  const std::string phase = phase_text(job);
  if (phase != job.record.phase) job.unsaved = true;
  if (job.unsaved) parts_.jobs.save(job);
}

// Of a job whose training is finished: it has the slots that its replicas still hold, and gets no
// others, whatever was to come.
void JobDriver::keep_held(ActiveJob& job) {
  JobState& state = job.state;
  const std::vector<int> held = parts_.slots.held_by(job.record.name);
  if (held.empty()) return;
  const int replicas = std::max(1, static_cast<int>(held.size()) / state.slots_per_replica);
  const int kind = parts_.slots.kind_of(held.front());
  job.to_scale = false;
  job.change.reset();
  if (state.granted == held && state.wanted == replicas) return;
  state.granted = held;
  state.kind = parts_.slots.of_kind(held, kind) == held ? kind : kAnyKind;
  state.wanted = job.record.replicas = replicas;
  job.unsaved = true;
  parts_.jobs.changed();  // others may get the rest
}

// The kind of slots on which the job trains; nothing while that changes.
std::optional<std::string> JobDriver::present_kind(const ActiveJob& job) const {
  const std::vector<int>& slots = job.state.granted;
  const int kind = job.state.kind;
  if (job.change || kind == kAnyKind || slots.empty()) return std::nullopt;
  if (parts_.slots.of_kind(slots, kind) != slots) return std::nullopt;
  if (parts_.slots.held_by(job.record.name) != slots) return std::nullopt;
  return parts_.machine.kinds.at(static_cast<size_t>(kind));
}

// A job that cannot start on the slots to which it is to move, as a model that is too large for a
// GPU's memory, must not keep both those and its old ones: it goes back, and stays away from them.
void JobDriver::give_up_move(ActiveJob& job) {
  const JobState& state = job.state;
  if (state.kind == kAnyKind || state.stopping || state.scaling || state.wanted == 0) return;
  if (parts_.slots.of_kind(state.granted, state.kind) != state.granted) return;
  if (!job.change || seconds_since(job.change->since) < kMoveLimit) return;
  std::vector<int> held = parts_.slots.held_by(job.record.name);
  std::erase_if(held, [&](int slot) { return parts_.slots.kind_of(slot) == job.state.kind; });
  if (held.empty()) return;
  job.unfit_kinds.insert(job.state.kind);
  const std::string& name = parts_.machine.kinds.at(static_cast<size_t>(job.state.kind));
  job.state.kind = parts_.slots.kind_of(held.front());
  const int room = static_cast<int>(parts_.slots.of_kind(held, job.state.kind).size());
  job.state.wanted = std::min(job.state.wanted, room / job.state.slots_per_replica);
  job.record.replicas = job.state.wanted;
  job.change->since = Monotonic::now();
  job.unsaved = true;
  parts_.jobs.note(
      job, "MoveFailed",
      fmt::format("it has not started on {} within {} s: it goes back, and gets no such "
                  "slots while this service runs",
                  name, kMoveLimit),
      true);
  parts_.jobs.changed();
}

void JobDriver::take_hints(ActiveJob& job, const Json& hints) {
  try {
    std::vector<std::string> ignored;
    SchedulingHints told = hints_from_json(hints, "hints", ignored);
    if (parts_.machine.has_kinds()) {
      const auto& kinds = parts_.machine.kinds;
      // "fast+slow": while it moves.
      const bool tells = std::count(kinds.begin(), kinds.end(), told.accelerator) > 0 ||
                         told.accelerator.find('+') != std::string::npos;
      const std::string& before = job.record.hints;
      told = with_kinds(std::move(told), tells ? std::nullopt : present_kind(job),
                        before.empty() ? SchedulingHints() : parse_hints(before, "hints", ignored));
    }
    // A command restarts to rescale, and cannot measure that itself.
    if (job.spec.kind == JobSpec::Kind::command && !told.rescale_cost_s) {
      const auto before = job.hints.rescale_cost_s;
      const bool runs = job.restarting_since && !job.change;
      told.rescale_cost_s =
          runs ? estimated_restart_cost(seconds_since(*job.restarting_since), before) : before;
    }
    std::string text = dump_json(to_json(told));
    if (text == job.record.hints) return;
    const JobHints known = job_hints(told);
    // The job can now use more replicas, or is known on one more kind of slots: schedule before the
    // interval ends.
    const bool more = (!job.hints.perf && known.perf) ||
                      known.kinds.size() > job.hints.kinds.size() ||
                      known.max_profiled_replicas > job.hints.max_profiled_replicas;
    job.hints = known;
    job.record.hints = std::move(text);
    job.unsaved = true;
    if (more) parts_.jobs.changed();
  } catch (const Error& error) {
    parts_.jobs.note(job, "BadHints", error.what(), true);
  }
}

void JobDriver::note_restartable(ActiveJob& job) {
  if (std::exchange(job.restartable, true)) return;
  parts_.jobs.note(job, "Restartable", "it has exited with 143 when it was asked to stop");
  parts_.jobs.changed();
}

// Whether a runner of another machine, or of another container, has the folder, which they share
// with this one. Once it has ended, its end is noted, which may be the job's.
bool JobDriver::runs_elsewhere(ActiveJob& job) {
  const bool known = job.record.reason == kRunsElsewhere;
  if (known && Monotonic::now() < job.state.retry_at) return true;
  const JobFolder folder = folder_of(job);
  if (!job_folder_locked(folder)) {
    if (!known) return false;
    job.record.reason.clear();
    job.record.message.clear();
    return note_last_runner(job);
  }
  RunnerProcess runner = RunnerProcess::find(folder);
  if (!runner) {
    wait_elsewhere(job);
    return true;
  }
  // An earlier service started it and died before recording it. A start finds it; a cancelled job
  // has none.
  if (!job.state.cancelled) return false;
  job.runner = std::move(runner);
  job.runner_since = Monotonic::now();
  job.state.live = true;
  return true;
}

void JobDriver::wait_elsewhere(ActiveJob& job) {
  const JobFolder folder = folder_of(job);
  const auto last = last_runner(folder);
  // It may be a runner of this machine that has not written its file yet.
  job.state.retry_at = after(last ? kLookAgain : kAfterTrouble);
  const bool known = std::exchange(job.record.reason, kRunsElsewhere) == kRunsElsewhere;
  job.record.message = fmt::format(
      "its runner runs on {}, or in another container, which shares {}; stop it there, or wait for "
      "its end",
      last && !last->host.empty() ? last->host : "another machine", parts_.paths.folder);
  if (!known) parts_.jobs.note(job, kRunsElsewhere, job.record.message, true);
  parts_.jobs.save(job);
}

// Of a job without a live runner: notes the end of its last one, which an earlier service or
// another machine had started. False if that is known already, or there was none.
bool JobDriver::note_last_runner(ActiveJob& job) {
  const auto last = last_runner(folder_of(job));
  if (!last) return false;
  if (!last->this_boot) job.record.failures = 0;  // the machine failed, not the job
  job.runner_since = Monotonic::now();            // the real start time is unknown
  runner_ended(job, last->pid, std::nullopt);
  return true;
}

void JobDriver::runner_ended(ActiveJob& job, pid_t pid, std::optional<int> code) {
  const JobFolder folder = folder_of(job);
  const bool was_cancelled = job.state.cancelled;
  if (code == kRunnerTaken) {  // an earlier service started a runner and died before recording it
    job.runner = RunnerProcess::find(folder);
    if (job.runner) return;
  }
  count_slots(job);
  job.runner = {};
  job.query.reset();
  job.to_stop = job.to_scale = false;
  const bool stopping = job.state.stopping;
  job.state.live = job.state.stopping = job.state.scaling = job.state.finished = false;
  job.state.granted.clear();
  job.training = job.present = 0;
  parts_.slots.keep_only(job.record.name, {});
  job.record.slots.clear();
  parts_.supervisor.gone(job.record.name);
  // It may have run since before the machine became smaller, or its slots came to be of other
  // kinds.
  if (job.state.kind == kAnyKind || !parts_.machine.may_use(job.spec, job.state.kind) ||
      job.state.wanted * job.state.slots_per_replica > parts_.machine.slots_of(job.state.kind)) {
    job.state.wanted = job.record.replicas = job.state.kind = 0;
    note_shortage(job, parts_.machine);
  }
  parts_.jobs.changed();
  if (shown_restartable(folder)) note_restartable(job);
  const RunnerEnd how = runner_end(folder, pid);
  if (code == kRunnerTaken && how.state.empty()) {  // else the program's own code
    wait_elsewhere(job);
    return;
  }
  if (how.step > job.step || seconds_since(job.runner_since) > kLivedLong) job.record.failures = 0;
  job.step = std::max(job.step, how.step);
  // With a full disk the runner may not have recorded its end; its exit code tells it then.
  const bool recorded = how.state == "finished" || how.state == "failed" ||
                        how.state == "stopped" || how.state == "cancelled";
  // No later runner may come that kills what a killed one left, and others get its slots.
  if (!recorded) {
    launch::kill_leftovers(launch::read_replica_record(folder.replicas_file()),
                           "ADAPTDL_CHECKPOINT_PATH=" + folder.checkpoints(), 0);
  }
  if (how.state == "finished" || (!recorded && code == kRunnerFinished)) {
    // What a command that has finished has to explain; an archive's sentence is in its log.
    end(job, "Succeeded", "", job.spec.kind == JobSpec::Kind::command ? how.reason : "",
        how.exit_code.value_or(0));
    return;
  }
  if (was_cancelled) {
    end(job, "Cancelled", "Cancelled", "cancelled by its user", std::nullopt);
    return;
  }
  if (how.state == "failed") {
    end(job, "Failed", how.cause.empty() ? "RunFailed" : how.cause,
        how.reason.empty() ? "the job failed; see its logs for the reason" : how.reason,
        how.program_exit_code.value_or(how.exit_code.value_or(1)));
    return;
  }
  if (how.state == "stopped" || how.state == "cancelled" || (!recorded && code == kRunnerStopped)) {
    parts_.jobs.note(job, "Stopped", how.step > 0 ? fmt::format("after step {}", how.step) : "");
    if (!stopping && !job.record.suspended) {
      // Not stopped by this service; the job starts again when the scheduler gives it slots.
      job.state.retry_at = after(Seconds(1));
    }
    parts_.jobs.save(job);
    if (!job.unsaved) forget_runner(folder);
    return;
  }
  runner_died(job, stopping, code);
}

// The runner was killed, or failed before it started.
void JobDriver::runner_died(ActiveJob& job, bool stopping, std::optional<int> code) {
  const JobFolder folder = folder_of(job);
  const bool disk_full = code == kRunnerDiskFull;
  std::string message = "the job's runner was killed";
  if (disk_full) {
    message = fmt::format(
        "{}: no room on the disk, or on that of temporary files; the job starts once there is some",
        folder.path);
  } else if (code && *code < 128) {
    const std::string words = last_words(folder);
    message =
        words.empty() ? fmt::format("the job's runner ended with exit code {}", *code) : words;
  }
  const int deaths = disk_full ? 0 : ++job.record.failures;
  if (deaths >= kMaxDeaths) {
    end(job, "Failed", "RunnerDied", fmt::format("{} ({} times in a row)", message, deaths),
        code.value_or(1));
    return;
  }
  const char* const reason = disk_full ? kDiskFull : "RunnerDied";
  const Seconds delay = disk_full ? kLookAgain : Seconds(restart_delay_s(deaths));
  job.state.retry_at = after(stopping ? Seconds(0) : delay);
  job.record.reason = reason;
  job.record.message = message;
  note_shortage(job, parts_.machine);  // which it waits for
  parts_.jobs.note(job, reason, message, true);
  parts_.jobs.save(job);
  if (!job.unsaved) forget_runner(folder);
}

void JobDriver::end(ActiveJob& job, const std::string& phase, const std::string& reason,
                    const std::string& message, std::optional<int> exit_code) {
  parts_.supervisor.remove(job.record.name);
  parts_.jobs.end(job, phase, reason, message, exit_code);
}

void JobDriver::count_slots(ActiveJob& job) {
  count_service(job, parts_.slots.held_by(job.record.name).size());
}

}  // namespace adaptdl::local
