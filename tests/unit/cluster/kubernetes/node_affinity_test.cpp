#include "core/cluster/kubernetes/nodes/node_affinity.h"

#include <doctest/doctest.h>

using namespace adaptdl;
using namespace adaptdl::kubernetes;

namespace {

NodeFacts sample_node() {
  NodeFacts node;
  node.name = "n1";
  node.labels = {{"zone", "a"}, {"disk", ""}, {"gpus", "8"}};
  return node;
}

bool meets_terms(const std::string& terms) {
  return meets_affinity({{"nodeSelectorTerms", Json::parse(terms)}}, sample_node());
}

bool meets(const std::string& key, const std::string& relation, const std::string& values = "[]") {
  return meets_terms(
      fmt::format(R"([{{"matchExpressions": [{{"key": "{}", "operator": "{}", "values": {}}}]}}])",
                  key, relation, values));
}

}  // namespace

TEST_CASE("node affinity: what a label may be asked for") {
  CHECK(meets("zone", "In", R"(["b", "a"])"));
  CHECK_FALSE(meets("zone", "In", R"(["b"])"));
  CHECK_FALSE(meets("none", "In", R"([""])"));
  CHECK(meets("zone", "NotIn", R"(["b"])"));
  CHECK_FALSE(meets("zone", "NotIn", R"(["b", "a"])"));
  CHECK(meets("none", "NotIn", R"(["a"])"));
  CHECK(meets("disk", "Exists"));
  CHECK_FALSE(meets("none", "Exists"));
  CHECK(meets("none", "DoesNotExist"));
  CHECK_FALSE(meets("disk", "DoesNotExist"));
  CHECK(meets("gpus", "Gt", R"(["7"])"));
  CHECK_FALSE(meets("gpus", "Gt", R"(["8"])"));
  CHECK(meets("gpus", "Lt", R"(["10"])"));  // as numbers
  CHECK_FALSE(meets("gpus", "Lt", R"(["8"])"));
  for (const char* relation : {"Gt", "Lt"}) {
    CHECK_FALSE(meets("zone", relation, R"(["1"])"));
    CHECK_FALSE(meets("none", relation, R"(["1"])"));
    CHECK_FALSE(meets("gpus", relation, R"(["many"])"));
    CHECK_FALSE(meets("gpus", relation, R"(["1", "20"])"));
  }
  CHECK_FALSE(meets("zone", "Near", R"(["a"])"));
}

TEST_CASE("node affinity: one of the terms, and all of it") {
  const std::string yes = R"({"key": "zone", "operator": "In", "values": ["a"]})",
                    no = R"({"key": "zone", "operator": "DoesNotExist"})",
                    name = R"({"key": "metadata.name", "operator": "In", "values": ["n1"]})",
                    other = R"({"key": "metadata.name", "operator": "NotIn", "values": ["n1"]})";
  const auto term = [](const std::string& labels, const std::string& fields) {
    return fmt::format(R"({{"matchExpressions": [{}], "matchFields": [{}]}})", labels, fields);
  };
  CHECK(meets_terms("[" + term(no, "") + "," + term(yes, "") + "]"));
  CHECK_FALSE(meets_terms("[" + term(yes + "," + no, "") + "]"));
  CHECK(meets_terms("[" + term("", name) + "]"));
  CHECK(meets_terms("[" + term(yes, name) + "]"));
  CHECK_FALSE(meets_terms("[" + term(yes, other) + "]"));
  CHECK_FALSE(meets_terms("[" + term("", yes) + "]"));  // a field that is none
  // An empty term is met by nothing, and so is a list without terms.
  CHECK_FALSE(meets_terms("[{}]"));
  CHECK_FALSE(meets_terms("[]"));
  CHECK(meets_terms("[{}, " + term(yes, "") + "]"));
}

TEST_CASE("node affinity: who asks for nothing is met, what cannot be read is not") {
  CHECK(meets_affinity(required_affinity(Json()), sample_node()));
  CHECK(meets_affinity(required_affinity(Json::parse(R"({"affinity": {"podAffinity": {}}})")),
                       sample_node()));
  for (const char* odd : {"5", "[]", "{}", R"({"nodeSelectorTerms": 3})",
                          R"({"nodeSelectorTerms": [7, {"matchExpressions": 1}]})",
                          R"({"nodeSelectorTerms": [{"matchExpressions": [null, "x"]}]})",
                          R"({"nodeSelectorTerms": [{"matchExpressions": [
                              {"key": 1, "operator": "In", "values": [{}]}]}]})"}) {
    CAPTURE(std::string(odd));
    CHECK_FALSE(meets_affinity(Json::parse(odd), sample_node()));
    affinity_text(Json::parse(odd));
  }
}

TEST_CASE("node affinity: in words") {
  CHECK(affinity_text(Json::parse(R"({"nodeSelectorTerms": [
          {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]},
                                {"key": "disk", "operator": "Exists"}]},
          {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}]})")) ==
        "zone In a,b; disk Exists, or metadata.name NotIn n1");
}
