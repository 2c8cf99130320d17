#include "cli/cluster_choice.h"
#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/embedded.h"
#include "cli/jobs.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "core/base/yaml.h"
#include "core/cluster/local/machine.h"

namespace adaptdl::cli {
namespace {

// What the local service says of itself; null if none runs.
Json local_service() {
  return local::service_runs() ? local::request_service({{"request", "hello"}}) : Json();
}

std::string state_text(const Json& service) {
  if (service.is_null()) return "no service runs; `adaptdl submit` starts it";
  return fmt::format("{}, {} free",
                     local::slots_text(json_get<int64_t>(service, "slots", "service"),
                                       json_get<std::string>(service, "slot_kind", "service")),
                     json_get<int64_t>(service, "slots_free", "service"));
}

int list(const Arguments& arguments) {
  const ClusterChoice choice = chosen_cluster(arguments);
  const bool chosen = choice.name == kLocalCluster;
  const Json service = local_service();
  if (arguments.json()) {
    print_json({{"clusters",
                 {{{"name", kLocalCluster},
                   {"kind", "local"},
                   {"chosen", chosen},
                   {"service", service}}}}});
  } else {
    print(table({"CHOSEN", "NAME", "KIND", "STATE"},
                {{chosen ? "*" : "", kLocalCluster, "this machine", state_text(service)}}));
  }
  return 0;
}

int show(const Arguments& arguments) {
  ClusterChoice choice = chosen_cluster(arguments);
  if (const auto name = arguments.positional("NAME")) choice = {*name, "NAME"};
  check_cluster(choice);
  const Json service = local_service();
  const local::LocalPaths paths = local::local_paths();
  if (arguments.json()) {
    print_json({{"name", choice.name},
                {"kind", "local"},
                {"by", choice.by},
                {"folder", paths.folder},
                {"service", service}});
    return 0;
  }
  const auto line = [](const char* key, const std::string& value) {
    if (!value.empty()) print(fmt::format("{:<10}{}\n", fmt::format("{}:", key), value));
  };
  line("Cluster", choice.name + ", this machine");
  line("Chosen", choice.by == "default" ? "by default" : "by " + choice.by);
  line("Folder", paths.folder);
  line("Slots", state_text(service));
  if (service.is_null()) return 0;
  line("Service", fmt::format("adaptdl {}, process {}, since {}",
                              json_get<std::string>(service, "version", "service"),
                              json_get<int64_t>(service, "pid", "service"),
                              json_get<std::string>(service, "started", "service")));
  line("Policy", json_get<std::string>(service, "policy", "service"));
  line("Address", json_get_or<std::string>(service, "url", "service", ""));
  line("Problem", json_get_or<std::string>(service, "problem", "service", ""));
  return 0;
}

int use(const Arguments& arguments) {
  const std::string name = *arguments.positional("NAME");
  check_cluster({name, "NAME"});
  change_config({{{"cluster"}, name}}, [](const std::string& text, const std::string& file) {
    YamlMapping(parse_yaml(text, file)).require("cluster").text();
  });
  if (arguments.json()) {
    print_json({{"cluster", name}});
  } else {
    print_line(fmt::format("{}: commands about jobs go there from now on", name));
  }
  return 0;
}

}  // namespace

Command cluster_list_command() {
  return {.name = "cluster list",
          .summary = "List clusters, and which one is chosen",
          .text = embedded("cmd_cluster.md"),
          .options = {format_option(), cluster_option()},
          .examples = {{"adaptdl cluster list", "Where jobs can go."}},
          .run = list};
}

Command cluster_show_command() {
  return {.name = "cluster show",
          .summary = "Show a cluster, its service and its slots",
          .text = embedded("cmd_cluster.md"),
          .options = {format_option(), cluster_option()},
          .positionals = {{.name = "NAME",
                           .doc = "The cluster. Default: the chosen one.",
                           .required = false}},
          .examples = {{"adaptdl cluster show", "Is the service there?"}},
          .run = show};
}

Command cluster_use_command() {
  return {.name = "cluster use",
          .summary = "Choose the cluster for all commands to come",
          .text = embedded("cmd_cluster.md"),
          .options = {format_option()},
          .positionals = {{.name = "NAME", .doc = "The cluster: local."}},
          .examples = {{"adaptdl cluster use local", "This machine."}},
          .run = use};
}

}  // namespace adaptdl::cli
