#include "cli/commands/doctor_checks.h"

#include <algorithm>
#include <fcntl.h>
#include <gnu/libc-version.h>

#include "cli/commands/doctor_gpus.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/process.h"
#include "core/base/system.h"
#include "core/base/text.h"
#include "core/kube/config.h"
#include "core/launch/run/libtorch.h"
#include "core/launch/run/worker_image.h"

namespace adaptdl::cli {
namespace {

using Status = Finding::Status;

Finding cores() {
  const int affinity = affinity_cores(), available = available_cores();
  const auto limit = cgroup_cpu_limit();
  std::string detail = fmt::format("{} for training ({} by affinity", available, affinity);
  detail += limit ? fmt::format(", control groups allow {:.3g})", *limit)
                  : ", no limit by control groups)";
  return {.name = "cores",
          .detail = detail,
          .facts = {{"available", available},
                    {"affinity", affinity},
                    {"cgroup_limit", limit ? Json(*limit) : Json(nullptr)}}};
}

Finding memory() {
  const uint64_t bytes = available_memory();
  const auto limit = cgroup_memory_limit();
  return {.name = "memory",
          .detail = format_bytes(bytes) + (limit ? ", limited by control groups" : ""),
          .facts = {{"bytes", bytes}, {"cgroup_limit", limit ? Json(*limit) : Json(nullptr)}}};
}

Finding worker() {
  Finding finding{.name = "worker"};
  if (const auto chosen = environment_variable("ADAPTDL_WORKER")) {
    const bool there = path_exists(*chosen);
    finding.detail = "ADAPTDL_WORKER names " + *chosen + (there ? "" : ", which does not exist");
    finding.status = there ? Status::fine : Status::missing;
    if (!there) finding.fix = "unset ADAPTDL_WORKER, or name a worker that exists";
    finding.facts = {{"source", "ADAPTDL_WORKER"}, {"path", *chosen}, {"bytes", nullptr}};
    return finding;
  }
  const size_t size = launch::worker_image().size();
  finding.facts = {{"source", size > 0 ? Json("embedded") : Json(nullptr)},
                   {"path", nullptr},
                   {"bytes", size > 0 ? Json(size) : Json(nullptr)}};
  if (size > 0) {
    finding.detail = fmt::format("embedded, {}, built against LibTorch {}", format_bytes(size),
                                 launch::built_with_version());
  } else {
    finding.status = Status::missing;
    finding.detail = "this adaptdl was built without Torch, so it cannot train archives";
    finding.fix = "./bootstrap build (in the source folder)";
  }
  return finding;
}

// `places`: all candidates. `chosen`: one of them; null: none is usable.
Finding libtorch(const std::vector<launch::LibTorch>& places, const launch::LibTorch* chosen) {
  Finding finding{.name = "libtorch", .status = Status::missing};
  finding.facts = {{"used", nullptr}, {"looked_at", Json::array()}};
  for (const launch::LibTorch& place : places) {
    const bool used = &place == chosen;
    Json facts = {{"source", place.source},
                  {"folder", place.folder},
                  {"version", place.version.empty() ? Json(nullptr) : Json(place.version)},
                  {"cuda", place.cuda},
                  {"problem", place.problem.empty() ? Json(nullptr) : Json(place.problem)}};
    if (used) {
      finding.status = Status::fine;
      finding.detail =
          fmt::format("{}, from {} ({})", place.version.empty() ? "unknown version" : place.version,
                      place.source, place.folder);
      finding.facts["used"] = facts;
    } else if (finding.status == Status::missing) {
      finding.detail += (finding.detail.empty() ? "" : "; ") + place.problem;
    }
    finding.facts["looked_at"].push_back(std::move(facts));
  }
  if (finding.status == Status::missing) {
    const std::string version = launch::minor_version(launch::built_with_version());
    finding.fix = fmt::format("pip install torch{}, or set ADAPTDL_LIBTORCH to the folder of one",
                              version.empty() ? "" : "==" + version + ".*");
    if (finding.detail.empty()) finding.detail = "none found";
  }
  return finding;
}

// The worker is started from memory, or, if that is refused, from a file in the cache folder.
Finding memory_execution() {
  Finding finding{.name = "start from memory"};
  bool works = false;
  try {
    const TemporaryDirectory folder("adaptdl-doctor");
    const std::string probe = read_file("/bin/true", 64 << 20);
    ExecutableImage image(std::as_bytes(std::span(probe)), "adaptdl-probe", folder.path());
    if (image.in_memory()) {
      SpawnOptions options{.argv = {"true"}};
      options.image = &image;
      works = run_and_capture(options, Seconds(5)).status.success() && image.in_memory();
    }
  } catch (const Error&) {  // refused
  }
  finding.detail =
      works ? "possible"
            : "refused here (vm.memfd_noexec); the worker is started from " + cache_directory();
  finding.status = works ? Status::fine : Status::note;
  finding.facts = {{"memfd", works}};
  return finding;
}

Finding c_library() {
  const std::string version = gnu_get_libc_version();
  return {.name = "glibc", .detail = version, .facts = {{"version", version}}};
}

Finding certificates() {
  Finding finding{.name = "certificates"};
  std::vector<std::string> places = {
      "/etc/ssl/certs/ca-certificates.crt",  // Debian
      "/etc/pki/tls/certs/ca-bundle.crt",    // Red Hat
      "/etc/ssl/cert.pem",                   // Alpine
  };
  if (const auto chosen = environment_variable("SSL_CERT_FILE")) places = {*chosen};
  const auto found = std::find_if(places.begin(), places.end(), path_exists);
  if (found != places.end()) {
    finding.detail = *found;
    finding.facts = {{"path", *found}};
  } else {
    finding.status = Status::note;
    finding.detail = "none found; only talking to clusters and registries needs them";
    finding.fix = "apt-get install ca-certificates, or set SSL_CERT_FILE";
    finding.facts = {{"path", nullptr}};
  }
  return finding;
}

Finding clusters() {
  Finding finding{.name = "clusters", .status = Status::note, .detail = "none configured"};
  finding.facts = {{"kubeconfig", nullptr}, {"problem", nullptr}};
  std::vector<std::string> paths;
  if (const auto chosen = environment_variable("KUBECONFIG")) {
    paths = adaptdl::split(*chosen, ':');
  } else if (const auto home = environment_variable("HOME")) {
    paths = {join_path(*home, ".kube/config")};
  }
  const auto path = std::find_if(paths.begin(), paths.end(), path_exists);
  if (path == paths.end()) return finding;
  finding.facts["kubeconfig"] = *path;
  try {
    finding.detail = kube::list_contexts({}).empty()
                         ? "none configured: " + *path + " defines no context"
                         : "configured in " + *path + " (not contacted)";
  } catch (const Error& error) {
    finding.detail = error.what();
    finding.fix = "correct that file, or name another in KUBECONFIG; only clusters need it";
    finding.facts["problem"] = error.what();
  }
  return finding;
}

const char* status_name(Status status) {
  switch (status) {
    case Status::fine:
      return "ok";
    case Status::note:
      return "note";
    case Status::missing:
      return "missing";
  }
  return "";
}

}  // namespace

std::vector<Finding> examine_machine() {
  const std::vector<launch::LibTorch> places = launch::find_libtorch(true);
  const auto usable = [](const launch::LibTorch& place) { return place.problem.empty(); };
  const auto first = std::ranges::find_if(places, usable);
  const launch::LibTorch* const torch = first == places.end() ? nullptr : &*first;
  return {cores(),
          memory(),
          gpu_finding(find_gpus(torch), torch),
          worker(),
          libtorch(places, torch),
          memory_execution(),
          c_library(),
          certificates(),
          clusters()};
}

std::string describe(const std::vector<Finding>& findings, bool color) {
  std::string text;
  for (const Finding& finding : findings) {
    const char* mark = finding.status == Status::fine      ? "ok"
                       : finding.status == Status::missing ? "!!"
                                                           : "--";
    const char* paint = finding.status == Status::fine      ? "\x1b[32m"
                        : finding.status == Status::missing ? "\x1b[31;1m"
                                                            : "";
    text += color ? fmt::format("{}{}\x1b[0m", paint, mark) : mark;
    text += fmt::format("  {:<18}{}\n", finding.name, finding.detail);
    if (!finding.fix.empty()) text += fmt::format("    {:<18}-> {}\n", "", finding.fix);
  }
  text += all_fine(findings) ? "\nReady to train: adaptdl run train.pt\n"
                             : "\nTraining needs the items marked !!.\n";
  return text;
}

Json to_json(const std::vector<Finding>& findings) {
  Json result = {{"ok", all_fine(findings)}, {"checks", Json::array()}};
  for (const Finding& finding : findings) {
    result["checks"].push_back({{"name", finding.name},
                                {"status", status_name(finding.status)},
                                {"detail", finding.detail},
                                {"fix", finding.fix.empty() ? Json(nullptr) : Json(finding.fix)},
                                {"facts", finding.facts}});
  }
  return result;
}

bool all_fine(const std::vector<Finding>& findings) {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) { return finding.status == Status::missing; });
}

}  // namespace adaptdl::cli
