#include "core/cluster/kubernetes/operator.h"

#include <csignal>
#include <fmt/ranges.h>
#include <map>
#include <sstream>

#include "cli/commands.h"
#include "cli/commands/policy_words.h"
#include "cli/embedded.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "core/base/crypto.h"
#include "core/base/files.h"
#include "core/base/interruption.h"
#include "core/base/log.h"
#include "core/base/process.h"
#include "core/base/system.h"
#include "core/base/text.h"
#include "core/job/worker_environment.h"
#include "core/policy/policy.h"

namespace adaptdl::cli {
namespace {

Json json_option(const Arguments& arguments, const char* name) {
  const std::string text = arguments.text(name);
  return text.empty() ? Json() : parse_json(text, fmt::format("--{}", name));
}

constexpr size_t kMaxAuthorities = 1u << 20;       // bytes
constexpr double kLongestInterval = 86400;         // s
constexpr double kLongestLife = 10 * 365 * 86400;  // s

// All components, or those of --only.
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
  if (arguments.text("only").empty()) throw UsageError("--only: no component given.");
  std::istringstream words(arguments.text("only"));
  for (std::string word; std::getline(words, word, ',');) {
    const auto named = names.find(word);
    if (named == names.end()) {
      std::vector<std::string_view> known;
      for (const auto& [name, part] : names) known.push_back(name);
      throw UsageError(fmt::format("--only: unknown component \"{}\"; the components are {}.{}",
                                   word, fmt::join(known, ", "), did_you_mean(word, known)));
    }
    *named->second = true;
  }
  return parts;
}

// Checks the options that the chosen components require.
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

// The pod's name, or the host's, with a suffix that no earlier process had.
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
  how.qps = static_cast<double>(arguments.integer("kube-api-qps"));
  how.burst = static_cast<int>(arguments.integer("kube-api-burst"));
  how.cancel = &stop;
  if (arguments.verbose()) how.trace = [](const std::string& line) { log_info("{}", line); };
  kube::Client client(kube::load_config(where), how);

  options.name_space = client.config().name_space;
  options.job_namespaces = arguments.list("job-namespace");
  options.identity = identity();
  options.policy = arguments.text("policy");
  options.policy_options = policy_options(arguments.list("policy-option"));
  options.interval_s = arguments.seconds("interval", 1, kLongestInterval);
  options.accelerator_label = arguments.text("accelerator-label");
  options.address = arguments.text("address");
  options.supervisor_url = arguments.text("supervisor-url");
  options.supervisor_port = static_cast<uint16_t>(arguments.integer("supervisor-port"));
  options.metrics_port = static_cast<uint16_t>(arguments.integer("metrics-port"));
  if (arguments.given("webhook-port")) {
    options.webhook_port = static_cast<uint16_t>(arguments.integer("webhook-port"));
  }
  options.secure_supervisor_url = arguments.text("supervisor-https-url");
  if (arguments.given("supervisor-https-port")) {
    options.secure_supervisor_port =
        static_cast<uint16_t>(arguments.integer("supervisor-https-port"));
  }
  if (arguments.given("webhook-client-ca")) {
    options.webhook_client_authorities =
        read_file(arguments.text("webhook-client-ca"), kMaxAuthorities);
  }
  options.certificate_life_s = arguments.seconds("certificate-lifetime", 1, kLongestLife);
  options.pods.scheduler_version = kSchedulerVersion;
  options.pods.default_resources = json_option(arguments, "default-resources");
  options.pods.load_pickles = arguments.flag("load-pickles");
  options.pods.network_policies = !arguments.flag("no-network-policies");
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
  if (const std::string url = serving.secure_supervisor_url(); !url.empty()) {
    log_info("supervisor over HTTPS at {}", url);
  }
  serving.run();
}

int run_operator(const Arguments& arguments) {
  raise_descriptor_limit();  // each long poll needs one
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
      .text = embedded("operator.md"),
      .options =
          {{.name = "namespace",
            .kind = Kind::text,
            .value = "NAME",
            .doc =
                "Namespace of the operator's lease and key. Default: that of the pod or context."},
           context_option(),
           kubeconfig_option(),
           {.name = "job-namespace",
            .kind = Kind::text,
            .value = "NAME",
            .doc = "Run only the jobs of this namespace. Default: those of all.",
            .repeat = true},
           {.name = "only",
            .kind = Kind::text,
            .value = "PART[,PART]",
            .doc = "Run only these components: controller, allocator, expander, supervisor, "
                   "webhook, metrics. Default: all."},
           {.name = "policy",
            .kind = Kind::suggested,
            .value = "NAME",
            .fallback = default_policy(),
            .doc = "Scheduling policy (adaptdl-policy(5)).",
            .choices = policy_names()},
           {.name = "policy-option",
            .kind = Kind::text,
            .value = "OPTION=NUMBER",
            .doc = "Set an option of the policy.",
            .repeat = true},
           {.name = "interval",
            .kind = Kind::text,
            .value = "DURATION",
            .fallback = "60s",
            .doc = "Time between scheduling rounds when nothing changes."},
           {.name = "accelerator-label",
            .kind = Kind::text,
            .value = "KEY",
            .doc = "Label of nodes that names the kind of their accelerators. Default: those that "
                   "vendors use (adaptdl-policy(5))."},
           {.name = "address",
            .kind = Kind::text,
            .value = "ADDRESS",
            .fallback = "*",
            .doc = "Address on which supervisor, webhook and metrics listen; *: all, of IPv4 and "
                   "of IPv6."},
           {.name = "supervisor-port",
            .kind = Kind::integer,
            .value = "PORT",
            .fallback = "8080",
            .doc = "Port of the supervisor; 0: any free port.",
            .min = 0,
            .max = 65535},
           {.name = "supervisor-url",
            .kind = Kind::text,
            .value = "URL",
            .doc = "URL under which jobs reach the supervisor, such as that of its service. "
                   "Default: this process on 127.0.0.1, for pods in the host's network."},
           {.name = "supervisor-https-port",
            .kind = Kind::integer,
            .value = "PORT",
            .doc = "Port of the supervisor over HTTPS, for all but Python programs; 0: any free "
                   "port. Default: none, and they use HTTP.",
            .min = 0,
            .max = 65535},
           {.name = "supervisor-https-url",
            .kind = Kind::text,
            .value = "URL",
            .doc = "URL under which jobs reach the supervisor over HTTPS. Default: as for "
                   "--supervisor-url."},
           {.name = "metrics-port",
            .kind = Kind::integer,
            .value = "PORT",
            .fallback = "9091",
            .doc = "Port of /livez, /readyz and /metrics; 0: any free port.",
            .min = 0,
            .max = 65535},
           {.name = "webhook-port",
            .kind = Kind::integer,
            .value = "PORT",
            .doc = "Port of the webhook (/validate, HTTPS) for the API server; 0: any free port. "
                   "Default: no webhook.",
            .min = 0,
            .max = 65535},
           {.name = "webhook-client-ca",
            .kind = Kind::file,
            .value = "FILE",
            .doc = "CA certificates (PEM) of the certificate that the API server shows to "
                   "webhooks; others are refused. Default: any client may ask."},
           {.name = "certificate-lifetime",
            .kind = Kind::text,
            .value = "DURATION",
            .fallback = "2160h",
            .doc = "Lifetime of the certificates of the webhook and the supervisor, which are "
                   "renewed when a third of it is left."},
           {.name = "kube-api-qps",
            .kind = Kind::integer,
            .value = "N",
            .fallback = "50",
            .doc = "Requests to the API server per second; further ones wait. 0: no limit.",
            .min = 0,
            .max = 100000},
           {.name = "kube-api-burst",
            .kind = Kind::integer,
            .value = "N",
            .fallback = "100",
            .doc = "Requests to the API server at once, after a time with fewer.",
            .min = 1,
            .max = 100000},
           {.name = "min-nodes",
            .kind = Kind::integer,
            .value = "N",
            .fallback = "0",
            .doc = "Number of nodes to keep even if no job needs them.",
            .min = 0,
            .max = 100000},
           {.name = "max-nodes",
            .kind = Kind::integer,
            .value = "N",
            .fallback = "0",
            .doc = "Maximum number of nodes to request from a cluster autoscaler by placeholder "
                   "pods; 0: request none.",
            .min = 0,
            .max = 100000},
           {.name = "placeholder-image",
            .kind = Kind::text,
            .value = "IMAGE",
            .doc = "Image of the placeholder pods; it only needs to sleep."},
           {.name = "placeholder-spec",
            .kind = Kind::text,
            .value = "JSON",
            .doc = "Merge patch for the spec of placeholder pods, such as tolerations and a "
                   "priority class that the autoscaler respects."},
           {.name = "expander-interval",
            .kind = Kind::text,
            .value = "DURATION",
            .fallback = "30s",
            .doc = "Time between computations of the number of nodes that the jobs justify."},
           {.name = "scale-down-delay",
            .kind = Kind::text,
            .value = "DURATION",
            .fallback = "10m",
            .doc = "Time for which fewer nodes must suffice before placeholders are removed."},
           {.name = "default-resources",
            .kind = Kind::text,
            .value = "JSON",
            .doc = "Resources of a job's first container if it specifies none."},
           {.name = "load-pickles",
            .doc = "torch.load reads pickles in every job whose template does not say otherwise."},
           {.name = "no-network-policies",
            .doc =
                "Make no NetworkPolicy for each job, by which only its own pods reach its pods."},
           {.name = "patch-pods",
            .kind = Kind::text,
            .value = "JSON",
            .doc = "JSON patch (RFC 6902) for all pods of jobs."},
           {.name = "patch-containers",
            .kind = Kind::text,
            .value = "JSON",
            .doc = "JSON patch (RFC 6902) for all containers of jobs."}},
      .examples = {{"adaptdl operator --context lab --interval 30",
                    "Schedule that cluster's jobs from this machine, as a trial."}},
      .run = run_operator};
}

}  // namespace adaptdl::cli
