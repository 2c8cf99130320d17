#include "runtime/session/launch_settings.h"

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl {

LaunchSettings LaunchSettings::from(const nlohmann::json& settings) {
  LaunchSettings launch;
  try {
    settings.at("program").get_to(launch.program);
    settings.at("arguments").get_to(launch.arguments);
    settings.at("set").get_to(launch.overrides);
    settings.at("device").get_to(launch.device);
    settings.at("threads").get_to(launch.threads);
    launch.evaluate = settings.value("evaluate", false);
    launch.options.replicas = settings.value("replicas", 1);
    launch.options.fresh_at = settings.value("fresh_at", int64_t{0});
    launch.options.atomic_limit = settings.value("atomic_limit", int64_t{0});
    settings.at("name").get_to(launch.options.name);
    settings.at("checkpoint_dir").get_to(launch.options.checkpoint_dir);
    const auto output_dir = settings.at("output_dir").get<std::string>();
    launch.options.model_path = output_dir.empty() ? "" : join_path(output_dir, "model.pt");
    launch.options.best_path = output_dir.empty() ? "" : join_path(output_dir, "best.pt");
    launch.options.data_dir = parent_directory(launch.program);
  } catch (const nlohmann::json::exception& error) {
    fail("invalid settings from the launcher: {}", error.what());
  }
  return launch;
}

}  // namespace adaptdl
