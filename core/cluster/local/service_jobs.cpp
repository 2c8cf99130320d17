// What happens to one job.

#include <algorithm>
#include <fcntl.h>
#include <signal.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/cluster/local/service.h"
#include "core/job/hints.h"

namespace adaptdl::local {

namespace {

constexpr std::chrono::milliseconds kAskAgain{1000};  // a job that trains
constexpr std::chrono::milliseconds kAskSoon{100};    // one that is starting, or changing
constexpr Seconds kPatience{5};                       // with a runner's answer
constexpr double kStartsUp = 10;                      // s in which a runner need not answer
constexpr double kLivedLong = 600;                    // s after which a death is the first again
constexpr int kMaxDeaths = 10;                        // of runners, in a row without a step

TimePoint after(Seconds seconds) {
  return Monotonic::now() + std::chrono::duration_cast<Monotonic::duration>(seconds);
}

// The last line that a runner which could not even begin left behind.
std::string last_words(const std::string& folder) {
  try {
    std::string text = read_file(join_path(folder, "runner.log"), 1u << 20);
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

void Service::advance(LocalJob& job) {
  for (;;) {
    const JobStep step = next_step(job.state, slots_.free(), Monotonic::now());
    switch (step.action) {
      case JobStep::Action::none:
        return;
      case JobStep::Action::start:
        start(job, step.take);
        break;
      case JobStep::Action::scale:
        scale(job, step);
        return;
      case JobStep::Action::stop:
        job.state.stopping = job.to_stop = true;
        job.state.kill_at = after(Seconds(job.spec.grace_s + kStopSlack));
        note(job, "Stopping", job.record.cancelled ? "it was cancelled" : job.record.why);
        ask(job, LocalJob::Query::stop);
        return;
      case JobStep::Action::kill:
        job.state.kill_at = after(Seconds(kStopSlack));
        job.runner.send_signal(SIGKILL);
        note(job, "Killed", "it did not stop in time", true);
        return;
      case JobStep::Action::cancel:
        end(job, "Cancelled", "Cancelled", "cancelled by its user", std::nullopt);
        return;
    }
  }
}

void Service::start(LocalJob& job, int slots) {
  const std::string folder = options_.paths.job(job.record.name);
  job.state.granted = slots_.take(job.record.name, slots);
  job.record.slots = job.state.granted;
  ++job.record.starts;
  count_service(job);
  try {
    write_runner_file(job);  // scaled since, or another machine than at its submission
    job.runner =
        RunnerProcess::start(options_.adaptdl, folder, numbers_of(machine_, job.state.granted),
                             fmt::format("{}/j/{}", url_, job.record.token));
  } catch (const Error& error) {
    slots_.keep_only(job.record.name, {});
    job.state.granted.clear();
    job.state.retry_at = after(Seconds(restart_delay_s(++job.record.failures)));
    note(job, "StartFailed", error.what(), true);
    job.record.message = error.what();
    save(job);
    return;
  }
  job.state.live = true;
  job.state.stopping = job.state.scaling = false;
  job.runner_since = Monotonic::now();
  job.grows_since = job.runner_since;
  job.ask_at = after(kAskSoon);
  job.unanswered = job.training = job.present = 0;
  job.to_stop = false;
  if (!job.record.started_s) job.record.started_s = wall_now_s();
  job.record.reason.clear();
  job.record.message.clear();
  note(job, "Started",
       fmt::format("{} on slot{} {}", job.record.starts > 1 ? "again" : "first",
                   slots == 1 ? "" : "s", fmt::join(job.state.granted, ",")));
  save(job);
}

void Service::write_runner_file(const LocalJob& job) {
  const std::string folder = options_.paths.job(job.record.name);
  replace_file(join_path(folder, "job.json"),
               dump_json(runner_file(job, folder, machine_.slot_kind(),
                                     join_path(options_.paths.folder, "tensorboard"))),
               0600);
}

void Service::scale(LocalJob& job, const JobStep& step) {
  std::vector<int> granted = step.keep;
  const std::vector<int> more = slots_.take(job.record.name, step.take);
  granted.insert(granted.end(), more.begin(), more.end());
  std::sort(granted.begin(), granted.end());
  count_service(job);
  if (step.take > 0) {
    job.grows_since = Monotonic::now();
  } else {
    job.grows_since.reset();
  }
  job.state.granted = granted;
  job.state.scaling = true;
  job.record.slots = slots_.held_by(job.record.name);
  save(job);
  ask(job, LocalJob::Query::scale);
}

void Service::ask(LocalJob& job, LocalJob::Query kind) {
  nlohmann::json request = {{"request", "status"}};
  if (kind == LocalJob::Query::scale) {
    request = {
        {"request", "scale"},
        {"replicas", static_cast<int>(job.state.granted.size()) / job.state.slots_per_replica},
        {"slots", numbers_of(machine_, job.state.granted)}};
  } else if (kind == LocalJob::Query::stop) {
    // Not by a signal: a service that was started anew may ask twice, and a second signal would
    // skip the checkpoint.
    request = {{"request", "cancel"}, {"checkpoint", true}};
  }
  job.query_kind = kind;
  job.query = std::make_unique<RunnerQuery>(
      join_path(options_.paths.job(job.record.name), "control.sock"), request, kPatience);
}

void Service::take_answer(LocalJob& job) {
  const nlohmann::json answer = job.query->answer();
  job.query.reset();
  const auto said = answer.find("ok");
  bool ok = said != answer.end() && *said == true;
  job.ask_at = after(kAskSoon);
  if (job.query_kind == LocalJob::Query::stop) {
    job.to_stop = !answer.is_object();  // refused: it is ending already
    return;
  }
  if (job.query_kind == LocalJob::Query::scale) {
    job.state.scaling = false;  // whether it was understood, the next status tells
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
      if (job.unanswered == 1) return;  // it may be about to end
      job.record.reason = "NotAnswering";
      job.record.message = "its runner does not answer; it may be stopped";
      save(job);
    }
    return;
  }
  job.unanswered = 0;
  if (job.record.reason == "NotAnswering") {
    job.record.reason.clear();
    job.record.message.clear();
    save(job);
  }
}

void Service::take_status(LocalJob& job, const nlohmann::json& status) {
  job.training = std::max(0, json_get_or<int>(status, "replicas", "status", 0));
  const auto members = json_get_or<Json>(status, "members", "status", Json::array());
  job.present = static_cast<int>(members.size());
  const auto step = json_get_or<int64_t>(status, "step", "status", 0);
  if (step > job.step) job.record.failures = 0;
  job.step = std::max(job.step, step);
  bool strays = false;  // a service that died before it could say so had started it elsewhere
  if (const auto held = json_find<std::vector<int>>(status, "slots", "status")) {
    std::vector<int> kept = job.state.granted;
    const std::vector<int> ours = slots_.held_by(job.record.name);
    for (const int number : *held) {
      kept.push_back(machine_.slot_of(number));
      strays = strays || std::find(ours.begin(), ours.end(), kept.back()) == ours.end();
    }
    const int before = slots_.free();
    slots_.keep_only(job.record.name, kept);
    if (slots_.free() != before) {
      count_service(job);
      job.record.slots = slots_.held_by(job.record.name);
      job.unsaved = true;
    }
  }
  if (const auto hints = json_find<Json>(status, "hints", "status")) take_hints(job, *hints);
  supervised_.live(job.record.name, std::max(1, job.state.wanted));
  // A request that it has not had, or had before it was ready.
  const int granted = static_cast<int>(job.state.granted.size()) / job.state.slots_per_replica;
  const int target = json_get_or<int>(status, "target", "status", granted);
  if (!job.state.stopping && (target != granted || (strays && granted > 0))) {
    job.state.scaling = true;
    ask(job, LocalJob::Query::scale);
  }
  if (job.grows_since && job.training == granted) {
    job.start_s = seconds_since(*job.grows_since);
    job.grows_since.reset();
  }
  const bool settled = job.training == job.state.wanted &&
                       slots_.held_by(job.record.name).size() == job.state.granted.size();
  job.ask_at = after(settled ? kAskAgain : kAskSoon);
  const std::string phase = phase_text(job);
  if (phase != job.record.phase) job.unsaved = true;
  if (job.unsaved) save(job);
}

void Service::take_hints(LocalJob& job, const nlohmann::json& hints) {
  std::string text = dump_json(hints);
  if (text == job.record.hints) return;
  std::vector<std::string> ignored;
  try {
    const JobHints known = job_hints(hints_from_json(hints, "hints", ignored));
    // What it may be given has grown: it need not wait for the interval's end.
    const bool more = (!job.hints.perf && known.perf) ||
                      known.max_profiled_replicas > job.hints.max_profiled_replicas;
    job.hints = known;
    job.record.hints = std::move(text);
    job.unsaved = true;
    if (more) happened();
  } catch (const Error& error) {
    note(job, "BadHints", error.what(), true);
  }
}

void Service::runner_ended(LocalJob& job, pid_t pid, std::optional<int> code) {
  const std::string folder = options_.paths.job(job.record.name);
  const bool was_cancelled = job.state.cancelled;
  if (code == kRunnerTaken) {  // started by a service that died before it could say so
    job.runner = RunnerProcess::find(folder);
    if (job.runner) return;
  }
  count_service(job);
  job.runner = {};
  job.query.reset();
  job.to_stop = false;
  const bool stopping = job.state.stopping;
  job.state.live = job.state.stopping = job.state.scaling = false;
  job.state.granted.clear();
  job.training = job.present = 0;
  slots_.keep_only(job.record.name, {});
  job.record.slots.clear();
  supervised_.gone(job.record.name);
  happened();

  const RunnerEnd how = runner_end(folder, pid);
  if (how.step > job.step || seconds_since(job.runner_since) > kLivedLong) job.record.failures = 0;
  job.step = std::max(job.step, how.step);
  // A full disk may have kept it from recording its end: then its exit code says it.
  const bool recorded = how.state == "finished" || how.state == "failed" ||
                        how.state == "stopped" || how.state == "cancelled";
  if (how.state == "finished" || (!recorded && code == 0)) {
    end(job, "Succeeded", "", "", how.exit_code.value_or(0));
    return;
  }
  if (was_cancelled) {
    end(job, "Cancelled", "Cancelled", "cancelled by its user", std::nullopt);
    return;
  }
  if (how.state == "failed") {
    end(job, "Failed", how.cause.empty() ? "RunFailed" : how.cause,
        how.reason.empty() ? "it failed; its logs may say why" : how.reason,
        how.program_exit_code.value_or(how.exit_code.value_or(1)));
    return;
  }
  if (how.state == "stopped" || how.state == "cancelled" || (!recorded && code == kRunnerStopped)) {
    note(job, "Stopped", how.step > 0 ? fmt::format("after step {}", how.step) : "");
    if (!stopping && !job.record.suspended) {
      // Somebody else told it to stop; it goes on when it is its turn again.
      job.state.retry_at = after(Seconds(1));
    }
    save(job);
    if (!job.unsaved) forget_runner(folder);
    return;
  }
  // Killed, or it could not even begin.
  const int deaths = ++job.record.failures;
  std::string message = "its runner was killed";
  if (code && *code < 128) {
    const std::string words = last_words(folder);
    message = words.empty() ? fmt::format("its runner ended with exit code {}", *code) : words;
  }
  if (deaths >= kMaxDeaths) {
    end(job, "Failed", "RunnerDied", fmt::format("{} ({} times in a row)", message, deaths),
        code.value_or(1));
    return;
  }
  job.state.retry_at = after(Seconds(stopping ? 0 : restart_delay_s(deaths)));
  job.record.reason = "RunnerDied";
  job.record.message = message;
  note(job, "RunnerDied", message, true);
  save(job);
  if (!job.unsaved) forget_runner(folder);
}

// The loop forgets it afterwards.
void Service::end(LocalJob& job, std::string_view phase, const std::string& reason,
                  const std::string& message, std::optional<int> exit_code) {
  job.record.phase = phase;
  job.record.reason = reason;
  job.record.message = message;
  if (exit_code) job.record.exit_code = *exit_code;
  job.record.ended_s = wall_now_s();
  job.record.replicas = job.state.wanted = 0;
  note(job, std::string(phase).c_str(), message, phase == "Failed");
  supervised_.remove(job.record.name);
  save(job);
  happened();
}

void Service::count_service(LocalJob& job) {
  const TimePoint now = Monotonic::now();
  const auto held = static_cast<double>(slots_.held_by(job.record.name).size());
  if (job.state.live) job.record.service_s += held * seconds_between(job.counted, now);
  job.counted = now;
}

void Service::save(LocalJob& job) {
  if (!job.record.ended()) job.record.phase = phase_text(job);
  try {
    store_.update(job.record);
    job.unsaved = false;
    problem_.clear();
  } catch (const Error& error) {
    if (problem_.empty()) log_error("{}; jobs go on, and this is tried again", error.what());
    problem_ = error.what();
    job.unsaved = true;
    retry_store_ = after(Seconds(1));
  }
}

void Service::note(const LocalJob& job, const char* kind, const std::string& message,
                   bool warning) {
  log_at(warning ? LogLevel::warning : LogLevel::info, "{}: {}{}{}", job.record.name, kind,
         message.empty() ? "" : ": ", message);
  try {
    store_.add_event({0, job.record.name, wall_now_s(), kind, message, warning});
  } catch (const Error& error) {
    log_warning("an event is lost: {}", error.what());
  }
}

void Service::happened() {
  allocator_->something_happened(now_s());
}

}  // namespace adaptdl::local
