#include "tests/unit/optim/torch_reference.h"

#include <nlohmann/json.hpp>
#include <string>

#include "core/base/files.h"
#include "core/formats/json.h"

namespace adaptdl::test {

nlohmann::json torch_reference() {
  const std::string path = ADAPTDL_SOURCE_DIR "/tests/unit/optim/torch_reference.json";
  return parse_json(read_file(path, 1 << 20), path);
}

TrainingSpec spec_with(const char* section, const nlohmann::json& value) {
  nlohmann::json settings = {
      {"data", {{"train", {{{"path", "x.npy"}}}}, {"validation_fraction", 0.5}}},
      {"batch", {{"initial", 1}}},
      {"optimizer", {{"lr", 1.0}, {"momentum", 0.5}}},
      {"epochs", 6}};
  settings[section] = value;
  return parse_training_spec(settings.dump(), "reference");
}

}  // namespace adaptdl::test
