#include "core/job/job_file.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/formats/yaml.h"
#include "core/job/adaptdl_job.h"
#include "core/job/job_fields.h"

namespace adaptdl {
namespace {

JobFile read_short_form(YamlMapping& top) {
  JobFile job;
  for (const JobSection& section : job_fields()) {
    YamlMapping inner(section.name.empty() ? top.node() : top.find(section.name), true);
    YamlMapping& map = section.name.empty() ? top : inner;
    for (const JobField& field : section.fields) {
      const YamlNode value = map.find(field.key);
      if (value.present()) field.read(value, job);
    }
    if (!section.name.empty()) inner.finish();
  }
  top.finish();
  if (job.spec.program.empty()) {
    top.node().refuse("does not say what to run; give one of archive, program, command");
  }
  // A command may not support several replicas; in AdaptDL's own form it does.
  if (job.spec.kind == JobSpec::Kind::command && !top.find("replicas").present()) {
    job.spec.max_replicas = 1;
  }
  return job;
}

}  // namespace

JobFile parse_job_file(std::string_view text, const std::string& file) {
  const YamlNode document = parse_yaml(text, file);
  YamlMapping top(document);
  const std::vector<std::string> keys = top.keys();
  const bool by_kind = std::any_of(keys.begin(), keys.end(), [](const std::string& key) {
    return key == "kind" || key == "apiVersion";
  });
  JobFile job = by_kind ? read_adaptdl_job(top) : read_short_form(top);
  if (job.only_in_cluster.empty()) check_job_spec(job.spec, file);
  return job;
}

void require_one_machine(const JobFile& job) {
  if (!job.only_in_cluster.empty()) throw Error(job.only_in_cluster);
}

void replace_arguments(JobFile& job, const std::vector<std::string>& arguments) {
  job.spec.arguments.resize(job.command_arguments);
  job.spec.arguments.insert(job.spec.arguments.end(), arguments.begin(), arguments.end());
}

}  // namespace adaptdl
