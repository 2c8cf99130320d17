#include "cli/commands/checkpoint_view.h"

#include <algorithm>

#include "cli/frame/output.h"
#include "core/base/number.h"

namespace adaptdl::cli {
namespace {

std::string counted(int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string batch_text(const CheckpointProgress& progress) {
  std::string text = fmt::format("batch: {} ({} x {} x {})", progress.batch, progress.replicas,
                                 progress.atomic, progress.passes);
  if (progress.atomic_limit > 0) {
    text +=
        fmt::format("; at most {} samples in one pass, as memory ran out", progress.atomic_limit);
  }
  return text;
}

std::string validation_text(const Json& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics.items()) {
    text += fmt::format(
        "{}{} {}", text.empty() ? "" : ", ", name,
        value.is_number() ? fmt::format("{:.6g}", value.get<double>()) : value.get<std::string>());
  }
  return text.empty() ? "none yet" : text;
}

}  // namespace

Json checkpoint_json(const CheckpointSummary& checkpoint, const std::vector<std::string>& older) {
  const CheckpointHeader& header = checkpoint.manifest.header;
  const CheckpointProgress& progress = checkpoint.progress;
  const bool limited = progress.atomic_limit > 0;
  Json result = {
      {"path", checkpoint.path},
      {"run", header.job},
      {"step", header.step},
      {"generation", header.generation},
      {"created", header.created},
      {"finished", header.finished},
      {"progress", progress.iterations},
      {"epoch", progress.epoch},
      {"pass", progress.pass},
      {"sample", progress.sample},
      {"skipped", progress.skipped},
      {"replicas", progress.replicas},
      {"atomic", progress.atomic},
      {"accumulation", std::max<int64_t>(progress.passes - 1, 0)},
      {"batch", progress.batch},
      {"atomic_limit", limited ? Json(progress.atomic_limit) : Json(nullptr)},
      {"precision", progress.precision.empty() ? Json(nullptr) : Json(progress.precision)},
      {"loss_scale", progress.loss_scale},
      {"validation", progress.validation},
      {"bytes", checkpoint.bytes},
      {"damages", checkpoint.damages},
      {"tensors", Json::array()},
      {"settings", header.settings},
      {"older", older}};
  for (size_t i = 0; i < checkpoint.manifest.tensors.size(); ++i) {
    const CheckpointTensor& tensor = checkpoint.manifest.tensors[i];
    result["tensors"].push_back({{"name", tensor.name},
                                 {"dtype", tensor.dtype},
                                 {"shape", tensor.shape},
                                 {"bytes", tensor.bytes},
                                 {"intact", bool(checkpoint.intact[i])}});
  }
  return result;
}

std::string checkpoint_text(const CheckpointSummary& checkpoint,
                            const std::vector<std::string>& older) {
  const CheckpointHeader& header = checkpoint.manifest.header;
  const CheckpointProgress& progress = checkpoint.progress;
  const size_t count = checkpoint.manifest.tensors.size();
  std::string text = fmt::format("{}: run {}, step {}{}, written {}\n", checkpoint.path, header.job,
                                 header.step, header.finished ? ", finished" : "", header.created);
  text += fmt::format(
      "progress: {} iterations, epoch {}, sample {} of pass {}{}\n",
      format_number(progress.iterations), progress.epoch, progress.sample, progress.pass,
      progress.skipped > 0 ? fmt::format(", {} skipped", counted(progress.skipped, "step")) : "");
  text += batch_text(progress) + "\n";
  text += fmt::format("precision: {}{}\n",
                      progress.precision.empty() ? "not known" : progress.precision,
                      progress.precision == "fp16"
                          ? fmt::format(", loss scale {}", format_number(progress.loss_scale))
                          : "");
  text += fmt::format("validation: {}\n", validation_text(progress.validation));
  text += fmt::format("size: {} in {}, {}\n", format_bytes(checkpoint.bytes),
                      counted(static_cast<int64_t>(count), "tensor"),
                      checkpoint.damages.empty() ? "all checksums correct" : "DAMAGED");
  for (const std::string& damage : checkpoint.damages) text += damage + "\n";
  for (const std::string& path : older) text += fmt::format("older: {}\n", path);
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < count; ++i) {
    const CheckpointTensor& tensor = checkpoint.manifest.tensors[i];
    rows.push_back({tensor.name, tensor.dtype, shape_text(tensor.shape), format_bytes(tensor.bytes),
                    checkpoint.intact[i] ? "correct" : "DAMAGED"});
  }
  if (!rows.empty()) text += "\n" + table({"TENSOR", "TYPE", "SHAPE", "SIZE", "CHECKSUM"}, rows);
  return text;
}

}  // namespace adaptdl::cli
