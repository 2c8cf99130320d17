#include "cli/commands.h"

#include <cctype>

#include "cli/embedded.h"

namespace adaptdl::cli {

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      run_command(),
      torchrun_command(),
      init_command(),
      inspect_command(),
      export_command(),
      serve_command(),
      submit_command(),
      ls_command(),
      top_command(),
      describe_command(),
      explain_command(),
      logs_command(),
      events_command(),
      wait_command(),
      scale_command(),
      suspend_command(),
      resume_command(),
      cancel_command(),
      delete_command(),
      cp_command(),
      exec_command(),
      tensorboard_create_command(),
      tensorboard_delete_command(),
      tensorboard_list_command(),
      tensorboard_proxy_command(),
      policy_show_command(),
      policy_set_command(),
      cluster_list_command(),
      cluster_show_command(),
      cluster_use_command(),
      install_command(),
      upgrade_command(),
      uninstall_command(),
      operator_command(),
      image_build_command(),
      image_push_command(),
      simulate_command(),
      profile_command(),
      doctor_command(),
      completion_command(),
      licenses_command(),
      dump_cli_command(),
      complete_command(),
      probe_command(),
      runner_command(),
      storage_command(),
  };
  return table;
}

const std::vector<CommandGroup>& command_groups() {
  static const std::vector<CommandGroup> table = {
      {.name = "tensorboard",
       .summary = "Manage TensorBoards of jobs: create, delete, list, proxy",
       .text = embedded("tensorboard.md")},
      {.name = "policy",
       .summary = "Show or set the scheduling policy: show, set",
       .text = embedded("policy.md")},
      {.name = "cluster",
       .summary = "Choose the cluster for jobs: list, show, use",
       .text = embedded("cluster.md")},
      {.name = "image",
       .summary = "Build container images without a daemon: build, push",
       .text = embedded("image.md")},
  };
  return table;
}

const std::vector<Option>& global_options() {
  static const std::vector<Option> table = {
      {.name = "help",
       .letter = 'h',
       .doc = "Show help for the program, or for one command.",
       .variable = false},
      {.name = "version", .doc = "Show the version and the commit.", .variable = false},
      {.name = "verbose", .letter = 'v', .doc = "Print more about what is done."},
      {.name = "quiet", .letter = 'q', .doc = "Print only results and errors."},
      {.name = "no-color",
       .doc = "Disable colours and redrawn displays, as NO_COLOR and TERM=dumb do."},
  };
  return table;
}

const Command* find_command(std::string_view name) {
  for (const Command& command : commands()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

const CommandGroup* find_group(std::string_view name) {
  for (const CommandGroup& group : command_groups()) {
    if (group.name == name) return &group;
  }
  return nullptr;
}

const CommandGroup* group_of(const Command& command) {
  const size_t blank = command.name.find(' ');
  return blank == std::string_view::npos ? nullptr : find_group(command.name.substr(0, blank));
}

Option format_option(std::string_view doc) {
  return {.name = "format",
          .letter = 'o',
          .kind = Kind::choice,
          .value = "text|json",
          .fallback = "text",
          .doc = doc,
          .choices = {"text", "json"}};
}

Option set_option() {
  return {.name = "set",
          .kind = Kind::text,
          .value = "KEY=VALUE",
          .doc =
              "Override a setting of the archive, such as optimizer.lr=0.1; `adaptdl inspect` "
              "lists them.",
          .repeat = true};
}

Option context_option() {
  return {.name = "context",
          .kind = Kind::text,
          .value = "NAME",
          .doc = "Context of the kubeconfig. Default: the current one."};
}

Option kubeconfig_option() {
  return {.name = "kubeconfig",
          .kind = Kind::file,
          .value = "FILE",
          .doc = "Kubeconfig file. Default: KUBECONFIG or ~/.kube/config."};
}

std::vector<Option> with_cluster(std::vector<Option> own, char letter) {
  own.push_back({.name = "cluster",
                 .kind = Kind::text,
                 .value = "NAME",
                 .doc = "Cluster: local (this machine), kubernetes (the current context), or the "
                        "name of a context. Default: that of `adaptdl cluster use`, else local.",
                 .shared_variable = "ADAPTDL_CLUSTER"});
  own.push_back({.name = "namespace",
                 .letter = letter,
                 .kind = Kind::text,
                 .value = "NAME",
                 .doc = "Kubernetes: namespace of the jobs. Default: that of the context.",
                 .shared_variable = "ADAPTDL_NAMESPACE"});
  own.push_back({.name = "context",
                 .kind = Kind::text,
                 .value = "NAME",
                 .doc = "Kubernetes: context of the kubeconfig. Default: the current one.",
                 .shared_variable = "ADAPTDL_CONTEXT"});
  own.push_back({.name = "kubeconfig",
                 .kind = Kind::file,
                 .value = "FILE",
                 .doc = "Kubernetes: kubeconfig file. Default: KUBECONFIG or ~/.kube/config.",
                 .shared_variable = "ADAPTDL_KUBECONFIG"});
  return own;
}

std::string variable_name(std::string_view command, const Option& option) {
  if (!option.shared_variable.empty()) return std::string(option.shared_variable);
  std::string name = "ADAPTDL_";
  name += command;
  if (!command.empty()) name += '_';
  name += option.name;
  for (char& letter : name) {
    letter = letter == '-' || letter == ' ' ? '_' : static_cast<char>(std::toupper(letter));
  }
  return name;
}

}  // namespace adaptdl::cli
