#include <filesystem>
#include <system_error>

#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "core/base/error.h"
#include "core/base/number.h"
#include "core/job/weights_export.h"
#include "core/job/weights_file.h"

namespace adaptdl::cli {
namespace {

int run_export(const Arguments& arguments) {
  const std::string from = *arguments.positional("MODEL");
  const std::string to = *arguments.positional("FILE");
  const WeightsFormat format = weights_format(to);
  std::error_code ignored;  // either may be missing
  if (std::filesystem::equivalent(from, to, ignored)) {
    fail("{}: the destination is the source; name another file", to);
  }
  const WeightsFile weights = open_weights(from);
  export_weights(weights, format, to);
  uint64_t bytes = 0;
  for (const StoredTensor& tensor : weights.tensors) bytes += tensor.size();
  if (arguments.json()) {
    print_json({{"path", to},
                {"format", format == WeightsFormat::safetensors ? "safetensors" : "state_dict"},
                {"tensors", weights.tensors.size()},
                {"bytes", bytes}});
  } else {
    print(fmt::format("{}: {} tensor{}, {}\n", to, weights.tensors.size(),
                      weights.tensors.size() == 1 ? "" : "s", format_bytes(bytes)));
  }
  return 0;
}

}  // namespace

Command export_command() {
  return {.name = "export",
          .summary = "Convert a trained model's weights to safetensors or a state_dict",
          .text = embedded("export.md"),
          .options = {format_option()},
          .positionals = {{.name = "MODEL",
                           .kind = Kind::file,
                           .doc = "A model.pt, best.pt or train.pt, or another file of weights."},
                          {.name = "FILE",
                           .kind = Kind::file,
                           .doc = "The file to write: *.safetensors, *.pt or *.pth."}},
          .examples = {{"adaptdl export digits.run/model.pt digits.safetensors",
                        "Weights for other programs."},
                       {"adaptdl export digits.run/best.pt state.pt",
                        "In Python: model.load_state_dict(torch.load(\"state.pt\"))."}},
          .run = run_export};
}

}  // namespace adaptdl::cli
