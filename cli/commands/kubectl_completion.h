#pragma once

// What may stand next on a line, from the command table, in the form that kubectl asks its plugins
// for (since 1.26): a candidate a line, with a tab and what it is, then ":" and a number that says
// what the shell is to do besides. https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins

#include <functional>
#include <string>
#include <vector>

namespace adaptdl::cli {

// Cobra's ShellCompDirective, as far as it is needed.
enum class CompletionDirective { files = 0, none = 4, folders = 16 };

struct Completion {
  struct Candidate {
    std::string word, meaning;
  };
  std::vector<Candidate> candidates = {};
  CompletionDirective directive = CompletionDirective::none;
};

// `words`: those behind the program's name, the last one begun ("": not yet). `jobs` gives names
// of jobs by how they begin and by the words that choose a cluster.
using JobNames = std::function<std::vector<std::string>(
    const std::string& prefix, const std::vector<std::string>& cluster_words)>;
Completion complete(const std::vector<std::string>& words, const JobNames& jobs);

std::string completion_text(const Completion& completion);

// The main function of kubectl_complete-adaptdl. Says nothing about what goes wrong: that would
// stand in the middle of the user's line.
int complete_for_kubectl(const std::vector<std::string>& words);

}  // namespace adaptdl::cli
