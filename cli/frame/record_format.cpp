#include "cli/frame/record_format.h"

#include "cli/frame/output.h"
#include "core/formats/json_path.h"
#include "core/formats/yaml_text.h"

namespace adaptdl::cli {

bool is_record_format(std::string_view format) {
  return format == "json" || format == "yaml" || format.starts_with(kJsonPathFormat);
}

void print_record(const Json& value, std::string_view format) {
  if (format == "json") return print_json(value);
  if (format == "yaml") return print("---\n" + yaml_text(value));
  std::string text;
  try {
    text = json_path_text(value, format.substr(kJsonPathFormat.size()));
  } catch (const Error& error) {
    throw UsageError(fmt::format("--format: {}", error.what()));
  }
  print(text);
}

}  // namespace adaptdl::cli
