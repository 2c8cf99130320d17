#include "core/client/image/image_self.h"

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/client/image/shared_libraries.h"
#include "core/net/http.h"
#include "core/oci/build.h"

namespace adaptdl::client {
namespace {

using Entries = std::vector<oci::TarEntry>;
using Kind = oci::TarEntry::Kind;

constexpr size_t kMaxMaps = 16u << 20;
constexpr const char* kCertificates = "/etc/ssl/certs/ca-certificates.crt";

// The files that an image from scratch needs.
Entries basic_files() {
  Entries entries = {{"tmp", Kind::folder, "", 01777}};
  for (const std::string& path : mapped_libraries(read_file("/proc/self/maps", kMaxMaps))) {
    entries.push_back({path, Kind::file, path, 0755});
  }
  if (const std::string loader = loader_path(); !loader.empty()) {
    entries.push_back({loader, Kind::file, loader, 0755});
  }
  try {
    entries.push_back({kCertificates, Kind::file, find_ca_certificates(), 0644});
  } catch (const Error&) {  // an image that needs certificates must bring its own
  }
  return entries;
}

void append(Entries& entries, const Entries& more) {
  entries.insert(entries.end(), more.begin(), more.end());
}

void set(oci::Image& image, const std::string& name, const std::string& value) {
  oci::set_environment(image, name, value);
  oci::note_setting(image, "ENV " + name + "=" + value);
}

}  // namespace

void append_this_program(oci::Image& image, const std::string& folder,
                         const TrainingFiles* training,
                         const std::function<void(uint64_t)>& packed) {
  const auto add = [&](Entries entries, const std::string& name, const oci::LayerOptions& options) {
    oci::append_layer(image, oci::write_layer(std::move(entries), join_path(folder, name), options),
                      "adaptdl image push: " + name);
  };
  oci::LayerOptions options;
  options.time = oci::source_date_epoch();
  Entries libraries;
  if (image.manifest["layers"].empty()) {
    libraries = basic_files();
    if (training) append(libraries, training->c_library);
  }
  if (training) append(libraries, training->system);
  if (!libraries.empty()) add(std::move(libraries), "libraries", options);

  const std::string place = std::string(oci::kAppFolder) + "/adaptdl";
  Entries program = {{oci::kAppFolder, Kind::folder, "", 0755},
                     {place, Kind::file, "/proc/self/exe", 0755}};
  if (training) {
    // A fixed time, so that a large layer stays the same when other layers change.
    oci::LayerOptions plain;
    plain.level = 1;  // a third of the time for a tenth more bytes
    plain.progress = packed;
    add(training->own, "LibTorch", plain);
    set(image, "ADAPTDL_LIBTORCH", kLibTorchPlace);
    // The parts of the driver that the container runtime must provide.
    if (training->cuda) set(image, "NVIDIA_DRIVER_CAPABILITIES", "compute,utility");
    if (!training->worker.empty()) {
      const std::string worker = std::string(oci::kAppFolder) + "/adaptdl-worker";
      program.push_back({worker, Kind::file, training->worker, 0755});
      set(image, "ADAPTDL_WORKER", worker);
    }
  }
  add(std::move(program), "program", options);
  oci::settings(image)["Entrypoint"] = {place};
  oci::settings(image).erase("Cmd");
  oci::note_setting(image, "ENTRYPOINT " + place);
}

}  // namespace adaptdl::client
