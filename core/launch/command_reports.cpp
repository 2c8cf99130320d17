// What a command run tells: events, answers to requests, its record.

#include <cmath>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/json.h"
#include "core/launch/command_launcher.h"
#include "core/launch/slots.h"

namespace adaptdl::launch {

namespace {

constexpr int kRecordFormat = 1;
constexpr int kLastLines = 20;

}  // namespace

void CommandLauncher::emit(nlohmann::json event) {
  event["time_s"] = std::round(seconds_since(begun_) * 1e6) / 1e6;
  output_.event(std::move(event));
}

void CommandLauncher::emit_start() {
  emit({{"event", "start"},
        {"format", kEventFormat},
        {"name", options_.name},
        {"run_id", nullptr},
        {"program", options_.program},
        {"pid", getpid()},
        {"started", started_},
        {"replicas", options_.replicas.initial},
        {"min", options_.replicas.min},
        {"max", options_.replicas.max},
        {"threads", threads_for(options_.replicas.initial)},
        {"gpus", options_.gpus},
        {"checkpoint_dir", options_.checkpoint_dir},
        {"output_dir", nullptr},
        {"log_dir", options_.log_dir}});
}

std::string CommandLauncher::what_next() const {
  if (view_.stop != CommandStop::none) return "the run is stopping";
  return "all are ended, and start again from their newest checkpoint unless that fails too often";
}

void CommandLauncher::report_failure(int rank, const ExitStatus& status) {
  const bool memory_ran_out = oom_.explains(status);
  const std::string reason = memory_ran_out ? "killed: memory ran out" : status.describe();
  cause_ = memory_ran_out ? "OutOfMemory" : "ReplicaFailed";
  const std::vector<std::string> log = logs_.tail(
      static_cast<MemberId>(rank), kLastLines, Monotonic::now() + std::chrono::milliseconds(100));
  nlohmann::json event = {{"event", "failure"}, {"member", rank},       {"reason", reason},
                          {"signal", nullptr},  {"exit_code", nullptr}, {"next", what_next()},
                          {"log", log}};
  event[status.signaled ? "signal" : "exit_code"] = status.value;
  emit(std::move(event));
  output_.talk(fmt::format("replica {}: {}", rank, reason));
  failed_with_ = status.shell_code();
  failure_ = fmt::format("Replica {}: {}", rank, reason);
  if (!log.empty()) {
    failure_ += fmt::format(". Its last words:\n  {}", fmt::join(log, "\n  "));
  }
}

nlohmann::json CommandLauncher::on_request(const nlohmann::json& request) {
  const auto kind = json_get<std::string>(request, "request", "request");
  if (kind == "status") return status();
  if (view_.stop != CommandStop::none) {
    fail("the run is ending ({})", cancelled_ ? "cancelled" : "stopped");
  }
  if (kind == "scale") return scale(request);
  if (kind == "cancel") {
    const bool checkpoint = json_get_or<bool>(request, "checkpoint", "cancel", true);
    view_.stop = checkpoint ? CommandStop::checkpoint : CommandStop::now;
    cancelled_ = true;
    return nlohmann::json::object();
  }
  fail("unknown request {}", kind);
}

nlohmann::json CommandLauncher::scale(const nlohmann::json& request) {
  const int wanted = json_get<int>(request, "replicas", "scale");
  const auto slots = json_find<std::vector<int>>(request, "slots", "scale");
  if (slots && options_.slots.empty()) {
    fail("this run shares all cores; it was not started with slots of its own");
  }
  if (slots && slots->empty()) fail("a run cannot go on without any slot");
  check_scale(wanted, slots.value_or(view_.slots), options_.slots_per_replica);
  if (slots && options_.gpus > 0) check_gpus(*slots, options_.gpus);
  const int before = view_.target;
  if (slots) view_.slots = *slots;
  view_.target = wanted;
  return {{"from", before}, {"to", wanted}};
}

nlohmann::json CommandLauncher::status() const {
  nlohmann::json members = nlohmann::json::array();
  std::vector<int> held;
  for (const auto& [rank, process] : processes_) {
    members.push_back({{"member", rank},
                       {"pid", process.child.pid()},
                       {"state", view_.kill_at || view_.killed ? "leaving" : "active"}});
    const std::vector<int> slots = slots_of(view_.held, rank, options_.slots_per_replica);
    held.insert(held.end(), slots.begin(), slots.end());
  }
  return {{"name", options_.name},
          {"pid", getpid()},
          {"program", options_.program},
          {"state", state_},
          {"reason", reason_},
          {"generation", std::max<int64_t>(replicas_record_.generation, 0)},
          {"replicas", processes_.size()},
          {"members", std::move(members)},
          {"target", view_.target},
          {"min", options_.replicas.min},
          {"max", options_.replicas.max},
          {"slots", options_.slots.empty() ? nlohmann::json() : nlohmann::json(held)},
          {"hints", nullptr},
          {"step", nullptr},
          {"epoch", nullptr},
          {"loss", nullptr},
          {"started", started_},
          {"seconds", seconds_since(begun_)},
          {"checkpoint_dir", options_.checkpoint_dir},
          {"log_dir", options_.log_dir},
          {"output_dir", nullptr}};
}

void CommandLauncher::record(const std::string& state, bool lasting) {
  state_ = state;
  const nlohmann::json facts = {
      {"format", kRecordFormat},
      {"name", options_.name},
      {"program", options_.program},
      {"arguments", options_.arguments},
      {"state", state},
      {"reason", end_.is_object() ? end_["reason"] : nlohmann::json()},
      {"cause", state == "failed" ? nlohmann::json(cause_) : nlohmann::json()},
      {"exit_code", end_.is_object() ? end_["exit_code"] : nlohmann::json()},
      {"program_exit_code", failed_with_ ? nlohmann::json(*failed_with_) : nlohmann::json()},
      {"checkpoint", checkpointed_},
      {"pid", getpid()},
      {"started", started_},
      {"changed", rfc3339(std::chrono::system_clock::now())},
      {"generation", replicas_record_.generation},
      {"replicas", processes_.size()},
      {"step", nullptr},
      {"checkpoint_dir", options_.checkpoint_dir},
      {"log_dir", options_.log_dir},
      {"output_dir", nullptr},
      {"control_socket", options_.control_socket}};
  try {
    const std::string text = dump_json(facts) + "\n";
    if (lasting) {
      write_file_atomic(options_.record_file, text, 0600);
    } else {
      replace_file(options_.record_file, text, 0600);
    }
  } catch (const Error& error) {
    if (recorded_problem_ == error.what()) return;
    recorded_problem_ = error.what();
    output_.talk("cannot keep the record of this run: " + recorded_problem_);
  }
}

void CommandLauncher::end(const std::string& result, int exit, const std::string& reason) {
  exit_ = exit;
  over_ = true;
  if (!reason.empty()) output_.talk(reason);
  end_ = {{"event", "end"},
          {"result", result},
          {"exit_code", exit},
          {"reason", reason.empty() ? nlohmann::json() : nlohmann::json(reason)},
          {"checkpoint", checkpointed_},
          {"steps", nullptr},
          {"seconds", std::round(seconds_since(begun_) * 1e6) / 1e6},
          {"rescales", std::max(0, starts_ - 1)},
          {"lost_s", nullptr},
          {"dropped_events", output_.dropped()}};
  record(result, true);
}

}  // namespace adaptdl::launch
