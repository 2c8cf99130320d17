#include "core/launch/run/link_news.h"

#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace adaptdl::launch {

namespace {

constexpr size_t kMostKept = 10'000;  // sentences; a program may say anything

}  // namespace

void LinkNews::connected(const nlohmann::json& hosts) {
  for (const nlohmann::json& each : hosts) {
    tell(fmt::format("replicas on {} are reached at {} ({})", each.value("host", "?"),
                     each.value("address", "?"), each.value("interface", "?")));
  }
}

void LinkNews::unreachable(const std::string& reason) {
  tell(reason +
       ". Is a firewall in between? --ports sets the ports of a host's replicas, --interface and "
       "--advertise the address at which others reach them");
}

void LinkNews::tell(const std::string& sentence) {
  if (told_.size() >= kMostKept || !told_.insert(sentence).second) return;
  report_.talk(sentence);
}

}  // namespace adaptdl::launch
