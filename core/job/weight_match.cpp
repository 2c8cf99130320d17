#include "core/job/weight_match.h"

#include <algorithm>
#include <fnmatch.h>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "core/base/error.h"

namespace adaptdl {
namespace {

constexpr size_t kMostShown = 8;  // names in a message

bool is_floating(const std::string& dtype) {
  return dtype.starts_with("float") || dtype.starts_with("bfloat");
}

bool is_ignored(const std::string& name, const FromSpec& from) {
  return std::any_of(from.ignore.begin(), from.ignore.end(), [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  });
}

std::string describe(const std::string& dtype, const std::vector<int64_t>& shape) {
  return fmt::format("{} [{}]", dtype, fmt::join(shape, ", "));
}

// "2 tensors are missing in it: a, b".
void add_problem(std::string& text, const std::vector<std::string>& names, const char* one,
                 const char* several) {
  if (names.empty()) return;
  const size_t shown = std::min(names.size(), kMostShown);
  text += fmt::format("{}{} {}: {}", text.empty() ? "" : "; ", names.size(),
                      names.size() == 1 ? one : several,
                      fmt::join(names.begin(), names.begin() + static_cast<long>(shown), ", "));
  if (shown < names.size()) text += ", ...";
}

// The text that * stands for in `name`; nothing if the pattern does not match.
std::optional<std::string_view> star_of(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == pattern.npos) {
    return pattern == name ? std::optional<std::string_view>("") : std::nullopt;
  }
  const std::string_view before = pattern.substr(0, star), after = pattern.substr(star + 1);
  const bool fits = name.size() >= before.size() + after.size() && name.starts_with(before) &&
                    name.ends_with(after);
  if (!fits) return std::nullopt;
  return name.substr(before.size(), name.size() - before.size() - after.size());
}

}  // namespace

std::string problem_of_rename(const std::string& rule) {
  const auto count = [](std::string_view text, char c) {
    return std::count(text.begin(), text.end(), c);
  };
  const size_t equals = rule.find('=');
  if (count(rule, '=') != 1 || equals == 0) return "is not OLD=NEW, such as module.*=*";
  const std::string_view text = rule;
  const auto before = count(text.substr(0, equals), '*');
  if (before > 1 || before != count(text.substr(equals), '*')) {
    return "needs one * on each side of =, or none";
  }
  return "";
}

std::string renamed(const std::string& name, const std::vector<std::string>& rules) {
  for (const std::string_view rule : rules) {
    const size_t equals = rule.find('=');
    const auto star = star_of(rule.substr(0, equals), name);
    if (!star) continue;
    std::string result(rule.substr(equals + 1));
    const size_t at = result.find('*');
    return at == result.npos ? result : result.replace(at, 1, *star);
  }
  return name;
}

WeightMatch match_weights(const std::vector<ModelTensor>& model, const WeightsFile& file,
                          const FromSpec& from) {
  std::map<std::string, size_t> found;  // by new name
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    const std::string name = renamed(file.tensors[i].name, from.rename);
    if (!found.try_emplace(name, i).second) {
      fail("{}: two of its tensors are named {} after from.rename; change a rule", file.path, name);
    }
  }
  WeightMatch match;
  std::vector<std::string> missing, unfit, extra;  // not ignored
  std::set<std::string> used;
  for (size_t i = 0; i < model.size(); ++i) {
    const ModelTensor& wanted = model[i];
    const bool ignored = is_ignored(wanted.name, from);
    const auto held = found.find(wanted.name);
    if (held == found.end()) {
      if (wanted.kind != ModelTensor::Kind::frozen) match.kept.push_back(wanted.name);
      if (!ignored && wanted.kind == ModelTensor::Kind::parameter) missing.push_back(wanted.name);
      continue;
    }
    used.insert(wanted.name);
    const StoredTensor& stored = file.tensors[held->second];
    const bool converts = is_floating(stored.dtype) && is_floating(wanted.dtype);
    if (stored.shape == wanted.shape && (converts || stored.dtype == wanted.dtype)) {
      match.pairs.emplace_back(i, held->second);
      continue;
    }
    match.kept.push_back(wanted.name);
    if (ignored) continue;
    unfit.push_back(fmt::format("{} is {}, in the file {}", wanted.name,
                                describe(wanted.dtype, wanted.shape),
                                describe(stored.dtype, stored.shape)));
  }
  for (const auto& [name, index] : found) {
    if (used.contains(name)) continue;
    // A second name of a shared tensor says nothing new.
    const std::string& same_as = file.tensors[index].same_as;
    if (!same_as.empty() && used.contains(renamed(same_as, from.rename))) continue;
    match.unused.push_back(name);
    if (!is_ignored(name, from) && !file.tensors[index].frozen) extra.push_back(name);
  }
  std::string problems;
  add_problem(problems, missing, "tensor is missing in it", "tensors are missing in it");
  add_problem(problems, extra, "tensor is not in the model", "tensors are not in the model");
  add_problem(problems, unfit, "tensor differs", "tensors differ");
  if (!problems.empty()) {
    fail(
        "{}: does not fit the model: {}. Change names with from.rename, or list in from.ignore "
        "what "
        "may differ",
        file.path, problems);
  }
  if (match.pairs.empty()) {
    fail("{}: none of its {} tensors fits the model; change their names with from.rename",
         file.path, file.tensors.size());
  }
  return match;
}

}  // namespace adaptdl
