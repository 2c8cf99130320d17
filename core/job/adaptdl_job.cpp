#include "core/job/adaptdl_job.h"

#include <algorithm>
#include <initializer_list>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/formats/yaml_json.h"
#include "core/job/job_fields.h"
#include "core/job/quantity.h"

namespace adaptdl {
namespace {

constexpr size_t kMaxManifestItems = 10'000;

// The node must be a list of mappings, or empty.
void check_entries(const YamlNode& list) {
  const bool empty = !list.is_scalar() && !list.is_list() && !list.is_mapping();
  if (empty) return;
  for (const YamlNode& entry : list.list()) YamlMapping{entry};
}

// Checks the shape of the parts that a client extends. The cluster validates everything else.
void check_shape(const YamlNode& pod_template) {
  YamlMapping pod(YamlMapping(pod_template, true).require("spec"), true);
  for (const YamlNode& node : pod.require("containers").list(1, kMaxManifestItems)) {
    YamlMapping container(node);
    for (const char* key : {"env", "volumeMounts"}) check_entries(container.find(key));
  }
  for (const char* key : {"imagePullSecrets", "volumes"}) check_entries(pod.find(key));
}

Json manifest_of(const YamlNode& top) {
  Json job = yaml_to_json(top);
  job.erase("status");  // what `kubectl get -o yaml` adds
  if (!job["metadata"].is_object()) job["metadata"] = Json::object();
  return job;
}

class ManifestReader {
 public:
  JobFile read(YamlMapping& top) {
    top.require("apiVersion").choice({"adaptdl.petuum.com/v1"});
    top.require("kind").choice({"AdaptDLJob"});
    read_metadata(top.find("metadata"));
    YamlMapping spec(top.require("spec"));
    read_bounds(spec);
    const YamlNode pod_template = spec.require("template");
    check_shape(pod_template);
    job_.manifest = manifest_of(top.node());
    try {
      read_program(top, spec, pod_template);
    } catch (const Error& error) {
      job_.only_in_cluster = error.what();
    }
    return std::move(job_);
  }

 private:
  // The part that a cluster validates itself.
  void read_program(YamlMapping& top, YamlMapping& spec, const YamlNode& pod_template) {
    JobSpec& job = job_.spec;
    spec.read("preemptible", job.preemptible);
    const YamlNode restartable = spec.find("restartable");
    if (restartable.present()) job.restartable = restartable.boolean();
    spec.read("backoffLimit", job.retries, 0, kMostRetries);
    const YamlNode accelerators = spec.find("accelerators");
    if (accelerators.present()) {
      for (const YamlNode& name : accelerators.list(0, kMostAccelerators)) {
        job.request.accelerators.push_back(read_job_text(name));
      }
      const std::string problem = accelerators_problem(job.request.accelerators);
      if (!problem.empty()) accelerators.refuse(problem);
    }
    ignore(spec.find("liveRescale"));  // here only `archive:` jobs rescale live
    for (const char* key :
         {"suspend", "cancel", "startDeadlineSeconds", "ttlSecondsAfterFinished"}) {
      ignore(spec.find(key));
    }
    read_template(pod_template);
    spec.finish();
    ignore(top.find("status"));
    top.finish();
  }

  void ignore(const YamlNode& node) {
    if (node.present()) job_.ignored.push_back(node.path());
  }

  // Every key that is not in `known`.
  void ignore_others(YamlMapping& map, std::initializer_list<std::string_view> known) {
    for (const std::string& key : map.keys()) {
      if (std::find(known.begin(), known.end(), key) == known.end()) ignore(map.find(key));
    }
  }

  void read_metadata(const YamlNode& node) {
    YamlMapping map(node, true);
    const YamlNode name = map.find("name"), prefix = map.find("generateName");
    // As in Kubernetes, generateName has no effect if there is a name.
    if (name.present()) {
      read_job_name(name, job_.spec.name);
      if (!valid_job_name(job_.spec.name)) {
        name.refuse("must end with a letter or digit; set generateName to give a name's beginning");
      }
      ignore(prefix);
    } else if (prefix.present()) {
      read_job_name(prefix, job_.spec.name_prefix);
    }
    ignore_others(map, {"name", "generateName"});
  }

  void read_bounds(YamlMapping& spec) {
    const YamlNode min = spec.find("minReplicas"), max = spec.find("maxReplicas");
    JobSpec& job = job_.spec;
    if (min.present()) job.min_replicas = static_cast<int>(min.integer(0, kMostReplicas));
    if (max.present()) {
      job.max_replicas = static_cast<int>(max.integer(1, kMostReplicas));
      if (*job.max_replicas < job.min_replicas) {
        max.refuse(fmt::format("is {}; it must be at least minReplicas, {}", *job.max_replicas,
                               job.min_replicas));
      }
    }
    const YamlNode requested = spec.find("requestedReplicas");
    if (requested.present()) {
      job.requested_replicas = static_cast<int>(requested.integer(1, kMostReplicas));
    }
  }

  void read_template(const YamlNode& node) {
    YamlMapping pod_template(node);
    YamlMapping pod(pod_template.require("spec"));
    const auto containers = pod.require("containers").list(1, kMaxManifestItems);
    read_container(containers[0]);
    for (size_t i = 1; i < containers.size(); ++i) ignore(containers[i]);
    const YamlNode grace = pod.find("terminationGracePeriodSeconds");
    if (grace.present()) job_.spec.grace_s = grace.number(between(0, kMostGrace));
    ignore_others(pod, {"containers", "terminationGracePeriodSeconds"});
    ignore_others(pod_template, {"spec"});
  }

  void read_container(const YamlNode& node) {
    YamlMapping container(node);
    JobSpec& job = job_.spec;
    // Commands may use variables, so read these first.
    read_environment(container);
    const YamlNode command = container.find("command");
    const bool empty = command.present() && command.is_list() && command.list().empty();
    if (!command.present() || empty) {
      const std::vector<std::string> keys = container.keys();
      const std::string near = nearest_name("command", {keys.begin(), keys.end()});
      command.refuse(fmt::format(
          "is missing: only the image defines what this container runs, and images do not run on "
          "one machine; {}give the command here, for example [python3, train.py]",
          near.empty() ? "" : fmt::format("did you mean {} as the command? otherwise ", near)));
    }
    job.kind = JobSpec::Kind::command;
    job_.in_image = true;
    job_.program_place = command.place();
    std::vector<std::string> words = read_words(command);
    if (words[0].empty()) command.refuse("is empty; say what to run");
    job.program = words[0];
    job.arguments.assign(words.begin() + 1, words.end());
    job_.command_arguments = job.arguments.size();
    if (const YamlNode args = container.find("args"); args.present()) {
      const auto more = read_words(args);
      job.arguments.insert(job.arguments.end(), more.begin(), more.end());
    }
    const YamlNode directory = container.find("workingDir");
    if (directory.present()) job.directory = read_job_text(directory);
    read_resources(container.find("resources"));
    ignore_others(container,
                  {"name", "env", "envFrom", "command", "args", "workingDir", "resources"});
  }

  void read_environment(YamlMapping& container) {
    const YamlNode from = container.find("envFrom");
    if (from.present()) {
      from.refuse(
          "takes variables from Kubernetes objects, which one machine does not have; list the "
          "variables under env");
    }
    const YamlNode list = container.find("env");
    if (!list.present()) return;
    auto& environment = job_.spec.environment;
    for (const YamlNode& item : list.list(0, kMaxManifestItems)) {
      YamlMapping variable(item);
      const YamlNode name_node = variable.require("name");
      const std::string name = read_job_text(name_node);
      if (name.empty() || name.find('=') != std::string::npos) {
        name_node.refuse("is not a valid variable name; it must not be empty or contain '='");
      }
      const YamlNode source = variable.find("valueFrom");
      if (source.present()) {
        source.refuse(
            "takes the value from a Kubernetes object, which one machine does not have; give a "
            "value");
      }
      const YamlNode value = variable.find("value");
      const bool given = value.present() && value.is_scalar();
      if (value.present() && !given && (value.is_list() || value.is_mapping())) value.text();
      environment[name] = given ? expand(read_job_text(value), value, false) : "";
      variable.finish();
    }
  }

  std::vector<std::string> read_words(const YamlNode& list) {
    std::vector<std::string> words;
    for (const YamlNode& item : list.list(0, kMaxManifestItems)) {
      words.push_back(expand(read_job_text(item), item, true));
    }
    return words;
  }

  // $(NAME) is the variable's value, or stays if the variable is not set; $$ is a dollar.
  std::string expand(const std::string& text, const YamlNode& node, bool in_command) const {
    std::string result;
    for (size_t i = 0; i < text.size(); ++i) {
      const size_t end = text.find(')', i);
      if (text.compare(i, 2, "$$") == 0) {
        result += text[i++];
      } else if (text.compare(i, 2, "$(") == 0 && end != std::string::npos) {
        const std::string name = text.substr(i + 2, end - i - 2);
        const auto found = job_.spec.environment.find(name);
        if (found != job_.spec.environment.end()) {
          result += found->second;
        } else if (in_command && name.starts_with("ADAPTDL_")) {
          node.refuse(fmt::format(
              "$({}) is known only when a replica starts; read the variable {} in the program, or "
              "use a shell: [sh, -c, '... ${}']",
              name, name, name));
        } else {
          result += text.substr(i, end - i + 1);
        }
        i = end;
      } else {
        result += text[i];
      }
      if (result.size() > 1u << 20) node.refuse("expands to more than 1 MiB");
    }
    return result;
  }

  // A limit overrides a request, because the pod may use that much.
  void read_resources(const YamlNode& node) {
    YamlMapping resources(node, true);
    ReplicaRequest& request = job_.spec.request;
    for (const char* part : {"requests", "limits"}) {
      YamlMapping map(resources.find(part), true);
      const YamlNode cpu = map.find("cpu"), memory = map.find("memory");
      const YamlNode gpu = map.find("nvidia.com/gpu");
      if (cpu.present()) {
        const int64_t millicores = parse_quantity_milli(cpu.text(), cpu.place());
        request.cpu_millicores = millicores > 0 ? std::optional(millicores) : std::nullopt;
      }
      if (memory.present()) {
        const int64_t bytes = parse_quantity(memory.text(), memory.place());
        request.memory_bytes = bytes > 0 ? std::optional(bytes) : std::nullopt;
      }
      if (gpu.present()) {
        const int64_t milli = parse_quantity_milli(gpu.text(), gpu.place());
        if (milli % 1000 != 0) gpu.refuse("is not a whole number of GPUs");
        request.gpus = milli / 1000;
      }
      ignore_others(map, {"cpu", "memory", "nvidia.com/gpu"});
    }
    ignore_others(resources, {"requests", "limits"});
  }

  JobFile job_;
};

}  // namespace

JobFile read_adaptdl_job(YamlMapping& top) {
  return ManifestReader().read(top);
}

}  // namespace adaptdl
