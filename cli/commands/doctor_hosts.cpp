#include "cli/commands/doctor_hosts.h"

#include <algorithm>
#include <fmt/format.h>

#include "cli/frame/output.h"

namespace adaptdl::cli {
namespace {

constexpr double kGradients = 100e6;  // bytes: of 25 million parameters in f32
constexpr double kSlow = 2;           // times slower than the middle one is worth a word

std::string time_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.3g} s", seconds);
}

std::string addresses_text(const std::vector<TcpAddress>& addresses) {
  std::string text;
  for (const TcpAddress& each : addresses) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", each.host, each.interface);
  }
  return text;
}

// With several connections.
Json more_addresses(const std::optional<launch::LinkMeasure>& measure) {
  Json list = Json::array();
  for (size_t i = 1; measure && i < measure->addresses.size(); ++i) {
    const TcpAddress& each = measure->addresses[i];
    list.push_back({{"address", each.host}, {"interface", each.interface}});
  }
  return list;
}

int taking_part(const launch::HostCheck& check) {
  return static_cast<int>(std::ranges::count_if(check.problems, &std::string::empty));
}

double all_reduce_s(const launch::HostCheck& check, const launch::CheckedLink& slowest) {
  return launch::all_reduce_bound_s(kGradients, taking_part(check), *slowest.bytes_per_s);
}

// Whether the slowest link holds up the others.
bool stands_out(const launch::HostCheck& check, const launch::CheckedLink& slowest) {
  std::vector<double> rates;
  for (const auto& link : check.links) {
    if (link.bytes_per_s) rates.push_back(*link.bytes_per_s);
  }
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::ranges::nth_element(rates, middle);
  return *slowest.bytes_per_s * kSlow < *middle;
}

}  // namespace

std::string describe(const launch::HostCheck& check, const std::vector<std::string>& hosts) {
  std::string text, problems;
  std::vector<std::vector<std::string>> rows;
  for (const auto& link : check.links) {
    const std::string &from = hosts[link.from], &to = hosts[link.to];
    if (!link.measure) {
      problems += fmt::format("!!  {} cannot connect to {}: {}\n", from, to, link.problem);
    }
    rows.push_back({from, to, link.measure ? addresses_text(link.measure->addresses) : "none",
                    link.measure ? time_text(link.measure->latency_s) : "-",
                    link.bytes_per_s ? network_rate(*link.bytes_per_s) : "-"});
  }
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (check.problems[i].empty()) continue;
    problems += fmt::format("!!  {}: {}\n", hosts[i], check.problems[i]);
  }
  if (!rows.empty()) text = table({"FROM", "TO", "ADDRESS", "LATENCY", "BANDWIDTH"}, rows);
  if (const auto* link = launch::slowest(check)) {
    text += fmt::format(
        "\nAn all-reduce of 100 MB of gradients, those of 25 million parameters, takes these {} "
        "hosts at least\n{}: the slowest link, from {} to {}, carries {} over {}.\n"
        "(Half of it with gradient_compression=bf16.)\n",
        taking_part(check), time_text(all_reduce_s(check, *link)), hosts[link->from],
        hosts[link->to], network_rate(*link->bytes_per_s),
        check.connections == 1 ? "one connection"
                               : fmt::format("{} connections", check.connections));
    if (stands_out(check, *link)) {
      text += fmt::format(
          "That link is the bottleneck: most others are more than {:g} times as fast.\n", kSlow);
    }
  }
  if (problems.empty()) return text;
  return text + (text.empty() ? "" : "\n") + problems +
         "\nReplicas need connections in both directions, on any port or those of --ports. Look at "
         "firewalls, and\nat --interface and --advertise of `adaptdl run`.\n";
}

Json to_json(const launch::HostCheck& check, const std::vector<std::string>& hosts) {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  Json result = {{"ok", launch::all_reach(check)},
                 {"hosts", Json::array()},
                 {"connections", check.connections},
                 {"links", Json::array()},
                 {"all_reduce", nullptr}};
  for (size_t i = 0; i < hosts.size(); ++i) {
    result["hosts"].push_back({{"host", hosts[i]}, {"problem", text_or_null(check.problems[i])}});
  }
  for (const auto& link : check.links) {
    const auto& measure = link.measure;
    result["links"].push_back(
        {{"from", hosts[link.from]},
         {"to", hosts[link.to]},
         {"address", measure ? Json(measure->addresses.front().host) : Json(nullptr)},
         {"interface", measure ? Json(measure->addresses.front().interface) : Json(nullptr)},
         {"more_addresses", more_addresses(measure)},
         {"latency_s", measure ? Json(measure->latency_s) : Json(nullptr)},
         {"bytes_per_s", link.bytes_per_s ? Json(*link.bytes_per_s) : Json(nullptr)},
         {"problem", text_or_null(link.problem)}});
  }
  if (const auto* link = launch::slowest(check)) {
    result["all_reduce"] = {{"bytes", kGradients},
                            {"seconds", all_reduce_s(check, *link)},
                            {"from", hosts[link->from]},
                            {"to", hosts[link->to]}};
  }
  return result;
}

}  // namespace adaptdl::cli
