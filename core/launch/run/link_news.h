#pragma once

// What replicas say about the connections between hosts, for the user: each fact once, however many
// replicas and generations repeat it.

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "core/launch/io/run_report.h"

namespace adaptdl::launch {

// One thread.
class LinkNews {
 public:
  explicit LinkNews(RunReport& report) : report_(report) {}  // borrowed

  // `hosts`: of the message `connected`.
  void connected(const nlohmann::json& hosts);
  // `reason`: a sentence, of the message `lost`.
  void unreachable(const std::string& reason);

 private:
  void tell(const std::string& sentence);

  RunReport& report_;
  std::set<std::string> told_;
};

}  // namespace adaptdl::launch
