#include "core/launch/run/libtorch.h"

#include <cerrno>
#include <fmt/format.h>
#include <optional>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/process.h"
#include "core/base/system.h"

#ifndef ADAPTDL_LIBTORCH_VERSION
#define ADAPTDL_LIBTORCH_VERSION ""
#endif

namespace adaptdl::launch {
namespace {

constexpr size_t kMaxVersionFile = 1 << 20;
constexpr Seconds kPythonTimeout{5.0};

// The Python package has its version in version.py, the C++ package in build-version.
std::string read_version(const std::string& folder) {
  try {
    const std::string plain = join_path(folder, "build-version");
    if (path_exists(plain)) {
      const std::string text = read_file(plain, kMaxVersionFile);
      return text.substr(0, text.find_first_of(" \r\n"));
    }
    const std::string python = join_path(folder, "version.py");
    if (!path_exists(python)) return "";
    const std::string text = read_file(python, kMaxVersionFile);
    const std::string key = "__version__ = '";
    const size_t at = text.find(key);
    if (at == std::string::npos) return "";
    const size_t start = at + key.size();
    return text.substr(start, text.find('\'', start) - start);
  } catch (const Error&) {
    return "";
  }
}

// The folder that the build was configured with. A file beside the program, or where `meson
// install` puts it, contains it, relative to the file's folder, so that a build can be moved with
// its tree.
std::optional<std::string> configured_folder() {
  char program[4096];
  const ssize_t size = ::readlink("/proc/self/exe", program, sizeof program);
  if (size <= 0 || size == sizeof program) return std::nullopt;
  const std::string here = parent_directory(std::string(program, static_cast<size_t>(size)));
  for (const char* place : {"adaptdl.libtorch", "../lib/adaptdl/libtorch"}) {
    const std::string file = join_path(here, place);
    if (!path_exists(file)) continue;
    const std::string text = read_file(file, kMaxVersionFile);
    const std::string folder =
        absolute_path(text.substr(0, text.find('\n')), parent_directory(file));
    return path_exists(folder) ? real_path(folder) : folder;
  }
  return std::nullopt;
}

// Does not import torch, which would take seconds.
std::optional<std::string> ask_python() {
  try {
    const CapturedRun answer =
        run_and_capture({.argv = {"python3", "-c",
                                  "import importlib.util as u; s = u.find_spec('torch'); "
                                  "print(s.submodule_search_locations[0] if s else '')"}},
                        kPythonTimeout);
    const std::string folder = answer.output.substr(0, answer.output.find('\n'));
    if (!answer.status.success() || folder.empty()) return std::nullopt;
    return folder;
  } catch (const Error&) {  // no python3, or one that does not answer
    return std::nullopt;
  }
}

bool is_old(const std::string& version) {
  const std::string minor = minor_version(version);
  const size_t dot = minor.find('.');
  if (dot == std::string::npos) return false;
  const auto first = try_parse<int>(minor.substr(0, dot));
  const auto second = try_parse<int>(minor.substr(dot + 1));
  return first && second && (*first < 2 || (*first == 2 && *second < 6));
}

}  // namespace

std::string built_with_version() {
  return ADAPTDL_LIBTORCH_VERSION;
}

std::string minor_version(const std::string& version) {
  const size_t first = version.find('.');
  if (first == std::string::npos) return version;
  return version.substr(0, version.find_first_not_of("0123456789", first + 1));
}

LibTorch examine_libtorch(const std::string& source, const std::string& folder,
                          const std::string& needed) {
  LibTorch found{.source = source, .folder = folder};
  const std::string library = join_path(folder, "lib/libtorch_cpu.so");
  if (::access(library.c_str(), R_OK) != 0) {
    found.problem = errno == EACCES ? fmt::format("this user may not read {}", library)
                                    : fmt::format("{} has no lib/libtorch_cpu.so", folder);
    return found;
  }
  found.version = read_version(folder);
  found.cuda = path_exists(join_path(folder, "lib/libtorch_cuda.so"));
  if (!needed.empty() && !found.version.empty() &&
      minor_version(found.version) != minor_version(needed)) {
    found.problem = fmt::format("{} is LibTorch {}, but the worker was built against {}", folder,
                                found.version, needed);
  } else if (is_old(found.version)) {
    found.problem = fmt::format("{} is LibTorch {}; the oldest supported version is 2.6", folder,
                                found.version);
  }
  return found;
}

std::vector<LibTorch> find_libtorch(bool all) {
  // A worker that the user chose was built against an unknown LibTorch.
  const std::string needed =
      environment_variable("ADAPTDL_WORKER") ? std::string() : built_with_version();
  std::vector<LibTorch> places;
  if (const auto chosen = environment_variable("ADAPTDL_LIBTORCH")) {
    places.push_back(examine_libtorch("ADAPTDL_LIBTORCH", *chosen, needed));
    return places;
  }
  if (const auto configured = configured_folder()) {
    places.push_back(examine_libtorch("the build's configuration", *configured, needed));
    if (!all && places.back().problem.empty()) return places;
  }
  if (const auto folder = ask_python()) {
    places.push_back(examine_libtorch("python3", *folder, needed));
  }
  return places;
}

LibTorch choose_libtorch() {
  const std::vector<LibTorch> places = find_libtorch(false);
  std::string reasons;
  for (const LibTorch& place : places) {
    if (place.problem.empty()) return place;
    reasons += fmt::format(" From {}: {}.", place.source, place.problem);
  }
  const std::string version = built_with_version();
  fail(
      "no usable LibTorch{} found.{} Install it (`pip install torch{}`), or set ADAPTDL_LIBTORCH "
      "to its folder. `adaptdl doctor` lists the places that were searched.",
      version.empty() ? "" : " " + minor_version(version), reasons,
      version.empty() ? "" : fmt::format("=={}.*", minor_version(version)));
}

}  // namespace adaptdl::launch
