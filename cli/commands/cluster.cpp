#include <exception>

#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/frame/cluster_flags.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "cli/show/jobs.h"
#include "core/base/error.h"
#include "core/client/cluster_choice.h"
#include "core/client/config_file.h"
#include "core/client/open_cluster.h"
#include "core/cluster/local/client.h"
#include "core/cluster/local/machine.h"
#include "core/formats/yaml.h"
#include "core/kube/config.h"

namespace adaptdl::cli {
namespace {

// The local service's answer to hello; null if none runs.
Json local_service() {
  return local::service_runs() ? local::request_service({{"request", "hello"}}) : Json();
}

std::string state_text(const Json& service) {
  if (service.is_null()) return "no service runs; `adaptdl submit` starts it";
  std::string text =
      fmt::format("{}, {} free",
                  local::slots_text(json_get<int64_t>(service, "slots", "service"),
                                    json_get<std::string>(service, "slot_kind", "service")),
                  json_get<int64_t>(service, "slots_free", "service"));
  for (const Json& kind : json_get_or<Json>(service, "kinds", "service", Json::array())) {
    text += fmt::format("; {}: {}, {} free", json_get<std::string>(kind, "name", "service"),
                        json_get<int64_t>(kind, "slots", "service"),
                        json_get<int64_t>(kind, "slots_free", "service"));
  }
  return text;
}

bool is_chosen(const ClusterChoice& choice, const kube::ContextName& context) {
  if (choice.local()) return false;  // whatever a context is called
  return choice.name == context.name || (choice.name == kKubernetesCluster &&
                                         choice.kubernetes.context.empty() && context.current);
}

int list_clusters(const Arguments& arguments) {
  const ClusterChoice choice = chosen_cluster(arguments);
  std::vector<kube::ContextName> contexts;
  std::exception_ptr problem;  // of the kubeconfig, without which there is still this machine
  try {
    contexts = kube::list_contexts(
        {.kubeconfig = arguments.text("kubeconfig"), .context = "", .name_space = ""});
  } catch (const Error&) {
    problem = std::current_exception();
  }
  const Json service = local_service();
  if (arguments.json()) {
    Json clusters = {{{"name", kLocalCluster},
                      {"kind", "local"},
                      {"chosen", choice.local()},
                      {"service", service}}};
    for (const kube::ContextName& context : contexts) {
      clusters.push_back(
          {{"name", context.name},
           {"kind", "kubernetes"},
           {"chosen", is_chosen(choice, context)},
           {"current", context.current},
           {"server", context.server},
           {"namespace", context.name_space.empty() ? "default" : context.name_space}});
    }
    print_json({{"clusters", std::move(clusters)}});
    if (problem) std::rethrow_exception(problem);
    return 0;
  }
  std::vector<std::vector<std::string>> rows = {
      {choice.local() ? "*" : "", kLocalCluster, "this machine", state_text(service)}};
  for (const kube::ContextName& context : contexts) {
    rows.push_back({is_chosen(choice, context) ? "*" : "", context.name,
                    context.current ? "Kubernetes, current" : "Kubernetes", context.server});
  }
  print(table({"CHOSEN", "NAME", "KIND", "STATE"}, rows));
  if (problem) std::rethrow_exception(problem);
  return 0;
}

void show_line(const char* key, const std::string& value) {
  if (!value.empty()) print(fmt::format("{:<11}{}\n", fmt::format("{}:", key), value));
}

int show_kubernetes(const ClusterChoice& choice, const Arguments& arguments) {
  const kube::Config config = kubernetes_config(choice);
  const auto query = open_cluster(choice, arguments.verbose()).query;
  int64_t jobs = 0, unfinished = 0;
  std::string problem;
  try {
    query->each(JobQuery::Detail::brief, [&](const JobView& job) {
      ++jobs;
      unfinished += job.ended() ? 0 : 1;
    });
  } catch (const Error& error) {
    problem = error.what();
  }
  if (arguments.json()) {
    const auto count = [&](int64_t number) { return problem.empty() ? Json(number) : Json(); };
    print_json({{"name", choice.name},
                {"kind", "kubernetes"},
                {"by", choice.by},
                {"context", config.context},
                {"server", config.server},
                {"namespace", config.name_space},
                {"jobs", count(jobs)},
                {"unfinished", count(unfinished)},
                {"problem", problem.empty() ? Json() : Json(problem)}});
    return 0;
  }
  show_line("Cluster", choice.name + ", Kubernetes");
  show_line("Chosen", "by " + choice.by);
  show_line("From", config.source);
  show_line("Server", config.server);
  show_line("Namespace", config.name_space);
  if (problem.empty()) show_line("Jobs", fmt::format("{}, {} have not ended", jobs, unfinished));
  show_line("Problem", problem);
  return 0;
}

int show_cluster(const Arguments& arguments) {
  ClusterChoice choice = chosen_cluster(arguments);
  if (const auto name = arguments.positional("NAME")) {
    choice = cluster_named(*name, "NAME", cluster_flags(arguments));
  }
  if (!choice.local()) return show_kubernetes(choice, arguments);
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
  line("Notice", json_get_or<std::string>(service, "notice", "service", ""));
  line("Problem", json_get_or<std::string>(service, "problem", "service", ""));
  return 0;
}

int use(const Arguments& arguments) {
  const std::string name = *arguments.positional("NAME");
  const ClusterChoice choice = cluster_named(name, "NAME", cluster_flags(arguments));
  if (!choice.local()) kubernetes_config(choice);  // throws if it does not exist
  change_config({{{"cluster"}, name}}, [](const std::string& text, const std::string& file) {
    YamlMapping(parse_yaml(text, file)).require("cluster").text();
  });
  if (arguments.json()) {
    print_json({{"cluster", name}});
  } else {
    print_line(fmt::format("{}: job commands use this cluster from now on", name));
  }
  return 0;
}

}  // namespace

Command cluster_list_command() {
  return {.name = "cluster list",
          .summary = "List clusters and the chosen one",
          .text = embedded("cluster.md"),
          .options = with_cluster({format_option()}),
          .examples = {{"adaptdl cluster list", "Clusters that accept jobs."}},
          .run = list_clusters};
}

Command cluster_show_command() {
  return {.name = "cluster show",
          .summary = "Show a cluster, its service and its slots",
          .text = embedded("cluster.md"),
          .options = with_cluster({format_option()}),
          .positionals = {{.name = "NAME",
                           .doc = "The cluster. Default: the chosen one.",
                           .required = false}},
          .examples = {{"adaptdl cluster show", "See whether the service runs."}},
          .run = show_cluster};
}

Command cluster_use_command() {
  return {
      .name = "cluster use",
      .summary = "Choose the cluster for later commands",
      .text = embedded("cluster.md"),
      .options = {format_option()},
      .positionals = {{.name = "NAME",
                       .doc =
                           "The cluster: local, kubernetes (the current context), or a context."}},
      .examples = {{"adaptdl cluster use local", "This machine."},
                   {"adaptdl cluster use lab", "That context of the kubeconfig."}},
      .run = use};
}

}  // namespace adaptdl::cli
