#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "core/launch/client.h"

namespace adaptdl::cli {
namespace {

std::string cell(const Json& status, const char* key) {
  const auto found = status.find(key);
  if (found == status.end() || found->is_null()) return "-";
  if (found->is_string()) return found->get<std::string>();
  if (found->is_number_float()) return fmt::format("{:.4g}", found->get<double>());
  return dump_json(*found);
}

// The record of a run that was killed still says what it did then.
std::string state(const launch::RunInfo& run) {
  if (run.live) return run.status.is_object() ? cell(run.status, "state") : "not answering";
  const std::string last = cell(run.status, "state");
  for (const char* ended : {"finished", "failed", "stopped", "cancelled"}) {
    if (last == ended) return last;
  }
  return "killed";
}

std::vector<std::string> row(const launch::RunInfo& run) {
  const Json status = run.status.is_object() ? run.status : Json::object();
  std::string replicas = cell(status, "replicas");
  if (run.live && status.value("target", Json()) != status.value("replicas", Json())) {
    replicas += " -> " + cell(status, "target");
  }
  return {run.name,
          state(run),
          replicas,
          cell(status, "step"),
          cell(status, "epoch"),
          cell(status, "loss"),
          cell(status, "started"),
          cell(status, "program")};
}

int run(const Arguments& arguments) {
  std::vector<std::vector<std::string>> rows;
  Json records = Json::array();
  for (const launch::RunInfo& info : launch::list_runs()) {
    if (!info.live && !arguments.flag("all")) continue;
    rows.push_back(row(info));
    records.push_back({{"name", info.name},
                       {"live", info.live},
                       {"state", state(info)},
                       {"status", info.status}});
  }
  if (arguments.json()) {
    print_json({{"runs", records}});
  } else if (!rows.empty()) {
    print(
        table({"NAME", "STATE", "REPLICAS", "STEP", "EPOCH", "LOSS", "STARTED", "PROGRAM"}, rows));
  } else if (!arguments.quiet()) {
    talk(arguments.flag("all") ? "There are no runs." : "No run is live; --all shows ended ones.");
  }
  return 0;
}

}  // namespace

Command ls_command() {
  return {.name = "ls",
          .summary = "List the runs on this machine",
          .text = embedded("cmd_ls.md"),
          .options = {{.name = "all", .letter = 'a', .doc = "Those that have ended, too."},
                      format_option()},
          .examples = {{"adaptdl ls", "What trains now."}},
          .run = run};
}

}  // namespace adaptdl::cli
