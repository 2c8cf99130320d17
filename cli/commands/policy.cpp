#include "core/client/kubernetes/policy.h"

#include <algorithm>

#include "cli/commands.h"
#include "cli/commands/policy_words.h"
#include "cli/embedded.h"
#include "cli/frame/cluster_flags.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/text.h"
#include "core/client/cluster_choice.h"
#include "core/client/config_file.h"
#include "core/client/policy_choice.h"
#include "core/cluster/local/client.h"
#include "core/cluster/local/config.h"
#include "core/formats/yaml.h"
#include "core/policy/policy.h"

namespace adaptdl::cli {
namespace {

int show_policy(const Arguments& arguments) {
  const PolicyChoice now = present_policy(chosen_cluster(arguments), arguments.verbose());
  const PolicyInfo& policy = info_of(now);
  if (arguments.json()) {
    Json options = Json::object();
    for (const PolicyOption& option : policy.options) {
      options[std::string(option.name)] = value_of(option, now);
    }
    print_json({{"policy", now.name}, {"options", options}, {"from", now.by}});
    return 0;
  }
  print_line(fmt::format("{}: {}", policy.name, policy.summary));
  std::vector<std::vector<std::string>> rows;
  for (const PolicyOption& option : policy.options) {
    rows.push_back({std::string(option.name), format_number(value_of(option, now)),
                    format_number(option.fallback), std::string(option.unit)});
  }
  if (!rows.empty()) print("\n" + table({"OPTION", "VALUE", "DEFAULT", "UNIT"}, rows));
  if (!arguments.quiet() && now.by != "service" && now.by != "operator") {
    talk("No service is running; the next one uses " + now.by + " and the defaults.");
  }
  return 0;
}

// Sets options of one policy from OPTION=VALUE words; "OPTION=" restores the default.
void take_options(const std::vector<std::string>& words, size_t first,
                  std::map<std::string, double>& options) {
  for (size_t i = first; i < words.size(); ++i) {
    const size_t sign = words[i].find('=');
    if (sign == std::string::npos || sign == 0) {
      throw UsageError(fmt::format("{}: is not OPTION=VALUE.", words[i]));
    }
    const std::string name = words[i].substr(0, sign), value = words[i].substr(sign + 1);
    try {
      if (value.empty()) {
        options.erase(name);
      } else {
        options[name] = parse_double(value, name);
      }
    } catch (const Error& error) {
      throw UsageError(error.what());
    }
  }
}

// The options as YAML on one line.
std::string braces(const std::map<std::string, double>& options) {
  std::string text;
  for (const auto& [name, value] : options) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", name, format_number(value));
  }
  return "{" + text + "}";
}

// The present policy with the changes of the words. Throws UsageError.
PolicyChoice wanted_policy(const std::vector<std::string>& words, PolicyChoice wanted) {
  const bool named = words[0].find('=') == std::string::npos;
  if (named && words[0] != wanted.name) wanted = {.name = words[0]};
  take_options(words, named ? 1 : 0, wanted.options);
  std::vector<std::string_view> names;
  for (const PolicyInfo& policy : policies()) names.push_back(policy.name);
  if (std::find(names.begin(), names.end(), wanted.name) == names.end()) {
    throw UsageError(fmt::format("unknown policy {}; the policies are {}.{}", wanted.name,
                                 fmt::join(names, ", "), did_you_mean(wanted.name, names)));
  }
  try {
    make_policy(wanted.name, wanted.options);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  return wanted;
}

// Returns whether a service runs that uses it now.
bool set_local(const PolicyChoice& wanted) {
  change_config(
      {{{"local", "policy"}, wanted.name}, {{"local", "options"}, braces(wanted.options)}},
      [&](const std::string& text, const std::string& file) {
        YamlMapping local(YamlMapping(parse_yaml(text, file)).require("local"));
        ADAPTDL_CHECK(local.require("policy").text() == wanted.name);
      });
  const bool runs = local::service_runs();
  if (runs) local::request_service({{"request", "reload"}});
  return runs;
}

int set(const Arguments& arguments) {
  const ClusterChoice cluster = chosen_cluster(arguments);
  PolicyChoice wanted;
  std::string said;
  bool told = true;
  if (cluster.local()) {
    wanted = wanted_policy(arguments.rest(), configured_policy());
    told = set_local(wanted);
    said = fmt::format("Written to {}; {}.", local::config_path(),
                       told ? "the service uses it now" : "the next service uses it");
  } else {
    KubernetesPolicy policy(cluster, arguments.verbose());
    wanted = wanted_policy(arguments.rest(), policy.choice());
    policy.set(wanted);
    said = "The operators restart with it, one after the other; jobs keep running.";
  }
  if (arguments.json()) {
    print_json({{"policy", wanted.name}, {"options", wanted.options}, {"reloaded", told}});
    return 0;
  }
  print_line(
      fmt::format("{}{}", wanted.name, wanted.options.empty() ? "" : " " + braces(wanted.options)));
  if (!arguments.quiet()) talk(said);
  return 0;
}

}  // namespace

Command policy_show_command() {
  return {.name = "policy show",
          .summary = "Show the scheduling policy and its options",
          .text = embedded("policy.md"),
          .options = with_cluster({format_option()}),
          .examples = {{"adaptdl policy show", "The policy of this machine."},
                       {"adaptdl policy show --cluster kubernetes", "The policy of the operator."}},
          .run = show_policy};
}

Command policy_set_command() {
  return {
      .name = "policy set",
      .summary = "Choose the scheduling policy, or change its options",
      .text = embedded("policy.md"),
      .options = with_cluster({format_option()}),
      .positionals =
          {{.name = "POLICY|OPTION=VALUE",
            .kind = Kind::suggested,
            .doc =
                "A policy (adaptdl-policy(5)), its options, or both. OPTION= restores the default.",
            .choices = policy_names(),
            .repeat = true}},
      .examples = {{"adaptdl policy set pollux fairness=-1", "Use Pollux."}},
      .run = set};
}

}  // namespace adaptdl::cli
