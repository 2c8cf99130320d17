#include "cli/show/progress.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/frame/output.h"
#include "core/base/number.h"
#include "core/formats/json_fields.h"

namespace adaptdl::cli {
namespace {

constexpr double kKeep = 0.9;  // weight of the old value of a smoothed number, per step

std::optional<double> number(const Json& event, const char* key) {
  const auto found = event.find(key);
  if (found == event.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::optional<int64_t> integer(const Json& event, const char* key) {
  const auto found = event.find(key);
  if (found == event.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

template <typename T>
void take(T& target, const std::optional<T>& value) {
  if (value) target = *value;
}

template <typename T>
void take(std::optional<T>& target, const std::optional<T>& value) {
  if (value) target = value;
}

void smooth(std::optional<double>& target, const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return;
  target = target ? kKeep * *target + (1.0 - kKeep) * *value : *value;
}

BatchShape batch_shape(const Json& event) {
  BatchShape shape;
  take(shape.replicas, integer(event, "replicas"));
  take(shape.atomic, integer(event, "atomic"));
  shape.passes = integer(event, "accumulation").value_or(0) + 1;
  take(shape.batch, integer(event, "batch"));
  return shape;
}

std::vector<std::pair<std::string, double>> metrics(const Json& event, const char* key) {
  std::vector<std::pair<std::string, double>> result;
  const auto found = event.find(key);
  if (found == event.end() || !found->is_object()) return result;
  for (const auto& [name, value] : found->items()) {
    if (value.is_number()) result.emplace_back(name, value.template get<double>());
  }
  return result;
}

std::string describe_metrics(const std::vector<std::pair<std::string, double>>& metrics) {
  std::string line;
  for (const auto& [name, value] : metrics) {
    if (!line.empty()) line += ", ";
    line += fmt::format("{} {:.4g}", name, value);
  }
  return line;
}

// "loss 0.123 at step 400, PATH".
std::string describe_best(const Json& event) {
  const auto best = event.find("best");
  if (best == event.end() || !best->is_object()) return "";
  std::string line =
      fmt::format("{} {:.4g} at step {}", text_at(*best, "metric"),
                  number(*best, "value").value_or(0.0), integer(*best, "step").value_or(0));
  const std::string model = text_at(*best, "model");
  return line + ", " + (model.empty() ? "not saved" : model);
}

std::string stamp(const Json& event) {
  return fmt::format("{:8.1f} s  ", number(event, "time_s").value_or(0.0));
}

std::string because(const Json& event) {
  const std::string cause = text_at(event, "cause");
  return cause.empty() ? "" : ": " + cause;
}

// The causes of a generation are words for programs; later versions may add more.
std::string because_of_generation(const Json& event) {
  static const std::pair<const char*, const char*> sentences[] = {
      {"restart", "all replicas had died"},
      {"scale", "requested by adaptdl scale"},
      {"replicas-at", "requested by --replicas-at"},
      {"death", "a replica died"},
      {"links", "links between replicas broke"},
      {"leave", "a replica was told to leave"},
      {"hosts", "hosts came or went"},
      {"replacement", "replaced a lost replica"}};
  const std::string cause = text_at(event, "cause");
  for (const auto& [word, sentence] : sentences) {
    if (cause == word) return std::string(": ") + sentence;
  }
  return because(event);
}

// "starting from PATH: 4 tensors; unchanged: head.weight, head.bias".
std::string warm_start_line(const Json& event) {
  const int64_t tensors = integer(event, "tensors").value_or(0);
  std::string line = fmt::format("starting from {}: {} tensor{}", text_at(event, "path"), tensors,
                                 tensors == 1 ? "" : "s");
  const auto list = [&](const char* key, const char* title) {
    const auto found = event.find(key);
    if (found == event.end() || !found->is_array() || found->empty()) return;
    constexpr size_t kMost = 4;
    std::vector<std::string> names;
    for (const Json& name : *found) {
      if (name.is_string() && names.size() < kMost) names.push_back(name.get<std::string>());
    }
    line += fmt::format("; {}: {}{}", title, fmt::join(names, ", "),
                        found->size() > kMost ? fmt::format(", ... ({})", found->size()) : "");
  };
  list("kept", "not in the file");
  list("skipped", "not used");
  return line;
}

std::string rescale_line(const Json& event) {
  std::string line = fmt::format("replicas {} -> {}{}", integer(event, "from").value_or(0),
                                 integer(event, "to").value_or(0), because_of_generation(event));
  if (const auto pause = number(event, "pause_s")) line += fmt::format("; paused {:.3f} s", *pause);
  return line;
}

std::string batch_line(const RunState& before, const Json& event) {
  const BatchShape now = batch_shape(event);
  const BatchShape& old = before.batch;
  const std::optional<double> rate = number(event, "lr");
  if (old.batch == now.batch && old.replicas == now.replicas && old.atomic == now.atomic &&
      old.passes == now.passes) {
    return "";
  }
  std::string line = "batch ";
  if (old.batch > 0 && old.batch != now.batch) line += fmt::format("{} -> ", old.batch);
  line += fmt::format("{} ({} x {} x {})", now.batch, now.replicas, now.atomic, now.passes);
  if (rate) {
    line += ", learning rate ";
    if (old.batch > 0 && before.learning_rate && *before.learning_rate != *rate) {
      line += fmt::format("{:.3g} -> ", *before.learning_rate);
    }
    line += fmt::format("{:.3g}", *rate);
  }
  return line + because(event);
}

std::string diverged_line(const Json& event) {
  std::vector<std::string> members, tensors;
  const auto list = [&](const char* key) {
    const auto found = event.find(key);
    return found != event.end() && found->is_array() ? *found : Json::array();
  };
  for (const Json& member : list("members")) members.push_back(member.dump());
  for (const Json& tensor : list("tensors")) {
    if (tensor.is_string()) tensors.push_back(tensor.get<std::string>());
  }
  return fmt::format(
      "before step {}, replica {} no longer had the same state as the others{}; it got theirs (a "
      "memory error, or unlike processors)",
      integer(event, "step").value_or(0), fmt::join(members, ", "),
      tensors.empty() ? "" : " (found near " + tensors.front() + ")");
}

std::string failure_line(const Json& event) {
  std::string line = "failure";
  if (const auto member = integer(event, "member")) line = fmt::format("replica {}", *member);
  line += ": " + text_at(event, "reason");
  const std::string next = text_at(event, "next");
  if (!next.empty()) line += "; " + next;
  return line;
}

// "replica 2 on node7".
std::string straggler_name(const Json& event) {
  const std::string host = text_at(event, "host");
  return fmt::format("replica {}{}", integer(event, "member").value_or(0),
                     host.empty() ? "" : " on " + host);
}

std::string straggler_line(const Json& event) {
  const std::string state = text_at(event, "state"), replica = straggler_name(event);
  if (state == "slow" || state == "changed") return slow_replica_line(event);
  if (state == "over") return replica + " is as fast as the others again";
  if (state == "gone") return replica + ", which was slow, has left";
  if (state == "replacing") return replica + " is replaced, because it is slow";
  if (state == "kept") {
    return fmt::format("{} is not replaced, although it is slow: {}", replica,
                       text_at(event, "reason"));
  }
  if (state != "replaced") return "";
  return fmt::format("replica {} took the place of {}, which was slow: {} -> {} samples/s",
                     integer(event, "by").value_or(0), replica,
                     short_number(number(event, "samples_per_s_before").value_or(0.0)),
                     short_number(number(event, "samples_per_s").value_or(0.0)));
}

// "the network of node7", "the network between node3 and node7".
std::string link_name(const Json& event) {
  const auto end = [&](const char* host, const char* member) {
    const std::string name = text_at(event, host);
    if (!name.empty()) return name;
    return fmt::format("the host of replica {}", integer(event, member).value_or(0));
  };
  const std::string host = end("host", "member");
  if (!integer(event, "peer")) return "the network of " + host;
  return fmt::format("the network between {} and {}", host, end("peer_host", "peer"));
}

std::string link_line(const Json& event) {
  const std::string state = text_at(event, "state");
  if (state == "slow" || state == "changed") return slow_link_line(event);
  if (state == "over") return link_name(event) + " is as fast as the others again";
  if (state == "gone") return link_name(event) + ", which was slow, is not used any more";
  return "";
}

std::string start_line(const Json& event) {
  const bool evaluate = event.value("evaluate", Json()) == true;
  std::string line =
      fmt::format("{} {}", evaluate ? "evaluating" : "training", text_at(event, "program"));
  if (const auto replicas = integer(event, "replicas")) {
    line += fmt::format(" with {} replica{}", *replicas, *replicas == 1 ? "" : "s");
    const auto least = integer(event, "min"), most = integer(event, "max");
    if (least && most && *least != *most) line += fmt::format(" ({} to {})", *least, *most);
  }
  return line;
}

std::string bar(double fraction, int width, const Look& look) {
  const int full = static_cast<int>(std::lround(std::clamp(fraction, 0.0, 1.0) * width));
  std::string line = look.color ? "\x1b[36m" : "";
  for (int i = 0; i < width; ++i) {
    if (i == full && look.color) line += "\x1b[2m";
    if (look.utf8) {
      line += i < full ? "\u2501" : "\u2500";
    } else {
      line += i < full ? '=' : '-';
    }
  }
  return look.color ? line + "\x1b[0m" : line;
}

// The fields that fit into `room` columns, separated by two blanks.
std::string fit(const std::vector<std::string>& fields, size_t room) {
  std::string line;
  for (const std::string& field : fields) {
    const size_t more = field.size() + (line.empty() ? 0 : 2);
    if (line.size() + more > room) continue;
    if (!line.empty()) line += "  ";
    line += field;
  }
  return line;
}

// The finished fraction of the training; 0 if its end is unknown.
double done(const RunState& state) {
  return state.progress_total > 0.0 ? std::min(1.0, state.progress / state.progress_total) : 0.0;
}

std::string percent(double fraction) {
  return fmt::format("{:.0f} %", std::floor(fraction * 100.0));
}

// "epoch 3/20": the present one, and their total number.
std::string describe_epoch(const RunState& state, double fraction) {
  const double under_way = std::floor(state.epoch) + 1.0;
  if (fraction <= 0.0 || state.epoch <= 0.0) return fmt::format("epoch {:.0f}", under_way);
  const double total = std::ceil(state.epoch / fraction - 1e-6);
  return fmt::format("epoch {:.0f}/{:.0f}", std::min(under_way, total), total);
}

}  // namespace

std::optional<double> RunState::seconds_left() const {
  if (progress_total <= 0.0 || ended) return std::nullopt;
  return rate_.seconds_to(progress_total);
}

void RunState::apply(const Json& event) {
  if (!event.is_object()) return;
  const std::string kind = text_at(event, "event");
  take(time_s, number(event, "time_s"));
  if (kind == "start") {
    name = text_at(event, "name");
    program = text_at(event, "program");
    log_dir = text_at(event, "log_dir");
    evaluating = event.value("evaluate", Json()) == true;
    take(replicas, integer(event, "replicas"));
  } else if (kind == "resume") {
    take(step, integer(event, "step"));
  } else if (kind == "generation") {
    take(replicas, integer(event, "replicas"));
  } else if (kind == "batch") {
    batch = batch_shape(event);
    take(learning_rate, number(event, "lr"));
  } else if (kind == "step") {
    take(step, integer(event, "step"));
    take(epoch, number(event, "epoch"));
    take(progress, number(event, "progress"));
    take(progress_total, number(event, "progress_total"));
    take(replicas, integer(event, "replicas"));
    take(learning_rate, number(event, "lr"));
    // A batch event reports every change; the last step of a pass may be smaller.
    if (batch.atomic == 0) batch = batch_shape(event);
    smooth(loss, number(event, "loss"));
    smooth(samples_per_s, number(event, "samples_per_s"));
    smooth(goodput, number(event, "goodput"));
    rate_.add(time_s, progress);
    training = true;
  } else if (kind == "epoch") {
    take(epoch_loss, number(event, "loss"));
  } else if (kind == "validation") {
    validation = metrics(event, "metrics");
  } else if (kind == "rescale") {
    take(replicas, integer(event, "to"));
    ++pauses;
    paused_s += number(event, "pause_s").value_or(0.0);
  } else if (kind == "end") {
    ended = true;
    if (name.empty()) name = text_at(event, "name");
    result = text_at(event, "result");
    reason = text_at(event, "reason");
    best = describe_best(event);
    already = event.value("already", Json()) == true;
    model = text_at(event, "model");
    if (log_dir.empty()) log_dir = text_at(event, "log_dir");  // of a run that had ended
    take(steps, integer(event, "steps"));
    take(seconds, number(event, "seconds"));
    take(rescales, integer(event, "rescales"));
    take(lost_s, number(event, "lost_s"));
    auto newest = metrics(event, "validation");
    if (!newest.empty()) validation = std::move(newest);
  }
}

std::string slow_replica_line(const Json& straggler) {
  const auto ms = [&](const char* key) {
    return fmt::format("{:.3g} ms", 1e3 * number(straggler, key).value_or(0.0));
  };
  return fmt::format(
      "{} is slow: {} for a sample, {:.1f} times the median of the others ({}), which wait for it "
      "{:.0f} % of the time",
      straggler_name(straggler), ms("sample_s"), number(straggler, "factor").value_or(0.0),
      ms("others_sample_s"), 100 * number(straggler, "waited").value_or(0.0));
}

std::string slow_link_line(const Json& link) {
  const auto rate = [&](const char* key) { return network_rate(number(link, key).value_or(0.0)); };
  return fmt::format(
      "{} is slow: {}, where the others have {} ({:.1f} times as much) and wait {:.0f} % of the "
      "time",
      link_name(link), rate("bytes_per_s"), rate("others_bytes_per_s"),
      number(link, "factor").value_or(0.0), 100 * number(link, "waited").value_or(0.0));
}

std::string describe(const BatchShape& batch) {
  return fmt::format("{} x {} x {} = {}", batch.replicas, batch.atomic, batch.passes, batch.batch);
}

std::string event_line(const RunState& before, const Json& event, bool moving, bool verbose) {
  const std::string kind = text_at(event, "event");
  std::string line;
  if (kind == "start") {
    line = start_line(event);
  } else if (kind == "resume") {
    line = fmt::format("continuing from step {}", integer(event, "step").value_or(0));
    const auto problems = event.find("problems");
    if (problems != event.end() && problems->is_array()) {
      for (const Json& problem : *problems) {
        if (problem.is_string()) line += "; " + problem.get<std::string>();
      }
    }
  } else if (kind == "warm_start") {
    line = warm_start_line(event);
  } else if (kind == "rescale") {
    line = rescale_line(event);
  } else if (kind == "batch") {
    line = batch_line(before, event);
  } else if (kind == "failure") {
    line = failure_line(event);
  } else if (kind == "straggler") {
    line = straggler_line(event);
  } else if (kind == "slow_link") {
    line = link_line(event);
  } else if (kind == "skipped") {
    line = fmt::format("step {} skipped: {}", integer(event, "step").value_or(0),
                       text_at(event, "reason"));
  } else if (kind == "diverged") {
    line = diverged_line(event);
  } else if (kind == "validation" && !text_at(event, "error").empty()) {
    line = fmt::format("the best model, of step {}, is not saved: {}",
                       integer(event, "step").value_or(0), text_at(event, "error"));
  } else if (kind == "checkpoint" && !text_at(event, "error").empty()) {
    line = "checkpoint failed: " + text_at(event, "error");
  } else if (verbose && kind == "checkpoint") {
    line = fmt::format("checkpoint of step {}: {} in {}", integer(event, "step").value_or(0),
                       format_bytes(static_cast<uint64_t>(number(event, "bytes").value_or(0.0))),
                       format_duration(number(event, "seconds").value_or(0.0)));
  } else if (verbose && kind == "generation") {
    const int64_t replicas = integer(event, "replicas").value_or(0);
    line = fmt::format("generation {}: {} replica{}{}", integer(event, "generation").value_or(0),
                       replicas, replicas == 1 ? "" : "s", because_of_generation(event));
  } else if (!moving && kind == "end" && !event.contains("already")) {
    line = text_at(event, "result");
    if (line == "finished" && !text_at(event, "reason").empty()) {
      line += "; " + text_at(event, "reason");
    }
  }
  return line.empty() ? "" : stamp(event) + line;
}

std::string ProgressLines::event(const RunState& now, const Json& event) {
  constexpr double kEvery = 10.0, kShare = 0.01;
  const std::string kind = text_at(event, "event");
  if (!now.training || (kind != "step" && kind != "epoch" && kind != "validation")) return "";
  if (now.time_s < due_s_) return "";
  due_s_ = now.time_s + std::max(kEvery, kShare * now.time_s);
  const double fraction = done(now);
  std::vector<std::string> parts = {describe_epoch(now, fraction)};
  if (now.progress_total > 0.0) parts.push_back(percent(fraction));
  if (now.loss) parts.push_back(fmt::format("loss {:.4g}", *now.loss));
  if (!now.validation.empty())
    parts.push_back("validation (" + describe_metrics(now.validation) + ")");
  if (now.samples_per_s) parts.push_back(short_number(*now.samples_per_s) + " samples/s");
  if (now.goodput) parts.push_back(fmt::format("goodput {}/s", short_number(*now.goodput)));
  if (const auto left = now.seconds_left()) parts.push_back(format_duration(*left) + " left");
  return stamp(event) + fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<std::string> display_lines(const RunState& state, const Look& look) {
  // Leave one column free: on some terminals a full line moves the cursor to the next line.
  const size_t room = static_cast<size_t>(std::max(look.width - 1, 0));
  if (!state.training) {
    const std::string first =
        fmt::format("{} {} replica{} ...", state.evaluating ? "evaluating with" : "starting",
                    state.replicas, state.replicas == 1 ? "" : "s");
    return {first.substr(0, room), ""};
  }
  const double fraction = done(state);
  const std::string epoch = describe_epoch(state, fraction);
  const bool knows_end = state.progress_total > 0.0;
  std::vector<std::string> after;
  if (knows_end) after.push_back(fmt::format("{:>5}", percent(fraction)));
  if (state.loss) after.push_back(fmt::format("loss {:.4g}", *state.loss));
  if (const auto left = state.seconds_left()) after.push_back(format_duration(*left) + " left");
  std::vector<std::string> first = {epoch};
  first.insert(first.end(), after.begin(), after.end());
  std::string line = fit(first, room);
  const size_t free = room - line.size();
  constexpr size_t kLeast = 10, kMost = 40;
  if (knows_end && free >= kLeast) {
    const int width = static_cast<int>(std::min(free - 2, kMost));
    line = epoch + "  " + bar(fraction, width, look) + "  " +
           fit(after, room - epoch.size() - static_cast<size_t>(width) - 4);
  }

  std::vector<std::string> second;
  if (state.samples_per_s) second.push_back(short_number(*state.samples_per_s) + " samples/s");
  if (state.goodput) second.push_back(fmt::format("goodput {}/s", short_number(*state.goodput)));
  if (state.batch.atomic > 0) {
    second.push_back(fmt::format("batch {}x{}x{}={}", state.batch.replicas, state.batch.atomic,
                                 state.batch.passes, state.batch.batch));
  } else if (state.batch.batch > 0) {
    second.push_back(fmt::format("batch {}", state.batch.batch));
  }
  if (state.learning_rate) second.push_back(fmt::format("lr {:.3g}", *state.learning_rate));
  for (const auto& [name, value] : state.validation) {
    second.push_back(fmt::format("{} {:.4g}", name, value));
  }
  return {line, fit(second, room)};
}

std::string summary(const RunState& state) {
  std::string text =
      fmt::format("{}: {}{}", state.name.empty() ? "run" : state.name, state.already ? "had " : "",
                  state.result.empty() ? "ended" : state.result);
  if (state.steps) {
    text += fmt::format(", {} steps in {}", *state.steps,
                        format_duration(state.seconds.value_or(state.time_s)));
  }
  text += '\n';
  const auto row = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) text += fmt::format("  {:<12}{}\n", name, value);
  };
  // The loss of a whole pass is more accurate than that of the last few steps.
  const std::optional<double> loss = state.epoch_loss ? state.epoch_loss : state.loss;
  if (loss) row("loss", fmt::format("{:.4g}", *loss));
  row("validation", describe_metrics(state.validation));
  row("model", state.model);
  row("best", state.best);
  if (state.result == "finished") row("ended by", state.reason);
  row("logs", state.log_dir);
  if (!state.charts_dir.empty()) {
    row("curves", state.charts_dir);
    row("", fmt::format("show them with: tensorboard --logdir {}", shell_word(state.charts_dir)));
  }
  const int64_t rescales = state.rescales.value_or(state.pauses);
  if (state.training) {
    row("rescales", rescales == 0 ? "none"
                                  : fmt::format("{}, which cost {:.3f} s of training", rescales,
                                                state.lost_s.value_or(state.paused_s)));
  }
  return text;
}

std::string evaluation(const RunState& state) {
  std::string text =
      fmt::format("{}: evaluated {}", state.name.empty() ? "run" : state.name, state.model);
  if (state.steps.value_or(0) > 0) text += fmt::format(", step {}", *state.steps);
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : state.validation) {
    rows.push_back({name, fmt::format("{:.6g}", value)});
  }
  return text + "\n" + table({"METRIC", "VALUE"}, rows);
}

}  // namespace adaptdl::cli
