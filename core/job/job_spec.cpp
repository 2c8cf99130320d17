#include "core/job/job_spec.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/formats/json_or_null.h"

namespace adaptdl {
namespace {

using Kind = JobSpec::Kind;

constexpr std::array<std::pair<Kind, std::string_view>, 3> kKinds = {
    {{Kind::archive, "archive"}, {Kind::executable, "executable"}, {Kind::command, "command"}}};

bool lower_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// A system call's text ends at its first NUL.
bool has_nul(const std::string& text) {
  return text.find('\0') != std::string::npos;
}

}  // namespace

bool valid_job_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxJobName) return false;
  char before = '.';  // the ends of the name follow the rule for dots
  for (const char c : std::string(name) + '.') {
    if (!lower_or_digit(c) && c != '-' && c != '.') return false;
    if ((before == '.' || c == '.') && !lower_or_digit(before == '.' ? c : before)) return false;
    before = c;
  }
  return true;
}

bool valid_job_name_prefix(std::string_view prefix) {
  return !prefix.empty() && valid_job_name(std::string(prefix) + std::string(kJobNameSuffix, 'x'));
}

std::string job_name_prefix(std::string_view text) {
  std::string name;
  for (const char c : text) {
    if (name.size() + kJobNameSuffix + 1 >= kMaxJobName) break;
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    if (lower_or_digit(lower)) {
      name += lower;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  if (name.empty()) name = "job";
  return name.back() == '-' ? name : name + "-";
}

std::string_view job_kind_name(Kind kind) {
  for (const auto& [value, name] : kKinds) {
    if (value == kind) return name;
  }
  ADAPTDL_CHECK(!"job of unknown kind");
  return "";
}

Json to_json(const JobSpec& spec) {
  return {{"format", 1},
          {"name", or_null(spec.name)},
          {"name_prefix", or_null(spec.name_prefix)},
          {"kind", job_kind_name(spec.kind)},
          {"program", spec.program},
          {"arguments", spec.arguments},
          {"directory", or_null(spec.directory)},
          {"settings", spec.settings},
          {"environment", spec.environment},
          {"min_replicas", spec.min_replicas},
          {"max_replicas", or_null(spec.max_replicas)},
          {"requested_replicas", or_null(spec.requested_replicas)},
          {"preemptible", spec.preemptible},
          {"restartable", or_null(spec.restartable)},
          {"resources",
           {{"cpu_millicores", or_null(spec.request.cpu_millicores)},
            {"memory_bytes", or_null(spec.request.memory_bytes)},
            {"gpus", or_null(spec.request.gpus)},
            {"accelerators", or_null(spec.request.accelerators)}}},
          {"data", spec.data},
          {"checkpoint_size", or_null(spec.checkpoint_size)},
          {"tensorboard", or_null(spec.tensorboard)},
          {"retries", spec.retries},
          {"grace_s", spec.grace_s}};
}

JobSpec job_spec_from_json(const Json& object, std::string_view where) {
  const auto format = json_get_or<int64_t>(object, "format", where, 1);
  if (format != 1) {
    fail("{}: the job has format {}, but this adaptdl reads format 1; get a newer adaptdl", where,
         format);
  }
  JobSpec spec;
  spec.name = json_get_or<std::string>(object, "name", where, "");
  spec.name_prefix = json_get_or<std::string>(object, "name_prefix", where, "");
  const auto kind = json_get<std::string>(object, "kind", where);
  const auto known =
      std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& k) { return k.second == kind; });
  if (known == kKinds.end()) {
    fail("{}: kind: is {}; it must be one of archive, executable, command", where, kind);
  }
  spec.kind = known->first;
  spec.program = json_get<std::string>(object, "program", where);
  spec.arguments = json_get_or(object, "arguments", where, spec.arguments);
  spec.directory = json_get_or<std::string>(object, "directory", where, "");
  spec.settings = json_get_or(object, "settings", where, spec.settings);
  const Json environment = json_get_or<Json>(object, "environment", where, Json::object());
  if (!environment.is_object()) fail("{}: environment: must be an object with text values", where);
  for (const auto& [name, value] : environment.items()) {
    if (!value.is_string()) fail("{}: environment.{}: must be text", where, name);
    spec.environment[name] = value.get<std::string>();
  }
  spec.min_replicas = json_get_or(object, "min_replicas", where, spec.min_replicas);
  spec.max_replicas = json_find<int>(object, "max_replicas", where);
  spec.requested_replicas = json_find<int>(object, "requested_replicas", where);
  spec.preemptible = json_get_or(object, "preemptible", where, spec.preemptible);
  spec.restartable = json_find<bool>(object, "restartable", where);
  const Json resources = json_get_or<Json>(object, "resources", where, Json::object());
  spec.request.cpu_millicores = json_find<int64_t>(resources, "cpu_millicores", where);
  spec.request.memory_bytes = json_find<int64_t>(resources, "memory_bytes", where);
  spec.request.gpus = json_find<int64_t>(resources, "gpus", where);
  spec.request.accelerators =
      json_get_or(resources, "accelerators", where, spec.request.accelerators);
  spec.data = json_get_or(object, "data", where, spec.data);
  spec.checkpoint_size = json_find<int64_t>(object, "checkpoint_size", where);
  spec.tensorboard = json_get_or<std::string>(object, "tensorboard", where, "");
  spec.retries = json_get_or(object, "retries", where, spec.retries);
  spec.grace_s = json_get_or(object, "grace_s", where, spec.grace_s);
  check_job_spec(spec, where);
  return spec;
}

void set_replicas(JobSpec& spec, const ReplicaRange& range) {
  spec.min_replicas = range.min;
  spec.max_replicas = range.max;
  spec.requested_replicas = range.fixed ? range.max : std::nullopt;
}

void check_job_spec(const JobSpec& spec, std::string_view where) {
  const auto require = [&](bool holds, std::string_view field, std::string_view problem) {
    if (!holds) fail("{}: {}: {}", where, field, problem);
  };
  constexpr std::string_view kNames =
      "a name needs 1 to 63 lower-case letters, digits, '-' and '.', with a letter or digit at "
      "the start, at the end and on both sides of each '.'";
  if (!spec.name.empty() && !valid_job_name(spec.name)) {
    fail("{}: name: {} is not a valid job name; {}", where, spec.name, kNames);
  }
  if (!spec.name_prefix.empty() && !valid_job_name_prefix(spec.name_prefix)) {
    fail("{}: name: {} is not a valid job name when it gets {} more characters; {}", where,
         spec.name_prefix, kJobNameSuffix, kNames);
  }
  require(spec.name.empty() || spec.name_prefix.empty(), "name",
          "a name and a name prefix are given; give one of the two");
  require(!spec.program.empty(), "program", "is empty; say what to run");
  bool nul = has_nul(spec.program) || has_nul(spec.directory) || has_nul(spec.tensorboard);
  for (const auto* list :
       {&spec.arguments, &spec.settings, &spec.data, &spec.request.accelerators}) {
    nul = nul || std::any_of(list->begin(), list->end(), has_nul);
  }
  for (const auto& [name, value] : spec.environment) {
    nul = nul || has_nul(name) || has_nul(value);
    require(!name.empty() && name.find('=') == std::string::npos, "environment",
            "a variable's name is empty or contains '='");
  }
  require(!nul, "text", "contains a zero byte, which cannot be passed to a program");
  try {
    // Other code replaces invalid UTF-8 when it writes JSON, which would change the text.
    static_cast<void>(to_json(spec).dump());
  } catch (const Json::type_error&) {
    fail("{}: some text is not UTF-8, but jobs are stored as UTF-8; use names that are UTF-8",
         where);
  }
  for (const std::string& setting : spec.settings) {
    const size_t equals = setting.find('=');
    require(equals != std::string::npos && equals > 0, "settings",
            fmt::format("{} is not KEY=VALUE", setting));
  }
  require(spec.settings.empty() || spec.kind != Kind::command, "settings",
          "a command has no settings; give it arguments");
  for (const std::string& path : spec.data) require(!path.empty(), "data", "a path is empty");
  require(spec.min_replicas >= 0, "min_replicas", "must be at least 0");
  const int max = spec.max_replicas.value_or(std::max(1, spec.min_replicas));
  require(max >= 1 && max >= spec.min_replicas, "max_replicas",
          fmt::format("is {}; it must be at least 1 and at least min_replicas, {}", max,
                      spec.min_replicas));
  if (const auto requested = spec.requested_replicas) {
    require(*requested >= std::max(1, spec.min_replicas) &&
                (!spec.max_replicas || *requested <= *spec.max_replicas),
            "requested_replicas",
            fmt::format("is {}; it must be at least 1 and from min_replicas to max_replicas",
                        *requested));
  }
  require(spec.request.cpu_millicores.value_or(1) >= 1, "resources.cpu", "must be above 0");
  require(spec.request.memory_bytes.value_or(1) >= 1, "resources.memory", "must be above 0");
  const int64_t gpus = spec.request.gpus.value_or(0);
  require(gpus >= 0 && gpus <= 1024, "resources.gpu",
          fmt::format("is {}; it must be from 0 to 1024", gpus));
  const std::string kinds = accelerators_problem(spec.request.accelerators);
  require(kinds.empty(), "resources.accelerators", kinds);
  require(spec.checkpoint_size.value_or(1) >= 1, "checkpoint.size", "must be above 0");
  require(spec.tensorboard.empty() || valid_job_name(spec.tensorboard), "tensorboard",
          "is not a valid TensorBoard instance name; the rules are those of job names");
  require(!spec.restartable.value_or(false) || spec.kind == Kind::command, "restartable",
          "is only for commands; an archive or a program of the runtime library changes its number "
          "of replicas while it runs");
  require(spec.retries >= 0, "retries", "must be at least 0");
  require(spec.grace_s >= 0 && spec.grace_s <= kMostGrace, "grace_s",
          fmt::format("must be a number from 0 to {:.0f}, in seconds", kMostGrace));
}

}  // namespace adaptdl
