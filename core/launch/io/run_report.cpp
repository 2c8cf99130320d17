#include "core/launch/io/run_report.h"

#include <cmath>
#include <unistd.h>

#include "core/formats/json_or_null.h"

namespace adaptdl::launch {

namespace {

using nlohmann::json;

double to_microseconds(double seconds) {
  return std::round(seconds * 1e6) / 1e6;
}

json evidence(const StragglerFacts& facts) {
  return {{"member", facts.member},     {"host", or_null(facts.host)},
          {"sample_s", facts.sample_s}, {"others_sample_s", facts.others_sample_s},
          {"factor", facts.factor},     {"waited", facts.waited}};
}

json evidence(const SlowLinkFacts& facts) {
  return {{"member", facts.member},           {"host", or_null(facts.host)},
          {"peer", or_null(facts.peer)},      {"peer_host", or_null(facts.peer_host)},
          {"bytes_per_s", facts.bytes_per_s}, {"others_bytes_per_s", facts.others_bytes_per_s},
          {"factor", facts.factor},           {"waited", facts.waited}};
}

}  // namespace

RunReport::RunReport(RunIdentity identity, OutputQueue& output, Keep keep)
    : identity_(std::move(identity)),
      output_(output),
      keep_(std::move(keep)),
      begun_(Monotonic::now()),
      started_(rfc3339(std::chrono::system_clock::now())),
      record_{{"format", kRecordFormat},
              {"name", identity_.name},
              {"program", identity_.program},
              {"arguments", identity_.arguments}} {
  if (!identity_.settings) return;
  record_["settings"] = identity_.settings->given;
  record_["effective_settings"] = identity_.settings->effective;
  if (!identity_.program_version.empty()) record_["program_version"] = identity_.program_version;
}

void RunReport::emit(json event) {
  event["time_s"] = to_microseconds(elapsed_s());
  progress_.event(event);
  output_.event(std::move(event));
}

void RunReport::start(const StartFacts& facts) {
  json event = {{"event", "start"},
                {"format", kEventFormat},
                {"name", identity_.name},
                {"run_id", or_null(facts.run_id)},
                {"program", identity_.program},
                {"pid", getpid()},
                {"started", started_},
                {"replicas", facts.replicas},
                {"min", facts.min},
                {"max", facts.max},
                {"threads", facts.threads},
                {"gpus", facts.gpus},
                {"checkpoint_dir", identity_.checkpoint_dir},
                {"output_dir", or_null(identity_.output_dir)},
                {"log_dir", identity_.log_dir}};
  if (facts.evaluate) event["evaluate"] = true;
  emit(std::move(event));
}

void RunReport::generation(const GenerationFacts& facts) {
  emit({{"event", "generation"},
        {"generation", facts.number},
        {"members", facts.members},
        {"replicas", facts.members.size()},
        {"cause", facts.cause},
        {"from", facts.from},
        {"to", facts.members.size()},
        {"immediate", facts.immediate},
        {"accelerator", or_null(facts.accelerator)},
        {"step", or_null(facts.step)}});
}

void RunReport::failure(const FailureFacts& facts) {
  json event = {{"event", "failure"}, {"member", facts.member}, {"reason", facts.reason},
                {"signal", nullptr},  {"exit_code", nullptr},   {"next", facts.next},
                {"log", facts.log}};
  if (facts.status) event[facts.status->signaled ? "signal" : "exit_code"] = facts.status->value;
  emit(std::move(event));
}

void RunReport::hang(const HangFacts& facts) {
  emit({{"event", "hang"},
        {"members", facts.members},
        {"seconds", to_microseconds(facts.seconds)},
        {"step", or_null(facts.step)},
        {"file", or_null(facts.file)}});
  if (!facts.file.empty()) talk("what the replicas that hung were doing is in " + facts.file);
}

void RunReport::mirror(const MirrorFacts& facts) {
  json event = {{"event", "mirror"}, {"step", facts.step}, {"place", facts.place}};
  if (facts.error.empty()) {
    event["bytes"] = facts.bytes;
    event["seconds"] = to_microseconds(facts.seconds);
  } else {
    event["error"] = facts.error;
  }
  emit(std::move(event));
}

void RunReport::straggler(const StragglerFacts& facts) {
  json event = evidence(facts);
  event.update({{"event", "straggler"},
                {"state", facts.state},
                {"by", or_null(facts.by)},
                {"samples_per_s_before", or_null(facts.samples_per_s_before)},
                {"samples_per_s", or_null(facts.samples_per_s)},
                {"reason", or_null(facts.reason)}});
  emit(std::move(event));
}

void RunReport::slow_link(const SlowLinkFacts& facts) {
  json event = evidence(facts);
  event.update({{"event", "slow_link"}, {"state", facts.state}});
  emit(std::move(event));
}

void RunReport::gpu(const GpuFacts& facts) {
  emit({{"event", "gpu"},
        {"member", facts.member},
        {"host", or_null(facts.host)},
        {"id", facts.gpu.uuid},
        {"name", facts.gpu.name},
        {"busy_percent", or_null(facts.load.busy_percent)},
        {"memory_bytes", facts.gpu.memory_bytes},
        {"memory_used_bytes", or_null(facts.load.memory_used_bytes)},
        {"temperature_c", or_null(facts.load.temperature_c)},
        {"power_w", or_null(facts.load.power_w)}});
}

void RunReport::from_replica(json event) {
  emit(std::move(event));
}

void RunReport::rescale(json event, const std::string& cause, int from, size_t to) {
  event["cause"] = cause;
  event["from"] = from;
  event["to"] = to;
  emit(std::move(event));
}

void RunReport::end(const EndFacts& facts) {
  json event = facts.from_replicas;
  event.update({{"event", "end"},
                {"result", facts.result},
                {"exit_code", facts.exit},
                {"reason", or_null(facts.reason)},
                {"checkpoint", facts.checkpoint},
                {"steps", or_null(facts.steps)},
                {"seconds", to_microseconds(elapsed_s())},
                {"rescales", facts.rescales},
                {"lost_s", facts.lost_s ? json(to_microseconds(*facts.lost_s)) : json()},
                {"dropped_events", output_.dropped()}});
  take(facts.result, facts.record);
  record_.update(event);
  record_.erase("event");
  record_["cause"] = facts.result == "failed" ? json(facts.cause) : json();
  write(true);
  emit(std::move(event));
}

void RunReport::already_finished(const json& record) {
  // The starter of this process expects a record with its process number. The record file may also
  // be older than the folder's, if a full disk prevented writing it.
  record_.update(record);
  record_["pid"] = getpid();
  write(true);
  json event = record;
  event.update({{"event", "end"}, {"time_s", 0.0}, {"exit_code", 0}, {"already", true}});
  output_.event(std::move(event));
}

json RunReport::status(const StatusFacts& facts) const {
  json members = json::array();
  for (const auto& [member, pid, state] : facts.members) {
    members.push_back({{"member", member}, {"pid", pid}, {"state", state}});
  }
  json stragglers = json::array();
  for (const StragglerFacts& one : facts.stragglers) stragglers.push_back(evidence(one));
  json slow_links = json::array();
  for (const SlowLinkFacts& one : facts.slow_links) slow_links.push_back(evidence(one));
  json status = {{"name", identity_.name},
                 {"pid", getpid()},
                 {"program", identity_.program},
                 {"state", state_},
                 {"reason", facts.reason},
                 {"generation", facts.generation},
                 {"replicas", facts.replicas},
                 {"spares", facts.spares},
                 {"members", std::move(members)},
                 {"stragglers", std::move(stragglers)},
                 {"slow_links", std::move(slow_links)},
                 {"target", facts.target},
                 {"min", facts.min},
                 {"max", facts.max},
                 {"finished", facts.finished},
                 {"slots", or_null(facts.slots)},
                 {"restartable", or_null(facts.restartable)},
                 {"hints", facts.hints},
                 {"step", or_null(facts.step)},
                 {"epoch", facts.epoch},
                 {"loss", facts.loss},
                 {"started", started_},
                 {"seconds", elapsed_s()},
                 {"checkpoint_dir", identity_.checkpoint_dir},
                 {"log_dir", identity_.log_dir},
                 {"output_dir", or_null(identity_.output_dir)}};
  status.update(progress_.facts());
  return status;
}

void RunReport::record(const std::string& state, const RecordFacts& facts) {
  take(state, facts);
  write(false);
}

void RunReport::take(const std::string& state, const RecordFacts& facts) {
  state_ = state;
  record_.update({{"state", state},
                  {"pid", getpid()},
                  {"started", started_},
                  {"changed", rfc3339(std::chrono::system_clock::now())},
                  {"step", or_null(facts.step)},
                  {"checkpoint_dir", identity_.checkpoint_dir},
                  {"log_dir", identity_.log_dir},
                  {"output_dir", or_null(identity_.output_dir)},
                  {"control_socket", identity_.control_socket}});
  if (!facts.command) return;
  record_.update({{"reason", nullptr},
                  {"cause", nullptr},
                  {"exit_code", nullptr},
                  {"program_exit_code", or_null(facts.command->program_exit_code)},
                  {"checkpoint", facts.command->checkpoint},
                  {"restartable", facts.command->restartable},
                  {"generation", facts.command->generation},
                  {"replicas", facts.command->replicas}});
}

void RunReport::write(bool last) {
  try {
    keep_(record_, last);
  } catch (const std::exception& error) {
    if (told_problem_ == error.what()) return;
    told_problem_ = error.what();
    talk("cannot write the record of this run: " + told_problem_);
  }
}

}  // namespace adaptdl::launch
