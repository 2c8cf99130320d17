#include "core/client/image/shared_libraries.h"

#include <algorithm>
#include <array>
#include <elf.h>
#include <link.h>
#include <set>
#include <sys/auxv.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/process.h"

namespace adaptdl::client {
namespace {

constexpr Seconds kLoaderTimeout{60.0};  // reading a gigabyte from a slow disk takes long

// Removes the first line, and its newline, from the text.
std::string_view next_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

}  // namespace

std::string loader_path() {
  // From the program's own headers.
  const auto* headers = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));
  const auto count = getauxval(AT_PHNUM);
  uintptr_t start = 0;
  for (size_t i = 0; i < count; ++i) {
    if (headers[i].p_type == PT_PHDR) {
      start = reinterpret_cast<uintptr_t>(headers) - headers[i].p_vaddr;
    }
  }
  for (size_t i = 0; i < count; ++i) {
    if (headers[i].p_type == PT_INTERP) {
      return reinterpret_cast<const char*>(start + headers[i].p_vaddr);
    }
  }
  return "";
}

std::vector<NeededLibrary> needed_libraries(const std::string& file, const std::string& folder) {
  const std::string loader = loader_path();
  if (loader.empty()) fail("cannot look for shared libraries: this adaptdl has no loader");
  SpawnOptions options;
  options.argv = {loader, file};
  options.environment = environment_with({{"LD_TRACE_LOADED_OBJECTS", "1"},
                                          {"LD_LIBRARY_PATH", folder},
                                          {"LD_PRELOAD", std::nullopt}});
  const CapturedRun run = run_and_capture(options, kLoaderTimeout, true);
  if (!run.status.success()) {
    fail("{}: the loader cannot list its shared libraries: {}", file,
         run.output.substr(0, run.output.find('\n')));
  }
  return parse_loader_list(run.output);
}

std::vector<NeededLibrary> parse_loader_list(std::string_view text) {
  constexpr std::string_view kArrow = " => ";
  std::vector<NeededLibrary> result;
  while (!text.empty()) {
    std::string_view line = next_line(text);
    // Remove the address at the end and the leading space.
    line = line.substr(0, line.rfind(" (0x"));
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    const size_t arrow = line.find(kArrow);
    const std::string_view place = arrow == line.npos ? line : line.substr(arrow + kArrow.size());
    const bool found = place.starts_with('/');
    if (arrow == line.npos && !found) continue;  // the kernel's own library, or another line
    const std::string path(found ? place : std::string_view());
    result.push_back({file_name(std::string(line.substr(0, arrow))), path});
  }
  return result;
}

bool of_c_library(std::string_view name) {
  constexpr std::array kNames = {"libc.so",  "libm.so",      "libpthread.so", "libdl.so",
                                 "librt.so", "libutil.so",   "libmvec.so",    "libanl.so",
                                 "ld-linux", "libresolv.so", "ld64.so",       "libnss_"};
  return std::any_of(kNames.begin(), kNames.end(),
                     [&](const char* start) { return name.starts_with(start); });
}

bool of_gpu_driver(std::string_view name) {
  return name.starts_with("libcuda.so") || name.starts_with("libnvidia-");
}

std::vector<std::string> mapped_libraries(std::string_view maps) {
  std::set<std::string> paths;
  while (!maps.empty()) {
    const std::string_view line = next_line(maps);
    const size_t slash = line.find('/');
    if (slash == line.npos) continue;
    const std::string path(line.substr(slash));
    const std::string name = file_name(path);
    const bool library = name.find(".so") != std::string::npos && !path.ends_with("(deleted)");
    if (library) paths.insert(path);
  }
  return {paths.begin(), paths.end()};
}

}  // namespace adaptdl::client
