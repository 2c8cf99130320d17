#include "cli/image_self.h"

#include <elf.h>
#include <link.h>
#include <set>
#include <sys/auxv.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/http.h"
#include "core/oci/build.h"

namespace adaptdl::cli {
namespace {

constexpr size_t kMaxMaps = 16u << 20;
constexpr const char* kCertificates = "/etc/ssl/certs/ca-certificates.crt";

// The program's loader, by its own program headers; "" if it has none.
std::string loader_path() {
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

}  // namespace

std::vector<std::string> mapped_libraries(std::string_view maps) {
  std::set<std::string> paths;
  while (!maps.empty()) {
    const size_t end = std::min(maps.find('\n'), maps.size());
    const std::string_view line = maps.substr(0, end);
    maps.remove_prefix(std::min(end + 1, maps.size()));
    const size_t slash = line.find('/');
    if (slash == std::string_view::npos) continue;
    const std::string path(line.substr(slash));
    const std::string name = file_name(path);
    const bool library = name.find(".so") != std::string::npos && !path.ends_with("(deleted)");
    if (library) paths.insert(path);
  }
  return {paths.begin(), paths.end()};
}

void append_this_program(oci::Image& image, const std::string& folder) {
  using Kind = oci::TarEntry::Kind;
  oci::LayerOptions options;
  options.time = oci::source_date_epoch();
  if (image.manifest["layers"].empty()) {
    std::vector<oci::TarEntry> entries = {{"tmp", Kind::folder, "", 01777}};
    for (const std::string& path : mapped_libraries(read_file("/proc/self/maps", kMaxMaps))) {
      entries.push_back({path, Kind::file, path, 0755});
    }
    if (const std::string loader = loader_path(); !loader.empty()) {
      entries.push_back({loader, Kind::file, loader, 0755});
    }
    try {
      entries.push_back({kCertificates, Kind::file, find_ca_certificates(), 0644});
    } catch (const Error&) {  // whoever needs them brings them
    }
    oci::append_layer(image,
                      oci::write_layer(std::move(entries), join_path(folder, "libraries"), options),
                      "adaptdl image push: libraries");
  }
  const std::string place = std::string(oci::kAppFolder) + "/adaptdl";
  oci::append_layer(image,
                    oci::write_layer({{oci::kAppFolder, Kind::folder, "", 0755},
                                      {place, Kind::file, "/proc/self/exe", 0755}},
                                     join_path(folder, "program"), options),
                    "adaptdl image push: the program");
  oci::settings(image)["Entrypoint"] = {place};
  oci::settings(image).erase("Cmd");
  oci::note_setting(image, "ENTRYPOINT " + place);
}

}  // namespace adaptdl::cli
