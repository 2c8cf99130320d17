#include "cli/commands.h"
#include "cli/commands/installing.h"
#include "cli/embedded.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "core/base/files.h"
#include "core/base/version.h"
#include "core/client/known_clusters.h"
#include "core/cluster/kubernetes/install/installation.h"
#include "core/cluster/kubernetes/install/manifests.h"
#include "core/formats/yaml_text.h"

namespace adaptdl::cli {
namespace {

using kubernetes::ObjectChange;

constexpr size_t kMaxValues = 1u << 20;

// --image, split into image.repository, image.tag and image.digest.
Json image_values(const std::string& image) {
  if (image.empty()) return Json::object();
  const size_t at = image.find('@');
  std::string name = image.substr(0, at), tag;
  // A colon before the last slash belongs to a port.
  const size_t colon = name.rfind(':'), slash = name.rfind('/');
  if (colon != std::string::npos && (slash == std::string::npos || colon > slash)) {
    tag = name.substr(colon + 1);
    name.resize(colon);
  }
  if (name.empty()) throw UsageError("--image: no repository; give REPO:TAG or REPO@DIGEST.");
  // null removes earlier values.
  return {{"image",
           {{"repository", name},
            {"tag", tag.empty() ? Json() : Json(tag)},
            {"digest", at == std::string::npos ? Json() : Json(image.substr(at + 1))}}}};
}

// A new tag removes an earlier digest, which would have precedence.
void make_way_for_tag(const Json& over, Json& kept) {
  const Json image = over.value("image", Json());
  const bool has_tag = image.is_object() && !image.value("tag", Json()).is_null();
  if (!has_tag || image.contains("digest")) return;
  if (kept.contains("image") && kept["image"].is_object()) kept["image"].erase("digest");
}

// Of values files of AdaptDL's Helm chart.
void refuse_python_image(const std::string& file, const Json& values) {
  const Json image = values.value("image", Json());
  const std::string repository =
      image.is_object() ? json_get_or<std::string>(image, "repository", file, "") : "";
  if (!("/" + repository).ends_with("/petuum/adaptdl-sched")) return;
  throw UsageError(fmt::format(
      "{}: image.repository: {} is the scheduler of Python AdaptDL, which has no adaptdl inside; "
      "give --image NAME; `adaptdl image push REPO` builds one from this program and prints its "
      "name.",
      file, repository));
}

// All values, later ones with precedence: `kept`, the files, --image, --set.
Json given_values(const Arguments& arguments, Json kept) {
  for (const std::string& file : arguments.list("values")) {
    const YamlNode node = parse_yaml(read_file(file, kMaxValues), file);
    kubernetes::read_values(node);  // its errors name the line
    const Json over = kubernetes::values_json(node);
    if (!arguments.given("image")) refuse_python_image(file, over);
    make_way_for_tag(over, kept);
    kept = kubernetes::merged_values(std::move(kept), over);
  }
  kept = kubernetes::merged_values(std::move(kept), image_values(arguments.text("image")));
  const std::vector<std::string> set = arguments.list("set");
  make_way_for_tag(kubernetes::values_json(parse_yaml("", "--set", set)), kept);
  const YamlNode all = parse_yaml(dump_json(kept), "the values", set);
  kubernetes::read_values(all);
  return kubernetes::values_json(all);
}

std::vector<Json> objects_of(const Json& given, const std::string& name_space) {
  const kubernetes::Values values = kubernetes::read_values(given);
  if (values.image().empty()) {
    throw UsageError(
        "no operator image: give --image NAME; `adaptdl image push REPO` builds one from this "
        "program and prints its name.");
  }
  return kubernetes::manifests(values, name_space, given, version());
}

void say_changes(const std::vector<ObjectChange>& changes) {
  for (const ObjectChange& change : changes) {
    const char* sign = change.what == ObjectChange::What::create   ? "+"
                       : change.what == ObjectChange::What::change ? "~"
                                                                   : "-";
    talk(fmt::format("{} {}", sign, kubernetes::describe_object(change.object)));
    for (const std::string& line : change.lines) talk("    " + line);
  }
}

void print_objects(const std::vector<Json>& objects, bool as_json) {
  if (as_json) {
    return print_json({{"apiVersion", "v1"}, {"kind", "List"}, {"items", objects}});
  }
  for (const Json& object : objects) print("---\n" + yaml_text(object));
}

int put_in_place(const Arguments& arguments, kube::Client& client, const std::string& name_space,
                 const std::vector<Json>& objects) {
  const std::vector<ObjectChange> changes =
      kubernetes::plan_installation(client, objects, name_space);
  const bool ask = asks(arguments);
  if (!arguments.quiet() || ask) say_changes(changes);
  if (arguments.flag("dry-run")) {
    if (changes.empty()) talk("nothing would change");
    return 0;
  }
  if (!changes.empty() && ask &&
      !agreed(fmt::format("Make these changes in {}?", client.config().source))) {
    talk("nothing was changed");
    return 1;
  }
  for (const ObjectChange& change : changes) kubernetes::carry_out(client, change);
  remember_cluster(client.config());
  const double patience = timeout_option(arguments);
  if (patience > 0) {
    kubernetes::wait_until_ready(client, name_space, Seconds(patience),
                                 [&](const std::string& why) {
                                   if (!arguments.quiet()) talk("waiting: " + why);
                                 });
  }
  if (!arguments.quiet()) {
    talk(fmt::format("{} in namespace {}; next: `adaptdl submit DIR --cluster kubernetes`",
                     changes.empty() ? "nothing to change" : "installed", name_space));
  }
  return 0;
}

int install(const Arguments& arguments) {
  const std::string name_space = arguments.text("namespace");
  const std::vector<Json> objects = objects_of(given_values(arguments, Json::object()), name_space);
  const std::string format = arguments.text("format");
  if (format != "text") return print_objects(objects, format == "json"), 0;
  kube::Client client = installer_client(arguments);
  if (const auto other = kubernetes::installed_in(client); other && *other != name_space) {
    fail(
        "AdaptDL is already installed in namespace {}, and a cluster can have only one "
        "installation: change it with `adaptdl upgrade`, or remove it with `adaptdl uninstall`",
        *other);
  }
  return put_in_place(arguments, client, name_space, objects);
}

int upgrade(const Arguments& arguments) {
  kube::Client client = installer_client(arguments);
  const auto name_space = kubernetes::installed_in(client);
  if (!name_space) fail("AdaptDL is not installed in this cluster; run `adaptdl install`");
  const Json kept = arguments.flag("reset-values")
                        ? Json::object()
                        : kubernetes::installed_values(client, *name_space);
  return put_in_place(arguments, client, *name_space,
                      objects_of(given_values(arguments, kept), *name_space));
}

Option image_option() {
  return {.name = "image",
          .kind = Kind::text,
          .value = "IMAGE",
          .doc =
              "The operator's image, as `adaptdl image push` prints it; sets image.repository, "
              "image.tag and image.digest."};
}
Option values_option() {
  return {.name = "values",
          .letter = 'f',
          .kind = Kind::file,
          .value = "FILE",
          .doc = "YAML file of values; later files win.",
          .repeat = true};
}
Option set_value_option() {
  return {.name = "set",
          .kind = Kind::text,
          .value = "KEY=VALUE",
          .doc = "Set one value, such as sched.interval=30s; it wins over files.",
          .repeat = true};
}
Option timeout() {
  return {.name = "timeout",
          .kind = Kind::text,
          .value = "DURATION",
          .fallback = "5m",
          .doc = "Time to wait until the operators are ready; 0: do not wait."};
}
Option dry_run() {
  return {.name = "dry-run", .doc = "Show the changes without making them."};
}

}  // namespace

Command install_command() {
  return {
      .name = "install",
      .summary = "Install the operator in a Kubernetes cluster",
      .text = embedded("install.md"),
      .options = {{.name = "namespace",
                   .letter = 'n',
                   .kind = Kind::text,
                   .value = "NAME",
                   .fallback = "adaptdl",
                   .doc = "Namespace of the operator; created if missing."},
                  image_option(),
                  values_option(),
                  set_value_option(),
                  context_option(),
                  kubeconfig_option(),
                  yes_option(),
                  dry_run(),
                  timeout(),
                  {.name = "format",
                   .letter = 'o',
                   .kind = Kind::choice,
                   .value = "text|yaml|json",
                   .fallback = "text",
                   .doc = "Output format; yaml and json print the manifests, for `kubectl apply` "
                          "or other tools, without contacting a cluster.",
                   .choices = {"text", "yaml", "json"}}},
      .examples = {{"adaptdl install --image $(adaptdl image push registry.example.com/me/adaptdl)",
                    "Install this binary as the cluster's operator."},
                   {"adaptdl install --values values.yaml -o yaml | kubectl diff -f -",
                    "Compare a cluster with values of AdaptDL's Helm chart."}},
      .run = install};
}

Command upgrade_command() {
  return {.name = "upgrade",
          .summary = "Upgrade or reconfigure the operator in a Kubernetes cluster",
          .text = embedded("upgrade.md"),
          .options = {image_option(),
                      values_option(),
                      set_value_option(),
                      {.name = "reset-values",
                       .doc = "Discard all earlier values of the installation."},
                      context_option(),
                      kubeconfig_option(),
                      yes_option(),
                      dry_run(),
                      timeout()},
          .examples = {{"adaptdl upgrade --set sched.policy=pollux", "Change one value."}},
          .run = upgrade};
}

}  // namespace adaptdl::cli
