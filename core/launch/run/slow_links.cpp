#include "core/launch/run/slow_links.h"

#include <nlohmann/json.hpp>
#include <set>

#include "core/formats/json.h"

namespace adaptdl::launch {

SlowLinkFacts SlowLinks::facts_of(const char* state, const SlowLink& evidence) const {
  const Host& host = hosts_.at(evidence.host);
  SlowLinkFacts facts{.state = state,
                      .member = host.member,
                      .host = host.name,
                      .bytes_per_s = 1 / evidence.byte_s,
                      .others_bytes_per_s = 1 / evidence.others_byte_s,
                      .factor = evidence.factor(),
                      .waited = evidence.waited};
  if (evidence.peer) {
    facts.peer = hosts_.at(*evidence.peer).member;
    facts.peer_host = hosts_.at(*evidence.peer).name;
  }
  return facts;
}

std::vector<SlowLinkFacts> SlowLinks::facts() const {
  std::vector<SlowLinkFacts> all;
  for (const SlowLink& one : watch_.slow()) all.push_back(facts_of("slow", one));
  return all;
}

void SlowLinks::tell(const std::vector<LinkWatch::News>& news) {
  for (const LinkWatch::News& one : news) {
    report_.slow_link(facts_of(word_of(one.what), one.evidence));
  }
}

void SlowLinks::check() {
  const Generation& current = view_.current;
  if (current.number == generation_) return;
  generation_ = current.number;
  std::set<int> hosts;
  for (const MemberId member : current.members) {
    const auto number = replicas_.host_number_of(member);
    if (!number || !hosts.insert(*number).second) continue;
    hosts_[*number] = {replicas_.host_of(member), member};
  }
  tell(watch_.hosts(hosts));
}

void SlowLinks::links(MemberId from, const nlohmann::json& message) {
  check();
  const Generation& current = view_.current;
  if (json_get<uint64_t>(message, "generation", "links") != current.number) return;  // it is over
  const auto number = replicas_.host_number_of(from);
  if (!number || !hosts_.contains(*number) || hosts_[*number].member != from) return;
  LinkWindow window{.from = *number, .seconds = message.at("seconds").get<double>()};
  for (const nlohmann::json& to : message.at("to")) {
    const MemberId member = current.members.at(json_get<uint64_t>(to, "rank", "links"));
    const auto host = replicas_.host_number_of(member);
    if (!host || !hosts_.contains(*host)) continue;  // it has died
    window.to.push_back({.host = *host,
                         .bytes = to.at("bytes").get<double>(),
                         .busy_s = to.at("busy_s").get<double>()});
  }
  tell(watch_.window(window));
}

}  // namespace adaptdl::launch
