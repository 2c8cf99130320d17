// The table of all keys of the short form.

#include "core/job/job_fields.h"

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/job/quantity.h"
#include "core/job/worker_environment.h"

namespace adaptdl {
namespace {

using Kind = JobSpec::Kind;

constexpr size_t kMaxItems = 10'000;

void set_program(const YamlNode& value, JobFile& job, Kind kind, std::string program) {
  if (!job.spec.program.empty()) {
    value.refuse(fmt::format("{} already says what to run; give one of archive, program, command",
                             job.program_place));
  }
  if (program.empty()) value.refuse("is empty; say what to run");
  job.spec.kind = kind;
  job.spec.program = std::move(program);
  job.program_place = value.place();
}

void read_command(const YamlNode& value, JobFile& job) {
  std::vector<std::string>& arguments = job.spec.arguments;
  if (!value.is_list()) {
    const std::string line = read_job_text(value);
    if (line.empty()) value.refuse("is empty; say what to run");
    set_program(value, job, Kind::command, "/bin/sh");
    // "sh" becomes $0, so further arguments are $1, $2, ...
    arguments = {"-c", line, "sh"};
  } else {
    const auto items = value.list(1, kMaxItems);
    set_program(value, job, Kind::command, read_job_text(items[0]));
    for (size_t i = 1; i < items.size(); ++i) arguments.push_back(read_job_text(items[i]));
  }
  job.command_arguments = arguments.size();
}

void read_texts(const YamlNode& value, std::vector<std::string>& texts) {
  for (const YamlNode& item : value.list(0, kMaxItems)) texts.push_back(read_job_text(item));
}

void read_one_or_more(const YamlNode& value, std::vector<std::string>& texts) {
  if (value.is_list()) {
    read_texts(value, texts);
  } else {
    texts.push_back(read_job_text(value));
  }
}

void read_data(const YamlNode& value, JobFile& job) {
  read_one_or_more(value, job.spec.data);
  for (const std::string& path : job.spec.data) {
    if (path.empty()) value.refuse("a path is empty");
  }
}

void read_environment(const YamlNode& value, JobFile& job) {
  YamlMapping map(value, true);
  for (const std::string& name : map.keys()) {
    const YamlNode entry = map.find(name);
    if (name.empty() || name.find('=') != std::string::npos ||
        name.find('\0') != std::string::npos) {
      entry.refuse("is not a valid variable name; it must not be empty or contain '='");
    }
    job.spec.environment[name] = read_job_text(entry);
  }
}

// Nested maps are dotted keys: {optimizer: {lr: 0.1}} is optimizer.lr.
void read_job_settings(const YamlNode& value, const std::string& prefix, JobFile& job) {
  YamlMapping map(value, true);
  for (const std::string& key : map.keys()) {
    const YamlNode entry = map.find(key);
    const std::string whole = prefix + key;
    if (key.empty() || key.find('=') != std::string::npos || key.find('\0') != std::string::npos) {
      entry.refuse("is not a valid setting key; it must not be empty or contain '='");
    }
    if (entry.is_mapping()) {
      read_job_settings(entry, whole + ".", job);
    } else if (entry.is_list()) {
      entry.refuse("is a list; put it in quotes, for example \"[1, 8, 8]\"");
    } else {
      job.spec.settings.push_back(whole + "=" + read_job_text(entry));
    }
  }
}

void read_directory(const YamlNode& value, JobFile& job) {
  const std::string text = read_job_text(value);
  // Compares text only; symlinks are checked when the project is copied.
  const std::string inside = absolute_path(text, "/p");
  if (text.starts_with('/') || (inside != "/p" && !inside.starts_with("/p/"))) {
    value.refuse(fmt::format("{} is not in the project; give a folder of the project", text));
  }
  job.spec.directory = inside == "/p" ? "" : inside.substr(3);
}

void read_tensorboard(const YamlNode& value, JobFile& job) {
  job.spec.tensorboard = read_job_text(value);
  if (!valid_job_name(job.spec.tensorboard)) {
    value.refuse(
        fmt::format("{} is not a valid TensorBoard instance name; the rules are those of job names",
                    job.spec.tensorboard));
  }
}

int64_t above_zero(const YamlNode& value, int64_t number) {
  if (number < 1) value.refuse("must be above 0");
  return number;
}

JobSection top() {
  return {
      "",
      "One of archive, program and command is required. Paths are relative to the project's folder "
      "unless they begin with a slash.",
      {
          {"name", "a name", "the project's name",
           "Prefix of the job's name; 5 more characters make it unique.",
           [](const YamlNode& value, JobFile& job) {
             std::string name;
             read_job_name(value, name);
             job.spec.name_prefix = name.ends_with('-') ? name : name + "-";
             if (!valid_job_name_prefix(job.spec.name_prefix)) {
               value.refuse(fmt::format("{} is too long; at most {} characters are allowed", name,
                                        kMaxJobName - kJobNameSuffix - 1));
             }
           }},
          {"archive", "a path", "none", "Training archive to train, as adaptdl-train(5) describes.",
           [](const YamlNode& value, JobFile& job) {
             set_program(value, job, Kind::archive, read_job_text(value));
           }},
          {"program", "a path", "none",
           "Executable that uses the runtime library; like an archive, it is rescaled while it "
           "runs.",
           [](const YamlNode& value, JobFile& job) {
             set_program(value, job, Kind::executable, read_job_text(value));
           }},
          {"command", "a list of texts, or one text", "none",
           "Any other command, for instance a Python script that uses AdaptDL. A list is the "
           "program and its arguments, passed unchanged; a text is run by sh -c.",
           read_command},
          {"args", "a list of texts", "none",
           "Arguments after those of the command; arguments on the command line replace them. For "
           "a command that is one text they are $1, $2 and so on.",
           [](const YamlNode& value, JobFile& job) { read_texts(value, job.spec.arguments); }},
          {"directory", "a path", "the project's folder",
           "Working directory, a folder of the project. Relative paths of archive, program and "
           "command are relative to it.",
           read_directory},
          {"replicas", "N, MIN:MAX or \"MIN:\"",
           "\"1:\"; of a command, which may not support several replicas: 1",
           "Number of replicas: always N, or the number within the bounds that the scheduler finds "
           "best.",
           [](const YamlNode& value, JobFile& job) {
             set_replicas(job.spec,
                          parse_replica_range(read_job_text(value), value.place(), {.open = true}));
           }},
          {"requested_replicas", "an integer of at least 1", "N of replicas",
           "Number of replicas under a policy that does not adapt.",
           [](const YamlNode& value, JobFile& job) {
             job.spec.requested_replicas = static_cast<int>(value.integer(1, kMostReplicas));
           }},
          {"preemptible", "true or false", "true",
           "When false, the job keeps its first allocation until it ends.",
           [](const YamlNode& value, JobFile& job) { job.spec.preemptible = value.boolean(); }},
          {"restartable", "true or false", "as its ends tell",
           "Of a command that does not report its speed: true says that each replica saves a "
           "checkpoint and exits with 143 on SIGTERM, so that the scheduler may restart it with "
           "another number of replicas; false that it must not. Otherwise the job is taken for "
           "restartable once its replicas have done so.",
           [](const YamlNode& value, JobFile& job) { job.spec.restartable = value.boolean(); }},
          {"env", "a map of names to texts", "none",
           "Environment variables of every replica. On this machine's GPUs, CUDA_VISIBLE_DEVICES "
           "and CUDA_DEVICE_ORDER have no effect: the service chooses the GPUs.",
           read_environment},
          {"load_pickles", "true or false", "false",
           "When true, torch.load of PyTorch 2.6 and newer reads pickles, which can run any code: "
           "the environment has TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1, unless env says otherwise. "
           "Python AdaptDL's own checkpoints do not need this; see adaptdl-run(1).",
           [](const YamlNode& value, JobFile& job) {
             if (value.boolean()) job.spec.environment.emplace(kLoadPicklesVariable, "1");
           }},
          {"set", "a map of keys to values", "none",
           "Settings that override those of the archive's adaptdl.yaml, as dotted keys or nested "
           "maps.",
           [](const YamlNode& value, JobFile& job) { read_job_settings(value, "", job); }},
          {"data", "a path or a list of paths", "none",
           "Large files and folders that are not copied with the project; the copy has a symlink "
           "to each. One outside of the project is linked under the last part of its path. Not "
           "allowed for jobs on Kubernetes.",
           read_data},
          {"tensorboard", "a name", "none",
           "TensorBoard instance that shows the job's curves; see adaptdl-tensorboard(1).",
           read_tensorboard},
          {"retries", "an integer from 0 to 1000000", "3",
           "Number of failures in a row, without progress in between, after which the job fails.",
           [](const YamlNode& value, JobFile& job) {
             job.spec.retries = static_cast<int>(value.integer(0, kMostRetries));
           }},
          {"grace_s", "a number from 0, in seconds", "30",
           "Time from SIGTERM to SIGKILL, in which a checkpoint can be written.",
           [](const YamlNode& value, JobFile& job) {
             job.spec.grace_s = value.number(between(0, kMostGrace));
           }},
      }};
}

JobSection resources() {
  return {
      "resources",
      "Resources of one replica. Quantities are written as for Kubernetes: 500m is 0.5, G is "
      "1000^3, Gi is 1024^3.",
      {
          {"cpu", "a quantity above 0", "what the cluster chooses", "Processor cores.",
           [](const YamlNode& value, JobFile& job) {
             job.spec.request.cpu_millicores =
                 above_zero(value, parse_quantity_milli(value.text(), value.place()));
           }},
          {"memory", "a quantity above 0", "what the cluster chooses", "Memory, in bytes.",
           [](const YamlNode& value, JobFile& job) {
             job.spec.request.memory_bytes =
                 above_zero(value, parse_quantity(value.text(), value.place()));
           }},
          {"gpu", "an integer from 0 to 1024", "what the cluster chooses",
           "GPUs of a replica: of an archive or a program of the runtime library at most 1.",
           [](const YamlNode& value, JobFile& job) {
             job.spec.request.gpus = value.integer(0, 1024);
           }},
          {"accelerators", "a name or a list of names", "any",
           "Kinds of GPUs or slots on which the job may run; *, ? and [...] (in quotes) are as in "
           "a shell, and case does not matter. adaptdl-submit(1) tells where kinds are "
           "listed.",
           [](const YamlNode& value, JobFile& job) {
             read_one_or_more(value, job.spec.request.accelerators);
             const std::string problem = accelerators_problem(job.spec.request.accelerators);
             if (!problem.empty()) value.refuse(problem);
           }},
      }};
}

JobSection checkpoint() {
  return {"checkpoint",
          "The job's checkpoints.",
          {
              {"size", "a quantity above 0", "no limit",
               "Largest total size of the job's checkpoints in bytes, written as for resources. On "
               "Kubernetes, the size of its volume.",
               [](const YamlNode& value, JobFile& job) {
                 job.spec.checkpoint_size =
                     above_zero(value, parse_quantity(value.text(), value.place()));
               }},
          }};
}

// Escapes text for roff.
std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '-') {
      result += "\\-";
    } else if (c == '\'') {
      result += "\\(aq";
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace

const std::vector<JobSection>& job_fields() {
  static const std::vector<JobSection> sections = {top(), resources(), checkpoint()};
  return sections;
}

std::string document_job_fields() {
  std::string out;
  for (const JobSection& section : job_fields()) {
    out += fmt::format(".SS \"{}\"\n{}\n", section.name.empty() ? "Top level" : section.name,
                       roff(section.intro));
    for (const JobField& field : section.fields) {
      std::string allowed(field.allowed);
      if (allowed[0] >= 'a') allowed[0] = static_cast<char>(allowed[0] - 'a' + 'A');
      out += fmt::format(".TP\n.B {}\n{}\n{}. Default: {}.\n", roff(field.key), roff(field.doc),
                         roff(allowed), roff(field.fallback));
    }
  }
  return out;
}

void read_job_name(const YamlNode& value, std::string& name) {
  name = value.text();
  std::string_view body = name;
  while (body.ends_with('-')) body.remove_suffix(1);  // of a prefix
  if (!valid_job_name(body)) {
    value.refuse(fmt::format(
        "{} is not a valid job name; it needs 1 to {} lower-case letters, digits, '-' and '.', "
        "with a letter or digit at the start, at the end and on both sides of each '.'",
        name, kMaxJobName));
  }
}

std::string read_job_text(const YamlNode& value) {
  std::string text = value.text();
  if (text.find('\0') != std::string::npos) {
    value.refuse("contains a zero byte, which cannot be passed to a program");
  }
  return text;
}

}  // namespace adaptdl
