#include <csignal>
#include <fmt/ranges.h>
#include <map>
#include <sstream>

#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/interruption.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/policy_words.h"
#include "cli/suggest.h"
#include "core/base/hmac.h"
#include "core/base/log.h"
#include "core/base/process.h"
#include "core/base/system.h"
#include "core/cluster/kubernetes/operator.h"
#include "core/job/worker_environment.h"

namespace adaptdl::cli {
namespace {

Json json_option(const Arguments& arguments, const char* name) {
  const std::string text = arguments.text(name);
  return text.empty() ? Json() : parse_json(text, fmt::format("--{}", name));
}

constexpr double kLongestInterval = 86400;         // s
constexpr double kLongestLife = 10 * 365 * 86400;  // s

// All parts, or those of --only.
kubernetes::OperatorParts parts_option(const Arguments& arguments) {
  if (!arguments.given("only")) return {};
  kubernetes::OperatorParts parts{.controller = false,
                                  .allocator = false,
                                  .expander = false,
                                  .supervisor = false,
                                  .webhook = false,
                                  .metrics = false};
  const std::map<std::string, bool*> names = {
      {"controller", &parts.controller}, {"allocator", &parts.allocator},
      {"supervisor", &parts.supervisor}, {"webhook", &parts.webhook},
      {"metrics", &parts.metrics},       {"expander", &parts.expander}};
  if (arguments.text("only").empty()) throw UsageError("--only names no part.");
  std::istringstream words(arguments.text("only"));
  for (std::string word; std::getline(words, word, ',');) {
    const auto named = names.find(word);
    if (named == names.end()) {
      std::vector<std::string_view> known;
      for (const auto& [name, part] : names) known.push_back(name);
      throw UsageError(fmt::format("--only: \"{}\" is no part; the parts are {}.{}", word,
                                   fmt::join(known, ", "), did_you_mean(word, known)));
    }
    *named->second = true;
  }
  return parts;
}

// What a part that was asked for cannot do without.
void check_parts(const kubernetes::OperatorOptions& options) {
  if (options.parts.controller && !options.parts.supervisor && options.supervisor_url.empty()) {
    throw UsageError(
        "--only with the controller and without the supervisor needs --supervisor-url");
  }
  if (options.parts.webhook && !options.webhook_port) {
    throw UsageError("--only with the webhook needs --webhook-port");
  }
  if (options.parts.expander && options.expander.max_nodes == 0) {
    throw UsageError("--only with the expander needs --max-nodes");
  }
}

// The pod's name, or the host's, and something that no earlier process had.
std::string identity() {
  return fmt::format("{}_{}", host_name(), to_hex(random_bytes(4)));
}

void serve(const Arguments& arguments, const Cancellation& stop) {
  kubernetes::OperatorOptions options;
  options.parts = parts_option(arguments);
  kube::ConfigOptions where;
  where.kubeconfig = arguments.text("kubeconfig");
  where.context = arguments.text("context");
  where.name_space = arguments.text("namespace");
  kube::ClientOptions how;
  how.field_manager = "adaptdl-operator";
  how.cancel = &stop;
  if (arguments.verbose()) how.trace = [](const std::string& line) { log_info("{}", line); };
  kube::Client client(kube::load_config(where), how);

  options.name_space = client.config().name_space;
  options.identity = identity();
  options.policy = arguments.text("policy");
  options.policy_options = policy_options(arguments.list("policy-option"));
  options.interval_s = arguments.seconds("interval", 1, kLongestInterval);
  options.address = arguments.text("address");
  options.supervisor_url = arguments.text("supervisor-url");
  options.supervisor_port = static_cast<uint16_t>(arguments.integer("supervisor-port"));
  options.metrics_port = static_cast<uint16_t>(arguments.integer("metrics-port"));
  if (arguments.given("webhook-port")) {
    options.webhook_port = static_cast<uint16_t>(arguments.integer("webhook-port"));
  }
  options.certificate_life_s = arguments.seconds("certificate-lifetime", 1, kLongestLife);
  options.pods.scheduler_version = kSchedulerVersion;
  options.pods.default_resources = json_option(arguments, "default-resources");
  options.pods.patch_pods = json_option(arguments, "patch-pods");
  options.pods.patch_containers = json_option(arguments, "patch-containers");

  options.expander.min_nodes = static_cast<int>(arguments.integer("min-nodes"));
  options.expander.max_nodes = static_cast<int>(arguments.integer("max-nodes"));
  options.expander.image = arguments.text("placeholder-image");
  options.expander.overlay = json_option(arguments, "placeholder-spec");
  options.expander.interval_s = arguments.seconds("expander-interval", 1, kLongestInterval);
  options.expander.patience_s = arguments.seconds("scale-down-delay", 1, kLongestInterval);
  if (options.expander.max_nodes > 0 && options.expander.image.empty()) {
    throw UsageError("--max-nodes needs --placeholder-image, an image that sleeps");
  }
  if (options.expander.max_nodes > 0 && options.expander.min_nodes > options.expander.max_nodes) {
    throw UsageError("--min-nodes is above --max-nodes");
  }

  if (arguments.given("only")) check_parts(options);

  kubernetes::Operator serving(client, options, stop);
  log_info("operator {} of namespace {}; supervisor at {}, metrics at {}/metrics", options.identity,
           options.name_space, serving.supervisor_url(), serving.metrics_url());
  serving.run();
}

int run(const Arguments& arguments) {
  raise_descriptor_limit();  // each held poll is one
  Interruption interruption({SIGINT, SIGTERM});
  try {
    serve(arguments, interruption.cancellation());
  } catch (const Cancelled&) {
    if (interruption.signal() == 0) throw;
  }
  return 0;
}

}  // namespace

Command operator_command() {
  return {
      .name = "operator",
      .summary = "Schedule the jobs of a Kubernetes cluster",
      .text = embedded("cmd_operator.md"),
      .options = {{.name = "namespace",
                   .kind = Kind::text,
                   .value = "NAME",
                   .doc = "Where its lease and key are. Default: the pod's or the context's."},
                  context_option(),
                  kubeconfig_option(),
                  {.name = "only",
                   .kind = Kind::text,
                   .value = "PART[,PART]",
                   .doc = "Only these parts: controller, allocator, expander, supervisor, webhook, "
                          "metrics. Default: all."},
                  {.name = "policy",
                   .kind = Kind::text,
                   .value = "NAME",
                   .fallback = "proportional",
                   .doc = "Scheduling policy (adaptdl-policy(5))."},
                  {.name = "policy-option",
                   .kind = Kind::text,
                   .value = "OPTION=NUMBER",
                   .doc = "An option of that policy.",
                   .repeat = true},
                  {.name = "interval",
                   .kind = Kind::text,
                   .value = "DURATION",
                   .fallback = "60s",
                   .doc = "Between rounds of the allocator when nothing happens."},
                  {.name = "address",
                   .kind = Kind::text,
                   .value = "ADDRESS",
                   .fallback = "0.0.0.0",
                   .doc = "Where supervisor and metrics listen."},
                  {.name = "supervisor-port",
                   .kind = Kind::integer,
                   .value = "PORT",
                   .fallback = "8080",
                   .doc = "Of the supervisor; 0: any free one.",
                   .min = 0,
                   .max = 65535},
                  {.name = "supervisor-url",
                   .kind = Kind::text,
                   .value = "URL",
                   .doc = "The supervisor as jobs reach it, such as its service. Default: this "
                          "process on 127.0.0.1, for pods on the host's network."},
                  {.name = "metrics-port",
                   .kind = Kind::integer,
                   .value = "PORT",
                   .fallback = "9091",
                   .doc = "Of /livez, /readyz and /metrics; 0: any free one.",
                   .min = 0,
                   .max = 65535},
                  {.name = "webhook-port",
                   .kind = Kind::integer,
                   .value = "PORT",
                   .doc = "Of the webhook, /validate over HTTPS, for the API server; 0: any "
                          "free one. Default: no webhook.",
                   .min = 0,
                   .max = 65535},
                  {.name = "certificate-lifetime",
                   .kind = Kind::text,
                   .value = "DURATION",
                   .fallback = "2160h",
                   .doc = "Of the webhook's certificate, which is made anew when a third of it "
                          "is left; its authority's is four times as long."},
                  {.name = "min-nodes",
                   .kind = Kind::integer,
                   .value = "N",
                   .fallback = "0",
                   .doc = "Nodes to keep even when no job needs them.",
                   .min = 0,
                   .max = 100000},
                  {.name = "max-nodes",
                   .kind = Kind::integer,
                   .value = "N",
                   .fallback = "0",
                   .doc = "Nodes that jobs may be given by a cluster autoscaler, which acts on "
                          "placeholder pods; 0: there are none.",
                   .min = 0,
                   .max = 100000},
                  {.name = "placeholder-image",
                   .kind = Kind::text,
                   .value = "IMAGE",
                   .doc = "Of placeholder pods: one that sleeps."},
                  {.name = "placeholder-spec",
                   .kind = Kind::text,
                   .value = "JSON",
                   .doc = "Merge patch of the spec of placeholder pods, such as tolerations and "
                          "a priority class that the autoscaler does not pass over."},
                  {.name = "expander-interval",
                   .kind = Kind::text,
                   .value = "DURATION",
                   .fallback = "30s",
                   .doc = "Between looks at how many nodes the jobs are worth."},
                  {.name = "scale-down-delay",
                   .kind = Kind::text,
                   .value = "DURATION",
                   .fallback = "10m",
                   .doc = "How long fewer nodes must have been enough before placeholders go."},
                  {.name = "default-resources",
                   .kind = Kind::text,
                   .value = "JSON",
                   .doc = "Resources of a job's first container that says nothing of them."},
                  {.name = "patch-pods",
                   .kind = Kind::text,
                   .value = "JSON",
                   .doc = "JSON patch (RFC 6902) of every job's pods."},
                  {.name = "patch-containers",
                   .kind = Kind::text,
                   .value = "JSON",
                   .doc = "JSON patch of every container of every job."}},
      .examples = {{"adaptdl operator --context lab --interval 30",
                    "Schedule that cluster's jobs from here, to try it."}},
      .run = run};
}

}  // namespace adaptdl::cli
