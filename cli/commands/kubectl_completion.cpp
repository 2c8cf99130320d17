#include "cli/commands/kubectl_completion.h"

#include <algorithm>

#include "cli/commands.h"
#include "cli/frame/cluster_flags.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "core/base/error.h"

namespace adaptdl::cli {
namespace {

constexpr int kMostNames = 200;

// A partial command line.
class Line {
 public:
  Line(const std::vector<std::string>& words, const JobNames& jobs) : jobs_(jobs) {
    for (size_t i = 0; i + 1 < words.size(); ++i) take(words[i]);
    if (!words.empty()) begun_ = words.back();
  }

  Completion next() {
    if (after_dashes_) return {.directive = CompletionDirective::files};
    if (awaited_ != nullptr) return values(awaited_->kind, awaited_->choices, begun_, "");
    if (begun_.starts_with("--") && begun_.find('=') != std::string::npos) return assigned();
    if (begun_.starts_with('-')) return flags();
    return command_ == nullptr ? names() : positional();
  }

 private:
  void take(const std::string& word) {
    if (after_dashes_) return;
    if (awaited_ != nullptr) {
      if (chooses_cluster(*awaited_)) cluster_words_.insert(cluster_words_.end(), {flag_, word});
      awaited_ = nullptr;
    } else if (word == "--") {
      after_dashes_ = true;
    } else if (word.starts_with('-')) {
      take_flag(word);
    } else if (command_ != nullptr) {
      ++positionals_;
    } else if (group_ != nullptr) {
      command_ = find_command(std::string(group_->name) + " " + word);
      if (command_ == nullptr) after_dashes_ = true;  // unknown command: nothing can be completed
    } else if ((command_ = find_command(word)) == nullptr && word != "help") {
      group_ = find_group(word);
      if (group_ == nullptr) after_dashes_ = true;
    }
  }

  void take_flag(const std::string& word) {
    const Option* option = find_option(word.substr(0, word.find('=')));
    if (option == nullptr || option->kind == Kind::flag) return;
    if (word.starts_with("--") && word.find('=') != std::string::npos) {
      if (chooses_cluster(*option)) cluster_words_.push_back(word);
      return;
    }
    flag_ = "--" + std::string(option->name);
    awaited_ = option;
  }

  static bool chooses_cluster(const Option& option) { return !option.shared_variable.empty(); }

  template <typename Act>
  void each_option(Act act) const {
    if (command_ != nullptr) {
      for (const Option& option : command_->options) act(option);
    }
    for (const Option& option : global_options()) act(option);
  }

  const Option* find_option(const std::string& flag) const {
    const Option* found = nullptr;
    each_option([&](const Option& option) {
      const bool is_long = flag == "--" + std::string(option.name);
      if (is_long || (option.letter != 0 && flag == std::string{'-', option.letter})) {
        found = &option;
      }
    });
    return found;
  }

  void add(Completion& result, const std::string& word, std::string_view meaning) const {
    if (word.starts_with(begun_)) result.candidates.push_back({word, std::string(meaning)});
  }

  Completion names() const {
    Completion result;
    const CommandGroup* before = nullptr;
    for (const Command& command : commands()) {
      if (command.hidden) continue;
      const CommandGroup* group = group_of(command);
      if (group_ != nullptr && group == group_) {
        add(result, std::string(command.name.substr(group->name.size() + 1)), command.summary);
      } else if (group_ == nullptr && group == nullptr) {
        add(result, std::string(command.name), command.summary);
      } else if (group_ == nullptr && group != before) {
        add(result, std::string(group->name), group->summary);
      }
      before = group;
    }
    return result;
  }

  Completion flags() const {
    Completion result;
    each_option(
        [&](const Option& option) { add(result, "--" + std::string(option.name), option.doc); });
    return result;
  }

  Completion assigned() const {
    const size_t sign = begun_.find('=');
    const Option* option = find_option(begun_.substr(0, sign));
    if (option == nullptr) return {};
    return values(option->kind, option->choices, begun_.substr(sign + 1),
                  begun_.substr(0, sign + 1));
  }

  Completion positional() const {
    const auto& all = command_->positionals;
    if (all.empty()) return {};
    const bool more = positionals_ < all.size() || all.back().repeat;
    if (!more) return {};
    const Positional& next = all[std::min(positionals_, all.size() - 1)];
    return values(next.kind, next.choices, begun_, "");
  }

  Completion values(Kind kind, const std::vector<std::string_view>& choices,
                    const std::string& prefix, const std::string& before) const {
    Completion result;
    switch (kind) {
      case Kind::file:
        result.directive = CompletionDirective::files;
        break;
      case Kind::directory:
        result.directive = CompletionDirective::folders;
        break;
      case Kind::job:
      case Kind::job_or_run:
        for (const std::string& name : jobs_(prefix, cluster_words_)) {
          result.candidates.push_back({before + name, ""});
        }
        break;
      case Kind::choice:
      case Kind::suggested:
        for (const std::string_view choice : choices) {
          if (choice.starts_with(prefix))
            result.candidates.push_back({before + std::string(choice), ""});
        }
        break;
      case Kind::flag:
      case Kind::text:
      case Kind::integer:
      case Kind::words:
        break;
    }
    return result;
  }

  const JobNames& jobs_;
  std::string begun_, flag_;
  const CommandGroup* group_ = nullptr;
  const Command* command_ = nullptr;
  const Option* awaited_ = nullptr;  // the option whose value comes next
  size_t positionals_ = 0;           // already on the line
  bool after_dashes_ = false;
  std::vector<std::string> cluster_words_;
};

}  // namespace

Completion complete(const std::vector<std::string>& words, const JobNames& jobs) {
  return Line(words, jobs).next();
}

std::string completion_text(const Completion& completion) {
  std::string text;
  for (const auto& [word, meaning] : completion.candidates) {
    text += meaning.empty() ? word + "\n" : word + "\t" + meaning + "\n";
  }
  return text + fmt::format(":{}\n", static_cast<int>(completion.directive));
}

int complete_for_kubectl(const std::vector<std::string>& words) {
  const auto jobs = [](const std::string& prefix, std::vector<std::string> line) {
    line.insert(line.begin(), "ls");
    const auto lookup = [](const char* name) { return std::getenv(name); };
    try {
      return open_cluster(parse(line, lookup).arguments).query->names(prefix, kMostNames);
    } catch (const Error&) {
      return std::vector<std::string>();
    }
  };
  print(completion_text(complete(words, jobs)));
  return 0;
}

}  // namespace adaptdl::cli
