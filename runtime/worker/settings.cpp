#include "runtime/worker/settings.h"

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl {

WorkerSettings WorkerSettings::from(const nlohmann::json& settings) {
  WorkerSettings worker;
  try {
    settings.at("program").get_to(worker.program);
    settings.at("set").get_to(worker.overrides);
    settings.at("device").get_to(worker.device);
    settings.at("threads").get_to(worker.threads);
    settings.at("name").get_to(worker.options.name);
    settings.at("checkpoint_dir").get_to(worker.options.checkpoint_dir);
    const auto output_dir = settings.at("output_dir").get<std::string>();
    worker.options.model_path = output_dir.empty() ? "" : join_path(output_dir, "model.pt");
    worker.options.data_dir = parent_directory(worker.program);
  } catch (const nlohmann::json::exception& error) {
    fail("the launcher's welcome lacks a setting: {}", error.what());
  }
  return worker;
}

}  // namespace adaptdl
