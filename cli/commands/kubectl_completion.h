#pragma once

// Completion of a command line from the command table, in the format that kubectl expects of its
// plugins (since 1.26): one candidate a line, with a tab and its description, then ":" and a number
// that tells the shell what else to do.
// https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins

#include <functional>
#include <string>
#include <vector>

namespace adaptdl::cli {

// The part of Cobra's ShellCompDirective that is needed.
enum class CompletionDirective { files = 0, none = 4, folders = 16 };

struct Completion {
  struct Candidate {
    std::string word, meaning;
  };
  std::vector<Candidate> candidates = {};
  CompletionDirective directive = CompletionDirective::none;
};

// `words`: those after the program's name; the last one is incomplete ("": not started). `jobs`
// returns the names of jobs with a prefix, given the words that choose a cluster.
using JobNames = std::function<std::vector<std::string>(
    const std::string& prefix, const std::vector<std::string>& cluster_words)>;
Completion complete(const std::vector<std::string>& words, const JobNames& jobs);

std::string completion_text(const Completion& completion);

// The main function of kubectl_complete-adaptdl. Prints no errors: they would appear within the
// user's command line.
int complete_for_kubectl(const std::vector<std::string>& words);

}  // namespace adaptdl::cli
