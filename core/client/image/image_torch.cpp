#include "core/client/image/image_torch.h"

#include <algorithm>
#include <array>
#include <set>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/launch/run/worker_choice.h"
#include "core/launch/run/worker_image.h"

namespace adaptdl::client {
namespace {

using Kind = oci::TarEntry::Kind;

bool has(const std::vector<oci::TarEntry>& entries, const std::string& path) {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const oci::TarEntry& entry) { return entry.path == path; });
}

// Libraries that others load by name, and that are therefore missing in the loader's list.
std::vector<NeededLibrary> parts_of(const NeededLibrary& library) {
  struct Rule {
    std::string_view library, parts;
  };
  constexpr std::array kRules = {Rule{"libcudnn.so", "libcudnn_"},
                                 Rule{"libnvrtc.so", "libnvrtc-builtins.so"}};
  std::vector<NeededLibrary> result;
  for (const Rule& rule : kRules) {
    if (library.path.empty() || !library.name.starts_with(rule.library)) continue;
    const std::string folder = parent_directory(real_path(library.path));
    for (const std::string& name : list_directory(folder)) {
      const bool shared = name.find(".so") != name.npos;
      if (shared && name.starts_with(rule.parts)) result.push_back({name, join_path(folder, name)});
    }
  }
  return result;
}

// LibTorch's CUDA libraries and those that they are linked with; adds missing ones to `missing`.
std::vector<NeededLibrary> cuda_libraries(const std::string& folder,
                                          std::set<std::string>& missing) {
  std::vector<NeededLibrary> result;
  // The worker loads the first, which loads the others when needed.
  for (const char* name : {"libtorch_cuda.so", "libtorch_cuda_linalg.so", "libcaffe2_nvrtc.so"}) {
    const std::string path = join_path(folder, name);
    if (!path_exists(path)) continue;
    result.push_back({name, path});
    for (const NeededLibrary& library : needed_libraries(path, folder)) {
      if (of_gpu_driver(library.name)) continue;
      if (library.path.empty()) missing.insert(library.name);
      result.push_back(library);
      const std::vector<NeededLibrary> parts = parts_of(library);
      result.insert(result.end(), parts.begin(), parts.end());
    }
  }
  return result;
}

std::string find_worker(const std::string& folder, TrainingFiles& files) {
  if (const auto chosen = environment_variable("ADAPTDL_WORKER")) {
    if (!path_exists(*chosen)) fail("ADAPTDL_WORKER: {} does not exist", *chosen);
    return files.worker = absolute_path(*chosen);
  }
  if (launch::worker_image().empty()) {
    fail(
        "this adaptdl was built without Torch, so an image of it cannot train. Build it with "
        "LibTorch (`./bootstrap build`, or meson -Dlibtorch=DIR), or name the worker of another "
        "build in "
        "ADAPTDL_WORKER.");
  }
  const std::string path = join_path(folder, "worker");
  replace_file(path, launch::worker_image(), 0700);
  return path;
}

}  // namespace

void add_libraries(const std::vector<NeededLibrary>& libraries, const std::string& root,
                   TrainingFiles& files) {
  const std::string with_it = join_path(parent_directory(root), "nvidia");  // as pip installs CUDA
  for (const NeededLibrary& library : libraries) {
    if (library.path.empty() || of_gpu_driver(library.name)) continue;
    if (of_c_library(library.name)) {
      const std::string place = join_path(real_path(parent_directory(library.path)), library.name);
      // The loader's path is part of every program, so the loader stays at its own path.
      const std::string& path = library.name.starts_with("ld") ? library.path : place;
      if (!has(files.c_library, path)) {
        files.c_library.push_back({path, Kind::file, library.path, 0755});
      }
      continue;
    }
    const std::string source = real_path(library.path);
    const bool own = source.starts_with(root + "/") || source.starts_with(with_it + "/");
    std::vector<oci::TarEntry>& layer = own ? files.own : files.system;
    const std::string place = fmt::format("{}/lib/{}", kLibTorchPlace, library.name);
    if (has(layer, place)) continue;
    layer.push_back({place, Kind::file, source, 0755});
    if (own) files.bytes += file_size(source);
  }
}

TrainingFiles find_training_files(const std::string& folder) {
  TrainingFiles files;
  const std::string worker = find_worker(folder, files);
  files.libtorch = launch::choose_libtorch();
  const std::string root = real_path(files.libtorch.folder);
  const std::string libraries = join_path(root, "lib");

  files.own = {{kLibTorchPlace, Kind::folder, "", 0755},
               {std::string(kLibTorchPlace) + "/lib", Kind::folder, "", 0755}};
  files.system = files.own;
  for (const char* name : {"build-version", "version.py"}) {  // examine_libtorch() reads them
    const std::string path = join_path(root, name);
    if (!path_exists(path)) continue;
    files.own.push_back({fmt::format("{}/{}", kLibTorchPlace, name), Kind::file, path, 0644});
  }
  const std::vector<NeededLibrary> needed = needed_libraries(worker, libraries);
  for (const NeededLibrary& library : needed) {
    if (library.path.empty() && !of_gpu_driver(library.name)) {
      fail("the worker needs {}, which was not found; is LibTorch in {} complete?", library.name,
           root);
    }
  }
  add_libraries(needed, root, files);
  if (!files.libtorch.cuda || !launch::worker_uses_gpus()) return files;

  std::set<std::string> missing;
  const std::vector<NeededLibrary> cuda = cuda_libraries(libraries, missing);
  if (missing.empty()) {
    add_libraries(cuda, root, files);
    files.cuda = true;
  } else {
    std::string names;
    for (const std::string& name : missing) names += (names.empty() ? "" : ", ") + name;
    files.warnings.push_back(
        fmt::format("The image can train on CPUs only: LibTorch's CUDA libraries need files that "
                    "were not found: {}. Install LibTorch with CUDA (`pip install torch`), and set "
                    "ADAPTDL_LIBTORCH to its folder.",
                    names));
  }
  return files;
}

}  // namespace adaptdl::client
