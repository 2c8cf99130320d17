#include <unistd.h>

#include "cli/cluster_choice.h"
#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/tensorboards.h"
#include "core/base/error.h"
#include "core/base/http_message.h"
#include "core/base/system.h"
#include "core/job/job_spec.h"

namespace adaptdl::cli {
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
        "NAME: {} cannot name an instance; allowed are lower-case letters, digits and -.", name));
  }
  return name;
}

int create(const Arguments& arguments) {
  const std::string name = checked_name(arguments);
  const std::string note = open_tensorboards(arguments)->create(name, arguments);
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

int list(const Arguments& arguments) {
  TensorBoardList found = open_tensorboards(arguments)->list();
  if (arguments.json()) {
    print_json({{"instances", std::move(found.records)}});
  } else if (!found.rows.empty()) {
    print(table(found.head, found.rows));
  } else if (!arguments.quiet()) {
    talk("There are no TensorBoard instances; `adaptdl tensorboard create NAME` makes one.");
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

void tell_tensorboard(const std::string& name, const std::string& address, int port) {
  print_line(fmt::format("Proxying to TensorBoard instance {} at http://{}:{}", name,
                         url_host(address), port));
}

Command tensorboard_create_command() {
  return {.name = "tensorboard create",
          .summary = "Make an instance that jobs can write to",
          .text = embedded("cmd_tensorboard.md"),
          .options = with_cluster(
              {{.name = "nodeport",
                .doc = "Kubernetes: every node shows it, too, at a port that `list` names."},
               {.name = "storageclass",
                .kind = Kind::text,
                .value = "NAME",
                .doc = "Kubernetes: of its volume. Default: one known to be shared among nodes, "
                       "else the cluster's."},
               {.name = "size",
                .kind = Kind::text,
                .value = "SIZE",
                .fallback = "1Gi",
                .doc = "Kubernetes: of its volume."},
               {.name = "image",
                .kind = Kind::text,
                .value = "IMAGE",
                .fallback = "tensorflow/tensorflow",
                .doc = "Kubernetes: one with `tensorboard` in PATH."}}),
          .positionals = {name_positional()},
          .examples = {{"adaptdl tensorboard create curves", "Make one called curves."},
                       {"adaptdl tensorboard create curves --cluster lab --size 10Gi",
                        "On Kubernetes."}},
          .run = create};
}

Command tensorboard_delete_command() {
  return {.name = "tensorboard delete",
          .summary = "Remove an instance, and what jobs wrote to it",
          .text = embedded("cmd_tensorboard.md"),
          .options = with_cluster({{.name = "yes", .letter = 'y', .doc = "Do not ask."}}),
          .positionals = {name_positional()},
          .examples = {{"adaptdl tensorboard delete curves", "Remove it."}},
          .run = remove};
}

Command tensorboard_list_command() {
  return {.name = "tensorboard list",
          .summary = "List instances",
          .text = embedded("cmd_tensorboard.md"),
          .options = with_cluster({format_option()}),
          .examples = {{"adaptdl tensorboard list", "What there is."}},
          .run = list};
}

Command tensorboard_proxy_command() {
  return {.name = "tensorboard proxy",
          .summary = "Show an instance to a browser, until Ctrl-C",
          .text = embedded("cmd_tensorboard.md"),
          .options = with_cluster({{.name = "address",
                                    .kind = Kind::text,
                                    .value = "ADDRESS",
                                    .fallback = "127.0.0.1",
                                    .doc = "Where to listen; 0.0.0.0 lets other machines in, too."},
                                   {.name = "port",
                                    .letter = 'p',
                                    .kind = Kind::integer,
                                    .value = "PORT",
                                    .doc = "Default: one that is free.",
                                    .min = 1,
                                    .max = 65535}}),
          .positionals = {name_positional()},
          .examples = {{"adaptdl tensorboard proxy curves", "Prints the address to open."}},
          .run = proxy};
}

}  // namespace adaptdl::cli
