#include "core/cluster/kubernetes/nodes/node_affinity.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/base/number.h"
#include "core/formats/json_fields.h"

namespace adaptdl::kubernetes {

namespace {

struct Requirement {
  std::string key, relation;
  std::vector<std::string> values;
};

Requirement read(const Json& object) {
  Requirement result{text_at(object, "key"), text_at(object, "operator"), {}};
  for (const Json& value : list_at(object, "values")) {
    result.values.push_back(value.is_string() ? value.get<std::string>() : "");
  }
  return result;
}

// `value`: the label's value; nothing if the node lacks the label.
bool meets(const Requirement& wanted, const std::optional<std::string>& value) {
  const bool among =
      value && std::find(wanted.values.begin(), wanted.values.end(), *value) != wanted.values.end();
  if (wanted.relation == "In") return among;
  if (wanted.relation == "NotIn") return !among;
  if (wanted.relation == "Exists") return value.has_value();
  if (wanted.relation == "DoesNotExist") return !value;
  if (!value || wanted.values.size() != 1) return false;
  const auto has = try_parse<int64_t>(*value), limit = try_parse<int64_t>(wanted.values[0]);
  if (!has || !limit) return false;
  if (wanted.relation == "Gt") return *has > *limit;
  return wanted.relation == "Lt" && *has < *limit;
}

bool meets_term(const Json& term, const NodeFacts& node) {
  const Json &labels = list_at(term, "matchExpressions"), &fields = list_at(term, "matchFields");
  if (labels.empty() && fields.empty()) return false;  // as in Kubernetes
  const auto has_label = [&](const Json& object) {
    const Requirement wanted = read(object);
    const auto found = node.labels.find(wanted.key);
    return found == node.labels.end() ? meets(wanted, std::nullopt) : meets(wanted, found->second);
  };
  const auto has_field = [&](const Json& object) {
    const Requirement wanted = read(object);
    return wanted.key == "metadata.name" && meets(wanted, node.name);
  };
  return std::all_of(labels.begin(), labels.end(), has_label) &&
         std::all_of(fields.begin(), fields.end(), has_field);
}

}  // namespace

std::map<std::string, std::string> node_selector(const Json& pod_spec) {
  std::map<std::string, std::string> result;
  for (const auto& [label, value] : object_at(pod_spec, "nodeSelector").items()) {
    if (value.is_string()) result[label] = value.get<std::string>();
  }
  return result;
}

const Json& required_affinity(const Json& pod_spec) {
  return member(member(member(pod_spec, "affinity"), "nodeAffinity"),
                "requiredDuringSchedulingIgnoredDuringExecution");
}

bool meets_affinity(const Json& required, const NodeFacts& node) {
  if (required.is_null()) return true;
  const Json& terms = list_at(required, "nodeSelectorTerms");
  return std::any_of(terms.begin(), terms.end(),
                     [&](const Json& term) { return meets_term(term, node); });
}

std::string affinity_text(const Json& required) {
  std::vector<std::string> terms;
  for (const Json& term : list_at(required, "nodeSelectorTerms")) {
    std::vector<std::string> parts;
    for (const char* key : {"matchExpressions", "matchFields"}) {
      for (const Json& object : list_at(term, key)) {
        const Requirement wanted = read(object);
        parts.push_back(fmt::format("{} {}{}{}", wanted.key, wanted.relation,
                                    wanted.values.empty() ? "" : " ",
                                    fmt::join(wanted.values, ",")));
      }
    }
    terms.push_back(fmt::format("{}", fmt::join(parts, "; ")));
  }
  return fmt::format("{}", fmt::join(terms, ", or "));
}

}  // namespace adaptdl::kubernetes
