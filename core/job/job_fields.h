#pragma once

// One record for each key of the short form of adaptdljob.yaml. The parser and the tables of
// adaptdl-job(5) use the same records, so they cannot differ.

#include <string>
#include <string_view>
#include <vector>

#include "core/formats/yaml.h"
#include "core/job/job_file.h"

namespace adaptdl {

struct JobField {
  std::string_view key;  // within its section
  std::string_view allowed;
  std::string_view fallback;  // the default, in words
  std::string_view doc;
  // Checks the value and puts it into the job. Called in the table's order.
  void (*read)(const YamlNode& value, JobFile& job);
};

struct JobSection {
  std::string_view name;  // "" for the top level
  std::string_view intro;
  std::vector<JobField> fields;
};

// The top level first.
const std::vector<JobSection>& job_fields();

// All of them as roff, section by section.
std::string document_job_fields();

// Used by both forms.
void read_job_name(const YamlNode& value, std::string& name);
std::string read_job_text(const YamlNode& value);  // text for a program: no zero byte

}  // namespace adaptdl
