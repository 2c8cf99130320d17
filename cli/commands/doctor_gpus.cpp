#include "cli/commands/doctor_gpus.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>
#include <string_view>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/system.h"

namespace adaptdl::cli {
namespace {

std::string cuda_text(int cuda) {
  return fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
}

// 13 of "2.11.0+cu130"; nothing if it does not say.
std::optional<int> cuda_of(const std::string& torch_version) {
  const size_t at = torch_version.find("+cu");
  if (at == std::string::npos) return std::nullopt;
  const auto digits = try_parse<int>(std::string_view(torch_version).substr(at + 3));
  return digits ? std::optional(*digits / 10) : std::nullopt;
}

// The GPU that an entry of CUDA_VISIBLE_DEVICES names, or of which it names a part.
std::optional<size_t> index_of(const std::vector<Gpu>& all, const std::string& entry) {
  const auto number = try_parse<size_t>(entry);
  const auto named = [&](const Gpu& gpu) {  // CUDA takes the beginning of a name for it
    return gpu.uuid.starts_with(entry) || std::ranges::any_of(gpu.parts, [&](const auto& part) {
             return part.starts_with(entry);
           });
  };
  const size_t index =
      number ? *number : static_cast<size_t>(std::ranges::find_if(all, named) - all.begin());
  return index < all.size() ? std::optional(index) : std::nullopt;
}

// A visible GPU, or a part of one, among GpuFacts::all.
struct Visible {
  size_t index;
  bool part;
};

// "2 x NVIDIA A100 (40.0 GiB), part of NVIDIA A30"
std::string names(const GpuFacts& facts, const std::vector<Visible>& visible) {
  std::vector<std::pair<std::string, int>> kinds;
  for (const auto& [index, part] : visible) {
    const Gpu& gpu = facts.all[index];
    const std::string kind = part
                                 ? "part of " + gpu.name
                                 : fmt::format("{} ({})", gpu.name, format_bytes(gpu.memory_bytes));
    const auto known = std::ranges::find(kinds, kind, [](const auto& each) { return each.first; });
    if (known == kinds.end()) {
      kinds.emplace_back(kind, 1);
    } else {
      ++known->second;
    }
  }
  std::vector<std::string> texts;
  for (const auto& [kind, count] : kinds) {
    texts.push_back(count == 1 ? kind : fmt::format("{} x {}", count, kind));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string links_text(const GpuFacts& facts, const std::vector<Visible>& visible) {
  std::set<size_t> gpus;
  for (const auto& [index, part] : visible) gpus.insert(index);
  if (gpus.size() < 2) return "";
  const auto both = [&](const auto& link) {
    return gpus.contains(link.first) && gpus.contains(link.second);
  };
  const auto joined = static_cast<size_t>(std::ranges::count_if(facts.links, both));
  if (joined == 0) return ", without NVLink";
  return joined == gpus.size() * (gpus.size() - 1) / 2 ? ", joined by NVLink"
                                                       : ", some of them joined by NVLink";
}

// What keeps training off these GPUs, with what to do; "" if nothing does.
std::pair<std::string, std::string> problem(const GpuFacts& facts,
                                            const std::vector<Visible>& visible,
                                            const launch::LibTorch* torch) {
  if (!facts.problem.empty()) {
    return {"the driver does not answer: " + facts.problem,
            "install the driver's libraries or, in a container, have NVIDIA_DRIVER_CAPABILITIES "
            "include compute and utility"};
  }
  // CUDA does not show such a GPU as a whole, and of its parts only one unless they are named.
  const auto undivided = [&](const Visible& each) {
    return each.part || !facts.all[each.index].divided;
  };
  if (!std::ranges::all_of(visible, undivided)) {
    std::vector<std::string> entries;
    for (const Visible& each : visible) {
      const Gpu& gpu = facts.all[each.index];
      if (undivided(each)) entries.push_back(gpu.uuid);
      entries.insert(entries.end(), gpu.parts.begin(), gpu.parts.end());
    }
    return {"divided (MIG), so that CUDA shows only parts that are named",
            entries.empty()
                ? "divide them: nvidia-smi mig --help"
                : fmt::format("export CUDA_VISIBLE_DEVICES={}", fmt::join(entries, ","))};
  }
  if (torch == nullptr) return {};
  if (!torch->cuda) {
    return {
        fmt::format("LibTorch {} has no CUDA, so training uses the cores", torch->version),
        fmt::format("pip install a torch {}.* with CUDA", launch::minor_version(torch->version))};
  }
  const auto needed = cuda_of(torch->version);
  if (needed && facts.cuda > 0 && *needed > facts.cuda / 1000) {
    return {fmt::format("LibTorch {} needs a driver for CUDA {}", torch->version, *needed),
            fmt::format("update the driver, or use a torch for CUDA {}", facts.cuda / 1000)};
  }
  return {};
}

// "2.28.9" of "nvidia_nccl_cu13-2.28.9.dist-info" beside `torch_folder`; "" without one.
std::string nccl_beside(const std::string& torch_folder) {
  constexpr std::string_view kBegin = "nvidia_nccl_cu", kEnd = ".dist-info";
  const std::string packages = join_path(torch_folder, "..");
  if (!is_directory(packages)) return "";
  for (const std::string& name : list_directory(packages)) {
    const size_t dash = name.rfind('-', name.size() - std::min(name.size(), kEnd.size()));
    if (!name.starts_with(kBegin) || !name.ends_with(kEnd) || dash == std::string::npos) continue;
    return name.substr(dash + 1, name.size() - kEnd.size() - dash - 1);
  }
  return "";
}

}  // namespace

GpuFacts find_gpus(const launch::LibTorch* torch) {
  GpuFacts facts{.visible = gpus(), .allowed = environment_variable("CUDA_VISIBLE_DEVICES", true)};
  if (facts.visible.empty() && gpus("/", std::nullopt).empty()) return facts;
  if (torch != nullptr) facts.nccl = nccl_beside(torch->folder);
  try {
    const Nvml nvml;
    facts.all = nvml.gpus();
    facts.driver = nvml.driver();
    facts.cuda = nvml.cuda();
    for (size_t a = 0; a < facts.all.size(); ++a) {
      for (size_t b = a + 1; b < facts.all.size(); ++b) {
        if (nvml.linked(a, b)) facts.links.emplace_back(a, b);
      }
    }
  } catch (const Error& error) {
    facts.problem = error.what();
  }
  return facts;
}

Finding gpu_finding(const GpuFacts& facts, const launch::LibTorch* torch) {
  Finding finding{.name = "gpus"};
  Json devices = Json::array();
  for (const Gpu& gpu : facts.all) {
    devices.push_back({{"name", gpu.name},
                       {"uuid", gpu.uuid},
                       {"memory_bytes", gpu.memory_bytes},
                       {"divided", gpu.divided},
                       {"parts", gpu.parts}});
  }
  finding.facts = {{"visible", facts.visible},
                   {"driver", facts.driver.empty() ? Json(nullptr) : Json(facts.driver)},
                   {"cuda", facts.cuda == 0 ? Json(nullptr) : Json(cuda_text(facts.cuda))},
                   {"devices", std::move(devices)},
                   {"nvlink", facts.links},
                   {"nccl", facts.nccl.empty() ? Json(nullptr) : Json(facts.nccl)}};
  const std::string hidden =
      facts.allowed && facts.visible.size() < facts.all.size()
          ? fmt::format(" of {} (CUDA_VISIBLE_DEVICES={})", facts.all.size(), *facts.allowed)
          : "";
  if (facts.visible.empty()) {
    finding.status = Finding::Status::note;
    finding.detail = fmt::format("none{}; training uses the cores", hidden);
    return finding;
  }
  std::vector<Visible> visible;
  for (const std::string& entry : facts.visible) {
    const auto index = index_of(facts.all, entry);
    if (index) visible.push_back({*index, entry.starts_with("MIG-")});
  }
  finding.detail = fmt::format("{}{}", facts.visible.size(), hidden);
  if (!visible.empty()) {
    finding.detail += fmt::format(": {}{}", names(facts, visible), links_text(facts, visible));
  }
  if (!facts.driver.empty()) {
    finding.detail += fmt::format("; driver {} for CUDA {}", facts.driver, cuda_text(facts.cuda));
  }
  if (!facts.nccl.empty()) finding.detail += "; NCCL " + facts.nccl;
  const auto [wrong, fix] = problem(facts, visible, torch);
  if (wrong.empty()) return finding;
  finding.status = Finding::Status::note;
  finding.detail += "; " + wrong;
  finding.fix = fix;
  return finding;
}

}  // namespace adaptdl::cli
