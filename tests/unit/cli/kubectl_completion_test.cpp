// What kubectl offers behind `kubectl adaptdl`.

#include "cli/commands/kubectl_completion.h"

#include <doctest/doctest.h>

namespace adaptdl::cli {
namespace {

using Words = std::vector<std::string>;

Words asked;  // the words that choose a cluster, when names of jobs were asked for

Completion after(const Words& words) {
  asked = {"nobody asked"};
  return complete(words, [](const std::string& prefix, const Words& cluster_words) {
    asked = cluster_words;
    Words names;
    for (const char* name : {"net-1", "net-2", "other"}) {
      if (std::string(name).starts_with(prefix)) names.emplace_back(name);
    }
    return names;
  });
}

Words found(const Words& words) {
  Words result;
  for (const auto& candidate : after(words).candidates) result.push_back(candidate.word);
  return result;
}

}  // namespace

TEST_CASE("commands, groups and their verbs") {
  CHECK(found({"des"}) == Words{"describe"});
  CHECK(found({"tens"}) == Words{"tensorboard"});
  CHECK(found({"tensorboard", ""}) == Words{"create", "delete", "list", "proxy"});
  CHECK(found({"-q", "tensorboard", "c"}) == Words{"create"});
  CHECK(found({"__"}).empty());
  CHECK(found({"nothing", ""}).empty());
  CHECK(found({"help", "tens"}) == Words{"tensorboard"});
  CHECK(found({}).size() > 20);
}

TEST_CASE("flags and their values") {
  CHECK(found({"ls", "--al"}) == Words{"--all", "--all-namespaces"});
  CHECK(found({"ls", "--verb"}) == Words{"--verbose"});
  CHECK(found({"ls", "-o", "ya"}) == Words{"yaml"});
  CHECK(found({"ls", "--format=js"}) == Words{"--format=json", "--format=jsonpath="});
  CHECK(found({"ls", "--nothing=js"}).empty());
  CHECK(after({"ls", "--kubeconfig", ""}).directive == CompletionDirective::files);
  CHECK(after({"ls", "--namespace", ""}).directive == CompletionDirective::none);
}

TEST_CASE("arguments") {
  CHECK(found({"describe", "net"}) == Words{"net-1", "net-2"});
  CHECK(asked.empty());
  // Of the cluster that the line is about.
  CHECK(found({"describe", "-n", "team", "--context=lab", "-o", "json", "o"}) == Words{"other"});
  CHECK(asked == Words{"--namespace", "team", "--context=lab"});
  CHECK(found({"describe", "net-1", ""}).empty());
  CHECK(found({"wait", "net-1", "n"}) == Words{"net-1", "net-2"});
  // submit's -n is the name of a job.
  after({"submit", "-n", "x", ""});
  CHECK(asked == Words{"nobody asked"});
  CHECK(after({"submit", ""}).directive == CompletionDirective::files);
  CHECK(after({"image", "build", ""}).directive == CompletionDirective::folders);
  CHECK(after({"submit", "x", "--", "-"}).directive == CompletionDirective::files);
  CHECK(found({"completion", "z"}) == Words{"zsh"});
  CHECK(found({"delete", "net-1", "n"}) == Words{"net-1", "net-2"});
  CHECK(found({"logs", "o"}) == Words{"other"});
  CHECK(found({"policy", "set", "po"}) == Words{"pollux"});
  CHECK(found({"simulate", "--policy", "ti"}) == Words{"tiresias"});
}

TEST_CASE("in kubectl's form") {
  CHECK(completion_text({{{"a", "first"}, {"b", ""}}, CompletionDirective::folders}) ==
        "a\tfirst\nb\n:16\n");
}

}  // namespace adaptdl::cli
