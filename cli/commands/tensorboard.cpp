#include <unistd.h>

#include "cli/commands.h"
#include "cli/commands/tensorboard_options.h"
#include "cli/embedded.h"
#include "cli/frame/cluster_flags.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "core/base/error.h"
#include "core/base/system.h"
#include "core/client/cluster_choice.h"
#include "core/client/tensorboards.h"
#include "core/job/job_spec.h"
#include "core/net/http_message.h"

namespace adaptdl::cli {

TensorBoardOptions tensorboard_options(const Arguments& arguments) {
  return {.image = arguments.text("image"),
          .size = arguments.text("size"),
          .storage_class = arguments.text("storageclass"),
          .node_port = arguments.flag("nodeport")};
}

namespace {

std::unique_ptr<TensorBoards> open_tensorboards(const Arguments& arguments) {
  const ClusterChoice choice = chosen_cluster(arguments);
  return choice.local() ? open_local_tensorboards()
                        : open_kubernetes_tensorboards(choice, arguments.verbose());
}

std::string checked_name(const Arguments& arguments) {
  const std::string name = *arguments.positional("NAME");
  if (!valid_job_name(name)) {
    throw UsageError(fmt::format(
        "NAME: invalid instance name {}; use lower-case letters, digits and '-'.", name));
  }
  return name;
}

int create(const Arguments& arguments) {
  const std::string name = checked_name(arguments);
  for (const char* flag : {"nodeport", "storageclass", "size", "image"}) {
    if (arguments.given(flag) && chosen_cluster(arguments).local()) {
      throw UsageError(
          fmt::format("--{}: only for Kubernetes; an instance on this machine is a folder.", flag));
    }
  }
  const std::string note =
      open_tensorboards(arguments)->create(name, tensorboard_options(arguments));
  print_line(fmt::format("Successfully created TensorBoard instance {}", name));
  if (!arguments.quiet()) {
    if (!note.empty()) talk("adaptdl: " + note);
    talk(fmt::format(
        "`adaptdl submit --tensorboard {}` lets a job write there, `adaptdl tensorboard "
        "proxy {}` shows it.",
        name, name));
  }
  return 0;
}

bool confirmed(const std::string& question) {
  const std::string prompt = question + " [y/N] ";
  [[maybe_unused]] const ssize_t asked = write(STDERR_FILENO, prompt.data(), prompt.size());
  char answer[16];
  const ssize_t size = read(STDIN_FILENO, answer, sizeof answer);
  return size > 0 && (answer[0] == 'y' || answer[0] == 'Y');
}

int remove(const Arguments& arguments) {
  const std::string name = checked_name(arguments);
  const auto instances = open_tensorboards(arguments);
  const std::string what = instances->removal(name);
  if (!arguments.flag("yes") && is_terminal(STDIN_FILENO) && is_terminal(STDERR_FILENO) &&
      !confirmed(fmt::format("Delete {}?", what))) {
    return static_cast<int>(ExitCode::error);
  }
  instances->remove(name);
  print_line(fmt::format("Successfully deleted TensorBoard instance {}", name));
  return 0;
}

int list_instances(const Arguments& arguments) {
  TensorBoardList found = open_tensorboards(arguments)->list();
  if (arguments.json()) {
    print_json({{"instances", std::move(found.records)}});
  } else if (!found.rows.empty()) {
    print(table(found.head, found.rows));
  } else if (!arguments.quiet()) {
    talk("There are no TensorBoard instances; create one with `adaptdl tensorboard create NAME`.");
  }
  return 0;
}

int proxy(const Arguments& arguments) {
  std::optional<int> port;
  if (arguments.given("port")) port = static_cast<int>(arguments.integer("port"));
  open_tensorboards(arguments)->proxy(checked_name(arguments), arguments.text("address"), port);
  return 0;
}

Positional name_positional() {
  return {.name = "NAME", .doc = "The instance's name, as `--tensorboard` of submit takes it."};
}

}  // namespace

Command tensorboard_create_command() {
  return {
      .name = "tensorboard create",
      .summary = "Create an instance that jobs can write to",
      .text = embedded("tensorboard.md"),
      .options = with_cluster(
          {{.name = "nodeport",
            .doc = "Kubernetes: also serve it, without a password, in the cluster and on a port "
                   "of every node, which `list` shows."},
           {.name = "storageclass",
            .kind = Kind::text,
            .value = "NAME",
            .doc = "Kubernetes: storage class of its volume. Default: one that is known to be "
                   "shared among nodes, else the cluster's default."},
           {.name = "size",
            .kind = Kind::text,
            .value = "SIZE",
            .fallback = "1Gi",
            .doc = "Kubernetes: size of its volume."},
           {.name = "image",
            .kind = Kind::text,
            .value = "IMAGE",
            .fallback = "tensorflow/tensorflow:2.19.0",
            .doc = "Kubernetes: image with `tensorboard` and `grep` in PATH."}}),
      .positionals = {name_positional()},
      .examples = {{"adaptdl tensorboard create curves", "Create an instance named curves."},
                   {"adaptdl tensorboard create curves --cluster lab --size 10Gi",
                    "Create it on Kubernetes."}},
      .run = create};
}

Command tensorboard_delete_command() {
  return {.name = "tensorboard delete",
          .summary = "Remove an instance and its data",
          .text = embedded("tensorboard.md"),
          .options =
              with_cluster({{.name = "yes", .letter = 'y', .doc = "Do not ask for confirmation."}}),
          .positionals = {name_positional()},
          .examples = {{"adaptdl tensorboard delete curves", "Remove it."}},
          .run = remove};
}

Command tensorboard_list_command() {
  return {.name = "tensorboard list",
          .summary = "List instances",
          .text = embedded("tensorboard.md"),
          .options = with_cluster({format_option()}),
          .examples = {{"adaptdl tensorboard list", "List all instances."}},
          .run = list_instances};
}

Command tensorboard_proxy_command() {
  return {
      .name = "tensorboard proxy",
      .summary = "Serve an instance to browsers until Ctrl-C",
      .text = embedded("tensorboard.md"),
      .options = with_cluster({{.name = "address",
                                .kind = Kind::text,
                                .value = "ADDRESS",
                                .fallback = "127.0.0.1",
                                .doc = "Address to listen on; 0.0.0.0 also admits other machines."},
                               {.name = "port",
                                .letter = 'p',
                                .kind = Kind::integer,
                                .value = "PORT",
                                .doc = "Port to listen on. Default: any free port.",
                                .min = 1,
                                .max = 65535}}),
      .positionals = {name_positional()},
      .examples = {{"adaptdl tensorboard proxy curves", "Print the address to open."}},
      .run = proxy};
}

}  // namespace adaptdl::cli
